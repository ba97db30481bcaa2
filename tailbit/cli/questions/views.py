"""The command that writes rows as a Delta table without copies."""

from __future__ import annotations

from typing import Any

import click

from tailbit.cli.options import Question, ask, only_condition, query_options, warn, where_option


@click.command(cls=Question)
@click.argument("table")
@click.argument("path")
@click.argument("condition", required=False)
@where_option
@query_options
def to_delta(table: str, path: str, condition: str | None, where: str | None, **options: Any) -> None:
    r"""Write the rows of TABLE where CONDITION is true as a Delta table at PATH that copies no data.

    \b
    tailbit to-delta orders orders-today
    tailbit to-delta orders lima "city = 'Lima'" --version 20261126120629298

    The new table names the data files of TABLE, and deletion vectors hide all other rows: Spark and others
    that read Delta open it, also where TABLE is a Hudi table, which they then read without Hudi. It stays at
    its version, and can be read until the cleaner of TABLE (VACUUM) deletes data files of that version.

    Refused by name: rows in log blocks of a MERGE_ON_READ table, which are no data files, and columns that a
    file stores by another type than such readers widen.
    """
    answer = ask(table, only_condition(condition, where), options)
    click.echo(answer.to_delta(path))
    warn(answer)
