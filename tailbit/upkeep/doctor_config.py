"""What `tailbit doctor --config` finds: of the file, and of each table that the file names."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from tailbit.errors import ConfigError
from tailbit.streaming.config.check import TOGETHER, look_at
from tailbit.streaming.config.model import TableEntry
from tailbit.streaming.config.read import ReadConfig, read_config
from tailbit.streaming.life.crew import each
from tailbit.upkeep.doctor import of_table
from tailbit.upkeep.finding import Finding, State
from tailbit.wording import counted

_NEEDED = "a configuration that can be run"

LOOK_S = 60.0
"""Most seconds that the checks of one table may take."""


def of_config(file: str) -> Iterator[Finding]:
    """Yield the findings about a configuration; only those of the file itself if it is wrong."""
    try:
        read = read_config(file)
    except ConfigError as wrong:
        for line in str(wrong).splitlines():
            yield Finding("configuration", State.PROBLEM, line, _NEEDED, "Correct this line.")
        return
    for warning in read.problems.warnings:
        remedy = "Write ${NAME} there, and set that variable of the environment."
        yield Finding("configuration", State.WARNING, str(warning), "no secrets in files", remedy)
    yield Finding("configuration", State.OK, f"{file}: {counted(len(read.config.table), 'table')}")
    of_table = partial(_findings, read, f"tailbit run --config {file}")
    for findings in each(of_table, read.config.table, _late, TOGETHER, LOOK_S):
        yield from findings


def _findings(read: ReadConfig, command: str, table: TableEntry) -> list[Finding]:
    return list(_of_entry(read, table, command))


def _late(table: TableEntry) -> list[Finding]:
    """Return the finding about a table whose store does not answer in time."""
    found = f"{table.place}: no answer within {LOOK_S:.0f} s"
    remedy = "See whether the store can be reached from this machine. An application goes on with the others."
    return [Finding(f"{table.id}: table", State.PROBLEM, found, "a store that answers", remedy)]


def _of_entry(read: ReadConfig, table: TableEntry, command: str) -> Iterator[Finding]:
    """Yield the findings about one table of a configuration; the name of each check begins with its id."""
    if table.path is None:
        known = f"{table.place} is known to Spark's catalog, and not looked at here"
        yield Finding(f"{table.id}: table", State.OK, known)
        return
    for keys, found in look_at(table).problems:
        line = read.problems.line(read.place_of(table, *keys))
        where = f"{read.problems.file}:{line}: {found}"
        yield Finding(f"{table.id}: configuration", State.PROBLEM, where, _NEEDED, "Correct this line.")
    for finding in of_table(table.path, table.index, table.storage_options, table.max_lag, command):
        yield replace(finding, check=f"{table.id}: {finding.check}")
