"""The command line: one command per question, and `run`, which keeps the index.

Exit status: 0 done, 1 a problem was found that a person must look at, 2 wrong use, 75 a failure that may be
gone when the command is started again, 78 a set-up of `run` that no restart mends, 130 interrupted. Heavy
imports stand inside the commands, so that `tailbit count` neither starts a JVM nor loads pyspark.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from typing import Any

import click

from tailbit.base.errors import NotATableError, TailbitError, UsageError
from tailbit.cli import AGAIN, CONFIGURATION, INTERRUPTED, PROBLEM, WRONG_USE, mistakes
from tailbit.cli.advice import advise
from tailbit.cli.definitions import index_group, sql
from tailbit.cli.keys import erase, locate
from tailbit.cli.options import AnswersOne, HintingGroup
from tailbit.cli.questions import (
    count,
    crosstab,
    explain,
    facets,
    histogram,
    positions,
    read,
    records,
    summary,
    to_delta,
    transitions,
)
from tailbit.cli.running import run
from tailbit.cli.status import status
from tailbit.cli.upkeep import alter, compact, doctor, repair, vacuum, verify

PURPOSES: dict[str, tuple[click.Command, ...]] = {
    "Ask": (
        *(count, facets, summary, crosstab, histogram, transitions, read, positions, locate, records),
        *(to_delta, explain),
    ),
    "Choose and keep indexes": (run, index_group, sql, advise, alter),
    "Look after them": (status, verify, repair, compact, vacuum, doctor),
    "Change the table": (erase,),
}
COMMANDS = tuple(command for commands in PURPOSES.values() for command in commands)
SUBCOMMANDS = {
    f"{group.name} {name}": subcommand
    for group in COMMANDS
    if isinstance(group, click.Group)
    for name, subcommand in group.commands.items()
}
"""The commands of groups, by the words that call them."""


def main() -> None:
    """Run the command line; errors become one or two lines on stderr and an exit status."""
    if sys.stdout is None:
        sys.stderr.write("standard output is closed\n")
        sys.exit(WRONG_USE)
    # Characters that the encoding of the output lacks are written as escapes.
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        code = cli(standalone_mode=False, obj=AnswersOne())
        sys.stdout.flush()
    except click.ClickException as wrong:
        wrong.show()
        sys.exit(wrong.exit_code)
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        sys.exit(INTERRUPTED)
    except TailbitError as error:
        click.echo(error.describe(), err=True)
        sys.exit(_status_of_run(error) if sys.argv[1:2] == ["run"] else _status(error))
    except (_NobodyReads, BrokenPipeError):
        _leave_quietly()
    except OSError as refused:
        if refused.errno not in _FULL:
            raise
        click.echo(f"standard output cannot be written: {os.strerror(refused.errno)}", err=True)
        _leave_quietly(AGAIN)
    sys.exit(code if isinstance(code, int) else 0)


def _status(error: TailbitError) -> int:
    """Return the exit status: `AGAIN` if a restart may help, else `WRONG_USE` or `PROBLEM`."""
    if error.retryable:
        return AGAIN
    return WRONG_USE if isinstance(error, UsageError) else PROBLEM


def _status_of_run(error: TailbitError) -> int:
    """Return the exit status for an indexer's supervisor: whether a restart can end differently.

    A missing table may come back, as on a disk that is mounted later; a right may be granted.
    """
    from tailbit.tables.storage.refusals import may_pass

    return AGAIN if isinstance(error, NotATableError) or may_pass(error) else CONFIGURATION


_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


def _leave_quietly(status: int = 0) -> None:
    """End silently because the reader has closed the pipe, as `head` does."""
    with contextlib.suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(status)


class _NobodyReads(Exception):
    """The reader of the command's output has closed the pipe."""


class _Commands(HintingGroup):
    """The command group that handles a broken pipe; click would end with status 1.

    It lists the commands by what they are for.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the options before the command."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as wrong:
            hint = mistakes.for_option_before_command(wrong.option_name)
            raise click.UsageError(f"{wrong.message} {hint}", ctx) from wrong

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands, each under what it is for."""
        longest = max(len(str(command.name)) for command in COMMANDS)
        for purpose, commands in PURPOSES.items():
            with formatter.section(purpose):
                limit = formatter.width - longest - 6
                listed = [(str(command.name), command.get_short_help_str(limit)) for command in commands]
                formatter.write_dl(listed)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError as gone:
            raise _NobodyReads from gone


@click.group(
    cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(package_name="tailbit", prog_name="tailbit")
def cli() -> None:
    """Row-level Roaring bitmap indexes for Delta, Hudi and Iceberg tables, right at any lag.

    Keep an index:  tailbit run TABLE --columns carrier,origin,dest

    Ask it:         tailbit count TABLE "carrier = 'UA' AND dest IN ('SFO','LAX')"

    TABLE is the folder that holds _delta_log, .hoodie or metadata. A question needs no index and no indexer
    to be answered rightly: whatever the index does not cover is scanned.
    """


for command in (*COMMANDS, *SUBCOMMANDS.values()):
    # Docstrings are raw text; the mark that keeps lines apart in a help text is one character to click.
    command.help = (command.help or "").replace("\\b\n", "\b\n")
for command in COMMANDS:
    cli.add_command(command)


if __name__ == "__main__":
    main()
