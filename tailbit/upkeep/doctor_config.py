"""What `tailbit doctor --config` finds: of the file, and of each table that the file names."""

from __future__ import annotations

import os
import shlex
import socket
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from http.client import HTTPException
from typing import Any

import orjson

from tailbit.base.errors import ConfigError, TailbitError
from tailbit.base.wording import counted
from tailbit.streaming.config.check import TOGETHER, check_jars, look_at
from tailbit.streaming.config.model import TableEntry
from tailbit.streaming.config.read import ReadConfig, read_config
from tailbit.streaming.life.crew import each
from tailbit.streaming.many.states import checkpoint_of, lease_place, located, states_of
from tailbit.streaming.seen.page import POLICY
from tailbit.streaming.seen.server import OFF, direct
from tailbit.tables.storage import StorageOptions
from tailbit.upkeep.doctor import of_place, of_table
from tailbit.upkeep.finding import Finding, State

_NEEDED = "a configuration that can be run"

_PAGE_S = 2.0

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
    states: Mapping[str, Mapping[str, Any]] = {}
    lease = read.config.application.lease or checkpoint_of(read.config, file)
    with suppress(TailbitError):
        place = lease_place(read.config, file)
        lease, states = place.root, states_of(place)
    yield from _of_application(read, file, lease)
    of_table = partial(_findings, read, shlex.join(["tailbit", "run", "--config", file]))
    tables = [located(table, states) for table in read.config.table]
    for findings in each(of_table, tables, _late, TOGETHER, LOOK_S):
        yield from findings


def _of_application(read: ReadConfig, file: str, lease: str) -> Iterator[Finding]:
    """Yield the findings about jars, folders and port of the application. `lease`: place of its lease."""
    check_jars(read)
    for problem in read.problems.errors:
        yield Finding(
            "jars", State.PROBLEM, str(problem), "jars of the Spark that runs", "Correct this line."
        )
    given, options = read.config.application, StorageOptions.of(read.config.defaults.storage_options)
    checkpoint = checkpoint_of(read.config, file)
    if "://" not in checkpoint:
        yield of_place("checkpoint", checkpoint, options, "`checkpoint` of [application]")
    if given.lease is not None:
        yield of_place("lease", given.lease, options, "`lease` of [application]")
    if given.metrics != OFF:
        yield _of_port(given.metrics, lease, file)


def _of_port(address: str, lease: str, file: str) -> Finding:
    """Check that the pages can be served, unless the application with this lease serves them already."""
    host, _, port = address.rpartition(":")
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        with socket.create_server((host.strip("[]"), int(port)), family=family):
            return Finding("port of the pages", State.OK, f"{address} is free")
    except OSError as refused:
        # A host that is not known has a negative number, which is none of the operating system's.
        number = refused.errno or 0
        text = f"{address}: {os.strerror(number) if number > 0 else refused.strerror or refused}"
    with (
        suppress(OSError, ValueError, HTTPException),
        direct().open(f"http://{address}/status.json", timeout=_PAGE_S) as page,
    ):
        if page.headers["Content-Security-Policy"] == POLICY:
            seen = orjson.loads(page.read())
            if seen.get("lease") == lease or seen.get("config") == os.path.abspath(file):
                return Finding("port of the pages", State.OK, f"{address}: this application serves there")
            text = f"{address}: the application with the lease {seen.get('lease')} serves there"
    remedy = "Name another address by `metrics` of [application]; without the pages, indexing goes on."
    return Finding("port of the pages", State.WARNING, text, "a port that is free", remedy)


def _findings(read: ReadConfig, command: str, table: TableEntry) -> list[Finding]:
    return list(_of_entry(read, table, command))


def _late(table: TableEntry) -> list[Finding]:
    """Return the finding about a table whose store does not answer in time."""
    text = f"{table.place}: no answer within {LOOK_S:.0f} s"
    remedy = "See whether the store can be reached from this machine. An application goes on with the others."
    return [Finding(f"{table.id}: table", State.PROBLEM, text, "a store that answers", remedy)]


def _of_entry(read: ReadConfig, table: TableEntry, command: str) -> Iterator[Finding]:
    """Yield the findings about one table of a configuration; the name of each check begins with its id."""
    if table.path is None:
        remark = f"{table.place} is of Spark's catalog, and looked at once an application has found it there"
        yield Finding(f"{table.id}: table", State.OK, remark)
        return
    look = look_at(table)
    for keys, problem in look.problems:
        where = f"{read.line_of(table, *keys)}: {problem}"
        if keys == ("path",):
            remedy = "Mend the table, or take it out." if look.is_of_table else "Correct this line."
            yield Finding(f"{table.id}: table", State.PROBLEM, where, "a table that can be read", remedy)
            return
        yield Finding(f"{table.id}: configuration", State.PROBLEM, where, _NEEDED, "Correct this line.")
    for keys, difference in look.differs:
        remedy = "Make file and index agree: until then the index keeps its own, and SIGHUP refuses the file."
        where = f"{read.line_of(table, *keys)}: {difference}"
        yield Finding(f"{table.id}: configuration", State.WARNING, where, _NEEDED, remedy)
    for keys, gone in look.dropped:
        remedy = "Take it out of the file, and of the index by `tailbit alter`: the index goes on without it."
        where = f"{read.line_of(table, *keys)}: {gone}"
        yield Finding(f"{table.id}: configuration", State.WARNING, where, _NEEDED, remedy)
    for finding in of_table(table.path, table.index, table.storage_options, table.max_lag, command):
        yield replace(finding, check=f"{table.id}: {finding.check}")
