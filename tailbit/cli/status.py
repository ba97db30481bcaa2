"""The command `status`: the state of an index, of several, or of all tables of a configuration."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from tailbit.base.errors import TailbitError
from tailbit.cli import PROBLEM
from tailbit.cli.options import (
    HintingCommand,
    config_option,
    emit,
    index_option,
    json_option,
    only_config,
    storage_options,
)


@click.command(cls=HintingCommand)
@click.argument("tables", metavar="TABLE...", nargs=-1)
@config_option
@index_option
@click.option(
    "--max-lag",
    metavar="SECONDS",
    type=click.FloatRange(min=0),
    help="Exit status 1 if a commit waits longer than this to be indexed.  [default of several tables: 300; "
    "of a configuration: each table's max_lag]",
)
@click.option(
    "--watch",
    metavar="[SECONDS]",
    type=click.FloatRange(min=0.1),
    is_flag=False,
    flag_value=5.0,
    help="With --config: show the lines again and again, each 5 seconds or as given, until Ctrl-C.",
)
@json_option
def status(
    tables: tuple[str, ...],
    config: str | None,
    index: str | None,
    max_lag: float | None,
    watch: float | None,
    as_json: bool,
) -> int:
    r"""Show state, columns, lag and size of the index of TABLE, and whether an indexer runs.

    \b
    tailbit status flights --json
    tailbit status flights --max-lag 60
    tailbit status /lake/flights /lake/airports --max-lag 600
    tailbit status --config tailbit.toml --watch

    Of several tables, a line each (with --json, an object a line): `ok` where every commit older than
    --max-lag is indexed, else `LATE`. Exit status 1 if a table is late, its index damaged, or there is none.
    """
    if config is not None:
        only_config(tables, index)
        return _status_of_config(config, max_lag, watch, as_json)
    if watch is not None:
        raise click.UsageError("--watch is of a configuration: --config FILE")
    if not tables:
        raise click.UsageError("name a table, or a configuration: --config FILE")
    if len(tables) > 1:
        if index is not None:
            raise click.UsageError("--index is of one table")
        return _status_of_each(tables, _MAX_LAG if max_lag is None else max_lag, as_json)
    from tailbit.upkeep.status import is_within, status_of

    account = status_of(tables[0], index, storage_options())
    if as_json:
        emit(account)
    else:
        from tailbit.cli.status_page import print_status

        print_status(account)
    return 0 if max_lag is None or is_within(account, max_lag) else PROBLEM


def _status_of_config(file: str, max_lag: float | None, watch: float | None, as_json: bool) -> int:
    """Print a line per table of a configuration, once or every `watch` seconds."""
    from tailbit.cli.config_status import status_of_config, watch_config

    return (
        status_of_config(file, max_lag, as_json)
        if watch is None
        else watch_config(file, max_lag, watch, as_json)
    )


_MAX_LAG = 300.0
"""Default seconds that a commit may wait to be indexed, for several tables."""


def _status_of_each(tables: Sequence[str], max_lag: float, as_json: bool) -> int:
    """Print a line per table; return 0 if all keep to the lag."""
    from tailbit.cli.status_page import print_lines
    from tailbit.upkeep.status import is_within, status_of

    def account_of(table: str) -> dict[str, Any]:
        try:
            return status_of(table, None, storage_options())
        except TailbitError as error:
            return {"table": table, "error": str(error)}

    accounts = map(account_of, tables)
    return print_lines(((account, is_within(account, max_lag), False) for account in accounts), as_json)
