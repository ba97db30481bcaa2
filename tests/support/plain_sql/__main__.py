"""`python -m support.plain_sql`."""

import sys

from support.plain_sql.command import main

if __name__ == "__main__":
    sys.exit(main())
