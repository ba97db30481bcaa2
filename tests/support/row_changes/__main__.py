"""`python -m support.row_changes`."""

import sys

from support.row_changes.command import main

if __name__ == "__main__":
    sys.exit(main())
