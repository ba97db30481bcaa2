"""Commands that look after an index: verify, repair, alter, compact, vacuum, doctor."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from tailbit.base.wording import counted, visible
from tailbit.cli import PROBLEM
from tailbit.cli.options import (
    HintingCommand,
    config_option,
    emit,
    index_option,
    json_option,
    only_config,
    open_for_question,
    or_dash,
    split_columns,
    storage_options,
)

if TYPE_CHECKING:
    from tailbit.index.kinds.kind import Problem
    from tailbit.index.maintenance.verify import DamagedPart, Report
    from tailbit.upkeep.machine import Finding
    from tailbit.upkeep.repairs import Repaired


@click.command(cls=HintingCommand)
@click.argument("table")
@index_option
@click.option(
    "--samples",
    type=click.IntRange(min=0),
    default=200,
    show_default=True,
    help="Values to read again from the data.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the samples.")
@click.option(
    "--derive",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Columns of files, chosen at random, to derive again as a whole from the data.",
)
@click.option("--file", "files", metavar="PATH", multiple=True, help="Derive again all columns of this file.")
@click.option(
    "--column", "columns", metavar="A", multiple=True, help="Derive this column again, of all files."
)
@json_option
def verify(table: str, index: str | None, as_json: bool, **checks: Any) -> int:
    r"""Check the index of TABLE: checksums, records, postings, value counts, a sample of values of the data.

    With --file and --column together, that column of that file is derived again.

    \b
    tailbit verify flights --samples 1000
    tailbit verify flights --derive 20                # 20 columns of files, each value of them
    tailbit verify flights --column carrier           # this column of every file

    Exit status 1 when something is wrong: `tailbit repair` builds that again.
    """
    from tailbit.cli.render import progress_bar

    opened = open_for_question(table, index)
    with progress_bar("verify", hidden=as_json) as advance:
        report = opened.verify(progress=advance, **checks)
    if as_json:
        emit({name: getattr(report, name) for name in _REPORTED} | {"problems": _objects(report.problems)})
    else:
        _print_report(report, f"tailbit repair {_table_and_index(table, index)}")
    return 0 if report.sound else PROBLEM


_REPORTED = (
    "sound state version files spaces postings positions counts sampled derived files_read notes".split()
)
"""Fields of a report that --json shows, besides its problems."""


def _table_and_index(table: str, index: str | None) -> str:
    """Return the arguments of a command about this table and index, as a shell reads them."""
    given = "" if index is None else f" --index {shlex.quote(index)}"
    return f"{shlex.quote(table)}{given}"


def _print_report(report: Report, repair: str) -> None:
    """Print what was checked, and a line for each damaged part with what to do; `repair`: the command."""
    from tailbit.index.maintenance.verify import damaged_parts

    click.echo(f"index {report.state}, compared with version {or_dash(report.version)} of the table")
    checked = (
        counted(report.files, "file"),
        counted(report.postings, "value with its rows", "values with their rows"),
        counted(report.positions, "row of a column", "rows of columns"),
        counted(report.counts, "count of a value", "counts of values"),
        f"{counted(report.sampled, 'value')} read again",
        f"{counted(report.derived, 'column of a file', 'columns of files')} derived again",
        f"{counted(report.files_read, 'index file')} read",
    )
    click.echo(", ".join(checked))
    damaged = damaged_parts(report.problems)
    for damage in damaged:
        click.echo(visible(f"WRONG {_of_part(damage)}; {_remedy(damage.problem, repair)}"))
    for note in report.notes:
        click.echo(f"NOTE {note}")
    click.echo("sound" if report.sound else counted(len(damaged), "problem"))


def _of_part(damage: DamagedPart) -> str:
    """Return what is wrong with a damaged part in words."""
    others = f" (and {damage.others:,} more like it)" if damage.others else ""
    return f"{damage.problem.where}: {' '.join(damage.problem.found.split())}{others}"


def _remedy(problem: Problem, repair: str) -> str:
    """Return what to do about a problem; `repair`: the command that builds parts of this index again."""
    from tailbit.index.kinds.kind import Blame
    from tailbit.index.kinds.settings import SETTINGS

    if problem.blame is Blame.NOTHING:
        return "not the index's: restore that file, or the table to a version before it"
    if problem.name.startswith(f"kind={SETTINGS.name}/"):
        return f"do: {repair} --columns with the columns of this index"
    return f"do: {repair}"


def _objects(problems: Sequence[Problem]) -> list[dict[str, str]]:
    """Return problems as JSON objects."""
    return [{"where": problem.where, "found": problem.found} for problem in problems]


@click.command(cls=HintingCommand)
@click.argument("table")
@click.option("--samples", type=click.IntRange(min=0), default=200, show_default=True, help="As of verify.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the sample.")
@click.option("--columns", metavar="A,B", help="Columns to index, where those of the index are lost.")
@index_option
@json_option
def repair(table: str, samples: int, seed: int, columns: str | None, index: str | None, as_json: bool) -> int:
    r"""Build again what `tailbit verify` finds wrong in the index of TABLE, and nothing else.

    An indexer may run: then it builds again what was taken out. Questions are right all the while. An
    index that cannot be read, or that an older release wrote, is made anew with its columns.

    \b
    tailbit repair flights
    tailbit repair flights --columns carrier,dest       # where these are lost

    Exit status 1 when something is left that is not the index's, such as a data file that cannot be read.
    """
    from tailbit.cli.building import builds_shown
    from tailbit.cli.render import progress_bar
    from tailbit.index.maintenance.verify import damaged_parts

    opened = open_for_question(table, index)
    with progress_bar("verify", hidden=as_json) as advance:
        definitions, report = opened._checked_for_repair(samples, seed, advance, split_columns(columns))
    with builds_shown(hidden=as_json) as builds:
        done = opened._repaired(report, definitions, builds)
    if as_json:
        emit(
            {
                "problems": _objects(done.problems),
                "left": _objects(done.left),
                "files_removed": list(done.mended.removed),
                "files_to_post": done.mended.to_post,
                "files_to_count": done.mended.to_count,
                "made_anew": list(done.anew),
                "indexer": done.indexer,
            }
        )
        return PROBLEM if done.left else 0
    for damage in damaged_parts(done.problems):
        click.echo(visible(f"{'LEFT' if damage.problem in done.left else 'WRONG'} {_of_part(damage)}"))
    click.echo(_what_was_done(done))
    return PROBLEM if done.left else 0


def _what_was_done(done: Repaired) -> str:
    """Return a sentence on the result of a repair, and on who builds the removed parts again."""
    if not done.problems:
        return "nothing to repair"
    if len(done.left) == len(done.problems):
        return "nothing to repair in the index"
    anew = f"made anew, with columns {', '.join(done.anew)}"
    if done.indexer is not None:
        return f"{anew if done.anew else 'taken out'}; the running indexer ({done.indexer}) builds it again"
    return f"{anew}, and built again" if done.anew else "built again"


@click.command(cls=HintingCommand)
@click.argument("table")
@click.option("--add", metavar="A,B", multiple=True, help="Columns to index from now on.")
@click.option("--drop", metavar="C,D", multiple=True, help="Columns to index no longer.")
@index_option
@json_option
def alter(table: str, add: tuple[str, ...], drop: tuple[str, ...], index: str | None, as_json: bool) -> None:
    r"""Change which columns of TABLE are indexed, whether or not an indexer runs.

    A running indexer takes it up by itself, else the next `tailbit run` does. Questions are right all the
    while: of a file that does not have a column posted yet, the data is read.

    \b
    tailbit alter flights --add dep_delay,tailnum --drop dest
    tailbit alter flights --drop '`air time`' --json
    """
    from tailbit.checkpoints.signs import running_indexer

    coming = [name for names in add for name in split_columns(names) or ()]
    going = [name for names in drop for name in split_columns(names) or ()]
    if not coming and not going:
        raise click.UsageError("give --add or --drop")
    opened = open_for_question(table, index)
    done = opened.alter(coming, going)
    indexer = running_indexer(opened._needed().storage)
    labels = list(opened.indexed().values())
    if as_json:
        emit(
            {"added": list(done.added), "dropped": list(done.dropped), "columns": labels, "indexer": indexer}
        )
        return
    for word, names in (("added", done.added), ("dropped", done.dropped)):
        if names:
            click.echo(f"{word}: {', '.join(names)}")
    if not done.added and not done.dropped:
        click.echo("nothing to change")
    click.echo(f"columns: {', '.join(labels)}")
    if done.added:
        click.echo(_who_posts(table, index, indexer))


def _who_posts(table: str, index: str | None, indexer: str | None) -> str:
    """Return who will index a new column, or which command to start if nobody does."""
    if indexer is not None:
        return f"the running indexer ({indexer}) posts what is new"
    return f"no indexer runs: start one to post what is new: tailbit run {_table_and_index(table, index)}"


@click.command(cls=HintingCommand)
@click.argument("table")
@index_option
@json_option
def compact(table: str, index: str | None, as_json: bool) -> None:
    r"""Merge the small segments of the index of TABLE now (the indexer does so by itself as it goes).

    \b
    tailbit compact flights
    """
    merged = open_for_question(table, index).compact()
    if as_json:
        emit({"merged": merged})
    else:
        click.echo(counted(merged, "merge"))


@click.command(cls=HintingCommand)
@click.argument("table")
@index_option
@click.option(
    "--older-than",
    metavar="HOURS",
    type=click.FloatRange(min=0),
    default=1.0,
    show_default=True,
    help="Keep files younger than this: open answers may still read them.",
)
@click.option("--dry-run", is_flag=True, help="Only say what would be deleted.")
@json_option
def vacuum(table: str, index: str | None, older_than: float, dry_run: bool, as_json: bool) -> None:
    r"""Delete files of the index of TABLE that no state of it refers to any more.

    \b
    tailbit vacuum flights --older-than 24 --dry-run
    """
    gone = open_for_question(table, index).vacuum(older_than_hours=older_than, dry_run=dry_run)
    if as_json:
        emit({"deleted": gone, "dry_run": dry_run})
    else:
        click.echo(f"{counted(len(gone), 'file')} {'would be ' if dry_run else ''}deleted")


@click.command(cls=HintingCommand)
@click.argument("table", required=False)
@config_option
@index_option
@click.option(
    "--start", is_flag=True, help="Also start Spark, and let one of its Python workers answer: some 10 s."
)
@json_option
def doctor(table: str | None, config: str | None, index: str | None, start: bool, as_json: bool) -> int:
    r"""Check whether this machine can keep an index, and whether TABLE and its index are well.

    \b
    tailbit doctor
    tailbit doctor s3://lake/flights --start
    tailbit doctor --config tailbit.toml               # the file, and each of its tables

    A line for each check: what was found and, if that is a problem or a warning, what is needed and what to
    do. Nothing is changed; in an object store one small object is written beside the index and deleted again.
    Exit status 1 if a check finds a problem, 0 if there are only warnings.
    """
    from tailbit.upkeep.machine import State

    findings = []
    if config is not None:
        only_config([table] if table else [], index)
    for finding in _findings(table, config, index, start):
        findings.append(finding)
        if not as_json:
            click.echo(visible(f"{finding.state.value:8} {finding.check}: {finding.found}"))
            for label, text in (("needed", finding.needed), ("do", finding.remedy)):
                if text:
                    click.echo(visible(f"{'':9}{label}: {text}"))
    problems = sum(finding.state is State.PROBLEM for finding in findings)
    warnings = sum(finding.state is State.WARNING for finding in findings)
    if as_json:
        account = {"problems": problems, "warnings": warnings, "checks": [asdict(f) for f in findings]}
        click.echo(json.dumps(account, ensure_ascii=False))
    else:
        click.echo(f"{counted(problems, 'problem')}, {counted(warnings, 'warning')}")
    return PROBLEM if problems else 0


def _findings(table: str | None, config: str | None, index: str | None, start: bool) -> Iterator[Finding]:
    """Yield the findings, first about the machine's packages, which the other checks import."""
    from tailbit.upkeep.machine import machine

    yield from machine()
    if table is None and config is None and not start:
        return
    try:
        from tailbit.upkeep.doctor import of_table, started
    except ImportError as wrong:
        from tailbit.upkeep.machine import Finding, State

        remedy = "Mend the packages that are named above."
        yield Finding("imports", State.PROBLEM, str(wrong), "packages that can be imported", remedy)
        return
    if start:
        yield started()
    if table is not None:
        yield from of_table(table, index, storage_options())
    if config is not None:
        from tailbit.upkeep.doctor import of_config

        yield from of_config(config)
