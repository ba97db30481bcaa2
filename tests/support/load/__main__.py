"""`python -m support.load`."""

import sys

from support.load.command import main

if __name__ == "__main__":
    sys.exit(main())
