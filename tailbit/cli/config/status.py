"""`tailbit status --config`: a line for each table of a configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from tailbit.checkpoints.signs import running_indexer
from tailbit.cli.options import emit
from tailbit.cli.statuses import PROBLEM
from tailbit.errors import NoIndexError, TailbitError
from tailbit.streaming.config.check import LOOK_S, TOGETHER
from tailbit.streaming.config.model import TableEntry
from tailbit.streaming.config.read import read_config
from tailbit.streaming.life.crew import each
from tailbit.streaming.many.states import lease_place, located, states_of
from tailbit.streaming.seen.table_state import TableState
from tailbit.tables.storage import Storage
from tailbit.upkeep.status import is_within, status_of

PAUSED = TableState.PAUSED.value


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
    place = lease_place(read.config, file)
    states, application = states_of(place), _application(place)
    lines, late = [], False
    tables = [located(table, states) for table in read.config.table]
    accounts = each(_account, tables, _late, TOGETHER, LOOK_S)
    for table, found in zip(tables, accounts, strict=True):
        state = states.get(table.id, {})
        account = _kept(found, application, state) | _troubled(state)
        within = is_within(account, table.max_lag if max_lag is None else max_lag)
        late |= not within and not table.paused
        if as_json:
            emit({"id": table.id, **account, "within_max_lag": within})
        word, *rest = line_of(account, within)
        instead = [f"read instead: {text}" for text in read_instead(account)]
        lost = lost_in_words(state)
        told = "; ".join(filter(None, [in_words(account.get("application", {})), lost, *instead]))
        lines.append(["paused" if table.paused else word, table.id, *rest, told])
    if not as_json:
        print_table(["", "id", "table", "state", "lag", "indexer", "trouble"], lines)
    return PROBLEM if late else 0


def _application(place: Storage) -> str | None:
    """Return host and process of the application at work; None if none gives a sign of life."""
    try:
        return running_indexer(place)
    except (TailbitError, OSError):
        return None


def _kept(account: dict[str, Any], application: str | None, state: Mapping[str, Any]) -> dict[str, Any]:
    """Return the account of a table whose index its application makes, or has not opened yet."""
    if application is None or account.get("last_sign_of_life") or state.get("state") == PAUSED:
        return account
    made = {"error": "no index yet: the application makes it"} if account.get("unmade") else {}
    return {**account, **made, "indexer": application, "state": account.get("state", state.get("state", "-"))}


def _troubled(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the application last wrote about a table that it cannot index now; empty for others."""
    if not state.get("reason"):
        return {}
    return {"application": {key: state.get(key) for key in ("state", "reason", "remedy", "since")}}


def in_words(trouble: Mapping[str, Any]) -> str:
    """Return state and reason of a table in trouble, in a cell; empty without trouble."""
    return f"{trouble['state']}: {trouble['reason']}" if trouble else ""


def lost_in_words(state: Mapping[str, Any]) -> str:
    """Return which indexes were lost with an earlier index of a table, in a cell; empty for none."""
    lost = state.get("lost_indexes")
    return f"lost with an earlier index: {', '.join(lost)}" if lost else ""


def _late(table: TableEntry) -> dict[str, Any]:
    return {"table": table.place, "error": f"no answer within {LOOK_S:.0f} s"}


def _account(table: TableEntry) -> dict[str, Any]:
    """Return the status of one table, or why there is none."""
    if table.path is None:
        reason = "no application has found it in its catalog yet, which needs Spark"
        return {"table": table.place, "error": reason}
    try:
        return status_of(table.path, table.index, table.storage_options)
    except NoIndexError as unmade:
        hint = "the application makes it: tailbit run --config"
        return {"table": table.path, "error": f"{unmade}; {hint}", "unmade": True}
    except TailbitError as error:
        return {"table": table.path, "error": str(error)}
