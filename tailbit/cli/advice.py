"""`tailbit advise`, and the columns that `tailbit run --columns auto` takes from it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tailbit.cli.options import emit, json_option, open_for_question, split_columns, storage_option
from tailbit.wording import counted

if TYPE_CHECKING:
    from tailbit.index.advice.advise import Advice, ColumnAdvice

AUTO = "auto"
"""What `--columns` says for the columns that are advised; a column of that name stands in backticks."""


@click.command()
@click.argument("table")
@click.option(
    "--queries",
    metavar="FILE",
    type=click.File("r", encoding="utf-8"),
    help="Questions asked of TABLE, one a line: predicates, or SELECTs whose WHERE counts.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the sample.")
@storage_option
@json_option
def advise(table: str, queries: Any, seed: int, as_json: bool) -> None:
    r"""Say which columns of TABLE are worth an index, and what each would take, from a sample of the data.

    Nothing is written, and no index is needed. What is not asked about is not advised, where --queries says
    what is asked.

    \b
    tailbit advise flights
    tailbit advise flights --queries questions.sql --json
    tailbit run flights --columns auto               # index what is advised
    """
    found = advice_of(table, queries, seed, hidden=as_json)
    if as_json:
        emit(found.account())
    else:
        print_advice(found)


def advice_of(table: str, queries: Any, seed: int = 0, *, hidden: bool = False) -> Advice:
    """The advice on a table; `queries`: an open file of questions, or None."""
    from tailbit.cli.render import progress_bar

    lines = None if queries is None else list(queries)
    with progress_bar("advise", hidden=hidden) as advance:
        return open_for_question(table, None).advise(lines, seed, progress=advance)


def columns_of_run(
    table: str, index: str | None, columns: str | None, queries: Any, *, as_json: bool
) -> list[str] | None:
    """The columns that `tailbit run` is given: those advised where it says `auto` and there is no index yet.

    Of a table so small that no column gains, all that may gain once it grows.

    Raises:
        UsageError: none is worth an index.
    """
    from tailbit.errors import CorruptIndexError, IndexLogError, NoIndexError, UsageError

    if columns is None or columns.strip() != AUTO:
        return split_columns(columns)
    try:
        open_for_question(table, index).indexed()
    except IndexLogError:
        return None
    except (NoIndexError, CorruptIndexError):
        found = advice_of(table, queries, hidden=as_json)
    else:
        return None
    columns_to_index = found.columns or found.without_gain
    if not columns_to_index:
        raise UsageError(
            reason=f"no column of {table} is worth an index, by `tailbit advise`",
            hint="Name the columns: --columns a,b,c.",
        )
    if as_json:
        emit({"advised": columns_to_index})
    else:
        print_advice(found)
    if not found.columns and not as_json:
        click.echo(f"Indexed all the same, for when the table grows: {', '.join(columns_to_index)}")
    return columns_to_index


def print_advice(found: Advice) -> None:
    """A line a column, and what all that are advised would take."""
    from tailbit.cli.render import print_table

    rows = [(one.column, "yes" if one.worth else "no", *_figures(one), one.why) for one in found.every]
    print_table(("column", "index", "values", "bytes", "a row", "build s", "why"), rows)
    chosen = [one.estimate for one in found.every if one.worth and one.estimate is not None]
    click.echo(
        f"{counted(found.rows, 'row')}, {found.sampled_rows:,} sampled. "
        f"Advised: {', '.join(found.columns) or '-'}; "
        f"about {sum(e.bytes for e in chosen):,} bytes, {sum(e.build_s for e in chosen):.1f} s of one core"
    )


def _figures(one: ColumnAdvice) -> tuple[str, ...]:
    e = one.estimate
    if e is None:
        return ("-",) * 4
    return f"{e.distinct:,}", f"{e.bytes:,}", f"{e.bytes_a_row:.2f}", f"{e.build_s:.1f}"
