"""`tailbit status --config --watch`: the lines of all tables, again and again, until Ctrl-C."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping, Sequence
from http.client import HTTPException
from typing import Any

import click
import orjson

from tailbit.cli.config.status import in_words, lost_in_words, status_of_config
from tailbit.cli.options import emit
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
        _print_live(accounts, max_lag, as_json)


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
            return seen["tables"] if seen["leading"] and is_meant else None
    except (OSError, HTTPException, ValueError, KeyError, TypeError):
        return None


def _print_live(accounts: Sequence[Mapping[str, Any]], max_lag: float | None, as_json: bool) -> None:
    from tailbit.cli.render import print_table
    from tailbit.cli.status_page import in_short

    lines = []
    for account in accounts:
        lag = account["lag"]
        limit = account["max_lag"] if max_lag is None else max_lag
        is_built = account["state"] in ("following", "behind") and lag is not None
        within = is_built and lag["seconds"] <= limit
        if as_json:
            emit({**account, "within_max_lag": within})
            continue
        word = "paused" if account["state"] == "paused" else "ok" if within else "LATE"
        behind = "-" if lag is None else f"{lag['versions']} versions, {lag['seconds']:.1f} s"
        troubles = [in_words(account) if account["reason"] else "", lost_in_words(account)]
        trouble = "; ".join(filter(None, troubles))
        state = f"{account['state']}{in_short(account)}"
        lines.append([word, account["id"], account["table"], state, behind, trouble])
    if not as_json:
        print_table(["", "id", "table", "state", "behind", "trouble"], lines)
