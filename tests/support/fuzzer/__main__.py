"""`python -m support.fuzzer`."""

import sys

from support.fuzzer.command import main

if __name__ == "__main__":
    sys.exit(main())
