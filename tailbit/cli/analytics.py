"""The commands that sum up a column: summary, histogram, transitions."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import click

from tailbit.cli.options import (
    Question,
    VersionText,
    ask,
    emit,
    json_option,
    open_for_question,
    print_values,
    query_options,
    warn,
    where_option,
)

if TYPE_CHECKING:
    from tailbit.answer import Answer

_DIGITS = 15
"""Most digits of a number that every reader of JSON keeps."""


@click.command(cls=Question)
@click.argument("table")
@click.argument("column")
@where_option
@query_options
@json_option
def summary(table: str, column: str, where: str | None, as_json: bool, **options: Any) -> None:
    r"""Print rows, NULLs, distinct values, least and greatest value, sum and average of COLUMN.

    \b
    tailbit summary flights dep_delay --where "origin = 'JFK'"

    With --json: {"column", "version", "rows", "nulls", "distinct", "min", "max", "sum", "avg"}. Sum and
    average are of the types that Spark gives them; of a column that is no number they are null.
    """
    answer = ask(table, where, options)
    record = dataclasses.asdict(answer.summary(column))
    warn(answer)
    if as_json:
        emit({"column": column, "version": answer.version_name, **record})
        return
    print_values([column, "value"], record.items())


@click.command(cls=Question)
@click.argument("table")
@click.argument("column")
@click.option("--bins", type=click.IntRange(min=1), default=10, show_default=True, help="Bins of one width.")
@click.option("--by", metavar="PART", help="Parts of a date or time: year, quarter, month ...")
@where_option
@query_options
@json_option
def histogram(
    table: str, column: str, bins: int, by: str | None, where: str | None, as_json: bool, **options: Any
) -> None:
    r"""Count the rows of TABLE in bins of COLUMN's values, or by parts of its dates and times.

    \b
    tailbit histogram flights dep_delay --bins 20
    tailbit histogram flights day --by month --where "carrier = 'UA'"

    A bin holds its lower edge; the last holds both. NULL and NaN are in none. With --json: {"column",
    "version", "bins": [{"low", "high", "count"}, ...]}, or with --by {"column", "version", "by", "parts":
    [{"begin", "count"}, ...]}. Times are cut in --time-zone.
    """
    answer = ask(table, where, options)
    names, rows = ["low", "high"], [[b.low, b.high, b.count] for b in _bins(answer, column, bins, by)]
    if by is not None:
        names = ["begin"]
        rows = [[v, n] for v, n in answer.date_histogram(column, by, options["time_zone"]).items()]
    warn(answer)
    if as_json:
        kind = {"by": by} if by is not None else {}
        listed = [dict(zip([*names, "count"], row, strict=True)) for row in rows]
        emit({"column": column, "version": answer.version_name, **kind, "parts" if by else "bins": listed})
        return
    print_values([*names, "count"], rows)


def _bins(answer: Answer, column: str, bins: int, by: str | None) -> list[Any]:
    return [] if by is not None else answer.histogram(column, bins)


@click.command(cls=Question)
@click.argument("table")
@click.argument("rows")
@click.argument("columns")
@where_option
@query_options
@json_option
def crosstab(table: str, rows: str, columns: str, where: str | None, as_json: bool, **options: Any) -> None:
    r"""Count the rows of TABLE by the values of two columns: ROWS down the side, COLUMNS along the top.

    \b
    tailbit crosstab flights carrier origin --where "dep_delay > 60"
    tailbit crosstab flights carrier "dep_delay > 60"

    With --json: {"rows": {"column", "values"}, "columns": {"column", "values"}, "version", "counts"}.
    """
    answer = ask(table, where, options)
    table_of_counts = answer.crosstab(rows, columns)
    warn(answer)
    if as_json:
        sides = {"rows": (rows, table_of_counts.rows), "columns": (columns, table_of_counts.columns)}
        record = {side: {"column": name, "values": values} for side, (name, values) in sides.items()}
        emit({**record, "version": answer.version_name, "counts": table_of_counts.counts.tolist()})
        return
    header = [f"{rows} / {columns}", *table_of_counts.columns]
    pairs = zip(table_of_counts.rows, table_of_counts.counts.tolist(), strict=True)
    print_values(header, [[value, *counts] for value, counts in pairs])


@click.command(cls=Question)
@click.argument("table")
@click.argument("column")
@click.option("--from", "before", type=VersionText(), required=True, help="The version before.")
@click.option("--to", "after", type=VersionText(), required=True, help="The version after.")
@click.option("--index", metavar="PATH", help="Where the index is.  [default: TABLE/_tailbit]")
@json_option
def transitions(table: str, column: str, before: str, after: str, index: str | None, as_json: bool) -> None:
    r"""Count per value of COLUMN the rows that left TABLE and that came between two versions.

    \b
    tailbit transitions flights carrier --from 7 --to 8

    A row is known by its file and position: one that was rewritten has left and come. With --json:
    {"column", "from", "to", "transitions": [{"value", "left", "came"}, ...]}.
    """
    moves = open_for_question(table, index).transitions(column, before, after)
    if as_json:
        listed = [{"value": value, **moved._asdict()} for value, moved in moves.items()]
        emit({"column": column, "from": _as_json(before), "to": _as_json(after), "transitions": listed})
        return
    print_values([column, "left", "came"], [[value, *moved] for value, moved in moves.items()])


def _as_json(version: str) -> int | str:
    """Return a version for JSON: a number, or a text if readers of JSON would lose digits of the number."""
    return int(version) if len(version) <= _DIGITS else version
