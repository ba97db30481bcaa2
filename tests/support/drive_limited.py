"""A stream without Spark in a process whose files may not grow beyond a limit, as on a full disk.

`python -m support.drive_limited TABLE INDEX COLUMN BYTES`: prints the name of the error that ended it.
"""

from __future__ import annotations

import resource
import signal
import sys

from support.drive import Drive
from tailbit.errors import TailbitError


def main(table: str, index: str, column: str, limit: str) -> None:
    """Drain until done or refused."""
    drive = Drive(table, index, [column])
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), int(limit)))
    try:
        drive.drain()
    except TailbitError as error:
        sys.stdout.write(f"{type(error).__name__} {error.retryable}")


if __name__ == "__main__":
    main(*sys.argv[1:])
