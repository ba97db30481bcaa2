"""Index a year of flights while it is written, kill the indexer on the way, check every answer."""

from __future__ import annotations

import argparse
import sys

from demo.run import run_demo
from tailbit.errors import TailbitError

INTERRUPTED = 130


def main() -> int:
    """Run the demo; errors become one or two lines on stderr and an exit status."""
    parser = argparse.ArgumentParser(prog="demo", description=__doc__)
    parser.add_argument("--folder", metavar="PATH", help="where to put the table (default: temporary)")
    try:
        return run_demo(parser.parse_args().folder)
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        return INTERRUPTED
    except TailbitError as error:
        sys.stderr.write(f"{error.describe()}\n")
        return 1


if __name__ == "__main__":
    sys.exit(main())
