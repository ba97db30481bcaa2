"""`python -m support.soak`."""

import sys

from support.soak.command import main

if __name__ == "__main__":
    sys.exit(main())
