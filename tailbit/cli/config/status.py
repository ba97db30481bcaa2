"""`tailbit status --config`: a line for each table of a configuration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import click

from tailbit.checkpoints.signs import running_indexer
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
    from tailbit.cli.status_page import print_lines

    read = read_config(file)
    for warning in read.problems.warnings:
        click.echo(f"warning: {warning}", err=True)
    place = lease_place(read.config, file)
    states, application = states_of(place), _application(place)
    tables = [located(table, states) for table in read.config.table]
    accounts = each(_account, tables, _late, TOGETHER, LOOK_S)

    def judged() -> Iterator[tuple[dict[str, Any], bool, bool]]:
        for table, stored in zip(tables, accounts, strict=True):
            state = states.get(table.id, {})
            account = {"id": table.id, **_of_application(stored, application, state), **_trouble(state)}
            limit = table.max_lag if max_lag is None else max_lag
            yield account, is_within(account, limit), table.paused

    return print_lines(judged(), as_json)


def _application(place: Storage) -> str | None:
    """Return host and process of the application at work; None if none gives a sign of life."""
    try:
        return running_indexer(place)
    except (TailbitError, OSError):
        return None


def _of_application(
    account: dict[str, Any], application: str | None, state: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the account of a table whose index its application makes, or has not opened yet."""
    if application is None or account.get("last_sign_of_life") or state.get("state") == PAUSED:
        return account
    made = {"error": "no index yet: the application makes it"} if account.get("unmade") else {}
    return {**account, **made, "indexer": application, "state": account.get("state", state.get("state", "-"))}


def _trouble(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the application last wrote of a table that it cannot index now, and of lost indexes."""
    trouble: dict[str, Any] = {}
    if state.get("reason"):
        trouble["application"] = {key: state.get(key) for key in ("state", "reason", "remedy", "since")}
    if state.get("lost_indexes"):
        trouble["lost_indexes"] = state["lost_indexes"]
    return trouble


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
