"""`tailbit status --config`: a line for each table of a configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from tailbit.cli.options import emit
from tailbit.cli.statuses import PROBLEM
from tailbit.errors import TailbitError
from tailbit.streaming.config.check import LOOK_S, TOGETHER
from tailbit.streaming.config.model import TableEntry
from tailbit.streaming.config.read import read_config
from tailbit.streaming.life.crew import each
from tailbit.streaming.many.states import lease_place, located, states_of
from tailbit.upkeep.status import is_within, status_of


def status_of_config(file: str, max_lag: float | None, as_json: bool) -> int:
    """Print a line per table; return 0 if all keep to their lag. `max_lag`: in place of each table's own.

    Raises:
        ConfigError: the configuration is wrong.
    """
    from tailbit.cli.render import print_table
    from tailbit.cli.status_page import line_of, read_instead

    read = read_config(file)
    for warning in read.problems.warnings:
        click.echo(f"warning: {warning}", err=True)
    states = states_of(lease_place(read.config, file))
    lines, late = [], False
    tables = [located(table, states) for table in read.config.table]
    accounts = each(_account, tables, _late, TOGETHER, LOOK_S)
    for table, found in zip(tables, accounts, strict=True):
        account = found | _troubled(states.get(table.id, {}))
        within = is_within(account, table.max_lag if max_lag is None else max_lag)
        late |= not within and not table.paused
        if as_json:
            emit({"id": table.id, **account, "within_max_lag": within})
        word, *rest = line_of(account, within)
        instead = [f"read instead: {text}" for text in read_instead(account)]
        told = "; ".join(filter(None, [in_words(account.get("application", {})), *instead]))
        lines.append(["paused" if table.paused else word, table.id, *rest, told])
    if not as_json:
        print_table(["", "id", "table", "state", "lag", "indexer", "trouble"], lines)
    return PROBLEM if late else 0


def _troubled(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the application last wrote about a table that it cannot index now; empty for others."""
    if not state.get("reason"):
        return {}
    return {"application": {key: state.get(key) for key in ("state", "reason", "remedy", "since")}}


def in_words(trouble: Mapping[str, Any]) -> str:
    """Return state and reason of a table in trouble, in a cell; empty without trouble."""
    return f"{trouble['state']}: {trouble['reason']}" if trouble else ""


def _late(table: TableEntry) -> dict[str, Any]:
    return {"table": table.place, "error": f"no answer within {LOOK_S:.0f} s"}


def _account(table: TableEntry) -> dict[str, Any]:
    """Return the status of one table, or why there is none."""
    if table.path is None:
        reason = "no application has found it in its catalog yet, which needs Spark"
        return {"table": table.place, "error": reason}
    try:
        return status_of(table.path, table.index, table.storage_options)
    except TailbitError as error:
        return {"table": table.path, "error": str(error)}
