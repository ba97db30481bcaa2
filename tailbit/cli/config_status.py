"""`tailbit status --config`: a line for each table of a configuration, once or until Ctrl-C."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from http.client import HTTPException
from typing import Any

import click
import orjson

from tailbit.base.errors import ConfigError, NoIndexError, TailbitError
from tailbit.checkpoints.signs import running_indexer
from tailbit.cli.status_page import print_lines
from tailbit.streaming.config.check import LOOK_S, TOGETHER
from tailbit.streaming.config.model import TableEntry
from tailbit.streaming.config.read import read_config
from tailbit.streaming.many.states import lease_place, located, states_of
from tailbit.streaming.watch.server import addresses, direct
from tailbit.streaming.watch.thread_pool import run_each
from tailbit.streaming.watch.view import TableState
from tailbit.tables.storage import Storage
from tailbit.upkeep.status import is_within, status_of

PAUSED = TableState.PAUSED.value

_ANSWER_S = 2.0


def status_of_config(file: str, max_lag: float | None, as_json: bool) -> int:
    """Print a line per table; return 0 if all keep to their lag. `max_lag`: in place of each table's own."""
    read = read_config(file)
    for warning in read.problems.warnings:
        click.echo(f"warning: {warning}", err=True)
    place = lease_place(read.config, file)
    states, application = states_of(place), _application(place)
    tables = [located(table, states) for table in read.config.table]
    accounts = run_each(_account, tables, _late, TOGETHER, LOOK_S)

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
    unmade = {"error": "no index yet: the application makes it"} if account.get("unmade") else {}
    return {
        **account,
        **unmade,
        "indexer": application,
        "state": account.get("state", state.get("state", "-")),
    }


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


def watch_config(file: str, max_lag: float | None, every_s: float, as_json: bool) -> int:
    """Print a line per table each `every_s` seconds; return 0 after Ctrl-C.

    While the application runs on this machine, its own page is asked, which costs no request of a store.
    """
    shown = False
    try:
        while True:
            if not as_json and sys.stdout.isatty():
                click.clear()
            try:
                _show(file, max_lag, as_json)
                shown = True
            except ConfigError as wrong:
                # An editor may be in the middle of writing the file.
                if not shown:
                    raise
                click.echo(str(wrong), err=True)
            sys.stdout.flush()
            time.sleep(every_s)
    except KeyboardInterrupt:
        return 0


def _show(file: str, max_lag: float | None, as_json: bool) -> None:
    """Print a line per table, by the application's own page if it runs here."""
    config = read_config(file).config
    accounts = live_accounts(config.application.metrics, lease_place(config, file).root, file)
    if accounts is None:
        status_of_config(file, max_lag, as_json)
    else:
        print_lines(_judged(accounts, max_lag), as_json)


def live_accounts(metrics: str, lease: str, file: str = "") -> Sequence[Mapping[str, Any]] | None:
    """Return the accounts of the tables by the page of the application with a lease, or with a configuration.

    Return None if no page is served at the address `metrics` and the next ports, or those of another
    application, or of one that stands by.
    """
    for address in addresses(metrics):
        accounts = _accounts_at(address, lease, file)
        if accounts is not None:
            return accounts
    return None


def _accounts_at(address: str, lease: str, file: str) -> Sequence[Mapping[str, Any]] | None:
    """Return the accounts of the tables by the page at an address, as `live_accounts` does."""
    try:
        with direct().open(f"http://{address}/status.json", timeout=_ANSWER_S) as page:
            seen = orjson.loads(page.read())
            is_meant = seen["lease"] == lease or seen["config"] == os.path.abspath(file)
            if not seen["leading"] or not is_meant:
                return None
            return [{**account, "indexer": f"http://{address}/"} for account in seen["tables"]]
    except (OSError, HTTPException, ValueError, KeyError, TypeError):
        return None


def _judged(
    accounts: Sequence[Mapping[str, Any]], max_lag: float | None
) -> Iterator[tuple[Mapping[str, Any], bool, bool]]:
    """Yield each account with whether its table keeps to its lag, and whether it is paused."""
    for account in accounts:
        lag, state = account["lag"], account["state"]
        limit = account["max_lag"] if max_lag is None else max_lag
        within = state in ("following", "behind") and lag is not None and lag["seconds"] <= limit
        yield account, within, state == "paused"
