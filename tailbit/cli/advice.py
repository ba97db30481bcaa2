"""`tailbit advise`, and the columns that `tailbit run --columns auto` takes from it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tailbit.base.wording import counted, visible
from tailbit.cli.options import (
    HintingCommand,
    emit,
    json_option,
    open_for_question,
    split_columns,
    storage_option,
)

if TYPE_CHECKING:
    from tailbit.index.advice.advise import Advice, ColumnAdvice
    from tailbit.index.advice.proposals import Proposal

AUTO = "auto"
"""Value of `--columns` for the advised columns; a column of that name is written in backticks."""


@click.command(cls=HintingCommand)
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

    Nothing is written, and no index is needed. With --queries, only columns that the questions name are
    advised. Behind the table follow the advised indexes of every kind, as statements that can be run.

    \b
    tailbit advise flights
    tailbit advise flights --queries questions.sql --json
    tailbit run flights --columns auto               # index what is advised
    """
    advice = advice_of(table, queries, seed, hidden=as_json)
    if as_json:
        emit(advice.account())
    else:
        print_advice(advice)


def advice_of(table: str, queries: Any, seed: int = 0, *, hidden: bool) -> Advice:
    """Return the advice on a table; `queries`: an open file of questions, or None."""
    from tailbit.cli.render import progress_bar

    lines = None if queries is None else _lines(queries)
    with progress_bar("advise", hidden=hidden) as advance:
        return open_for_question(table, None).advise(lines, seed, progress=advance)


def _lines(queries: Any) -> list[str]:
    from tailbit.base.errors import UsageError

    try:
        return list(queries)
    except UnicodeDecodeError as wrong:
        reason = f"the file {queries.name} is no text in UTF-8: {wrong.reason}"
        raise UsageError(reason=reason, hint="Write a question a line.") from wrong


def columns_of_run(
    table: str, index: str | None, columns: str | None, queries: Any, *, as_json: bool
) -> list[str] | None:
    """Return the columns for `tailbit run`: the advised ones for `auto` while there is no index.

    If the table is so small that no column gains, return all columns that may gain once the table grows.
    """
    from tailbit.base.errors import CorruptIndexError, IndexLogError, NoIndexError, UsageError

    if columns is None or columns.strip() != AUTO:
        return split_columns(columns)
    try:
        open_for_question(table, index).indexed()
    except IndexLogError:
        return None
    except (NoIndexError, CorruptIndexError):
        advice = advice_of(table, queries, hidden=as_json)
    else:
        return None
    columns_to_index = advice.columns or advice.without_gain
    if not columns_to_index:
        raise UsageError(
            reason=f"no column of {table} is worth an index, by `tailbit advise`",
            hint="Name the columns: --columns a,b,c.",
        )
    if as_json:
        emit({"advised": columns_to_index})
    else:
        print_advice(advice)
    if not advice.columns and not as_json:
        click.echo(f"Indexed all the same, for when the table grows: {', '.join(columns_to_index)}")
    return columns_to_index


def print_advice(advice: Advice) -> None:
    """Print a line per column, and the total cost of the advised columns."""
    from tailbit.cli.render import print_table

    rows = [
        (advised.column, "yes" if advised.worth else "no", *_figures(advised, advice.whole), advised.why)
        for advised in advice.every
    ]
    print_table(("column", "index", "values", "bytes", "a row", "build s", "why"), rows)
    chosen = [advised.estimate for advised in advice.every if advised.worth and advised.estimate is not None]
    click.echo(
        f"{'' if advice.rows_exact else 'about '}{counted(advice.rows, 'row')}, "
        f"{'all' if advice.whole else f'{advice.sampled_rows:,}'} sampled; ~ is an estimate. "
        f"Advised: {', '.join(advice.columns) or '-'}; "
        f"about {sum(e.bytes for e in chosen):,} bytes, {sum(e.build_s for e in chosen):.1f} s of one core"
    )
    for proposal in advice.definitions:
        click.echo(f"{visible(proposal.statement)};  -- {_gain(proposal)}")


def _gain(proposal: Proposal) -> str:
    questions = f"{counted(proposal.questions, 'question')}, " if proposal.questions else ""
    return (
        f"{questions}about {proposal.bytes:,} bytes; a question reads {proposal.question_bytes:,} "
        f"in place of {proposal.scan_bytes:,}, "
        f"and {proposal.files_scanned} of {counted(proposal.files, 'data file')}"
    )


def _figures(advised: ColumnAdvice, whole: bool) -> tuple[str, ...]:
    """Return the figures of a column, those that are estimated behind a ~; `whole`: all rows were sampled."""
    e = advised.estimate
    if e is None:
        return ("-",) * 4
    distinct = f"{'' if whole else '~'}{e.distinct:,}"
    return distinct, f"~{e.bytes:,}", f"~{e.bytes_a_row:.2f}", f"~{e.build_s:.1f}"
