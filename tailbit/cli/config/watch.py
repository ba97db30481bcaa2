"""`tailbit status --config --watch`: the lines of all tables, again and again, until Ctrl-C."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from http.client import HTTPException
from typing import Any

import click
import orjson

from tailbit.cli.config.status import status_of_config
from tailbit.errors import ConfigError
from tailbit.streaming.config.read import read_config
from tailbit.streaming.many.states import lease_place
from tailbit.streaming.seen.asking import direct
from tailbit.streaming.seen.server import addresses

_ANSWER_S = 2.0


def watch_config(file: str, max_lag: float | None, every_s: float, as_json: bool) -> int:
    """Print a line per table each `every_s` seconds; return 0 after Ctrl-C.

    While the application runs on this machine, its own page is asked, which costs no request of a store.

    Raises:
        ConfigError: the configuration is wrong from the beginning; a later error of the file is printed.
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
        from tailbit.cli.status_page import print_lines

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
