"""The command line: one command a question, and `run`, which keeps the index.

Exit status: 0 done, 1 a problem was found, 2 wrong use, 130 interrupted. Heavy imports stand inside the
commands, so that `tailbit count` starts neither a JVM nor loads pyspark.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Callable
from importlib.abc import MetaPathFinder
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tailbit.errors import TailbitError, UsageError

if TYPE_CHECKING:
    from tailbit.api import IndexedTable
    from tailbit.index.answer import Answer

F = TypeVar("F", bound=Callable[..., Any])

PROBLEM, WRONG_USE, INTERRUPTED = 1, 2, 130


def main() -> None:
    """Run the command line; errors become one or two lines on stderr and an exit status."""
    try:
        status = cli(standalone_mode=False, obj=_NoPandas())
        sys.stdout.flush()
    except click.ClickException as wrong:
        wrong.show()
        sys.exit(wrong.exit_code)
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        sys.exit(INTERRUPTED)
    except TailbitError as error:
        click.echo(error.describe(), err=True)
        sys.exit(WRONG_USE if isinstance(error, UsageError) else PROBLEM)
    except (_NobodyReads, BrokenPipeError):
        _leave_quietly()
    sys.exit(status if isinstance(status, int) else 0)


def _leave_quietly() -> None:
    """End because nobody reads on, as `head` does: nothing is wrong, and nothing is left to flush."""
    with contextlib.suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(0)


class _NobodyReads(Exception):
    """Whoever read our output has gone."""


class _Commands(click.Group):
    """Tells a broken pipe from other ends: click would call it a problem, status 1."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError as gone:
            raise _NobodyReads from gone


@click.group(
    cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(package_name="tailbit", prog_name="tailbit")
def cli() -> None:
    """Row-level Roaring bitmap indexes for Delta tables, right at any lag.

    Keep an index:  tailbit run TABLE --columns carrier,origin,dest

    Ask it:         tailbit count TABLE "carrier = 'UA' AND dest IN ('SFO','LAX')"

    TABLE is the folder that holds _delta_log. A question needs no index and no indexer to be answered
    rightly: whatever the index does not cover is scanned.
    """


def _index_option(function: F) -> F:
    return click.option("--index", metavar="PATH", help="Where the index is.  [default: TABLE/_tailbit]")(
        function
    )


def _json_option(function: F) -> F:
    return click.option("--json", "as_json", is_flag=True, help="Print JSON for a program to read.")(function)


def _query_options(function: F) -> F:
    for option in (
        click.option("--version", type=click.IntRange(min=0), help="Answer for this version of the table."),
        click.option("--as-of", metavar="TIME", help="Answer for the last version at this time (ISO 8601)."),
        click.option(
            "--time-zone", default="UTC", show_default=True, help="Session time zone of the predicate."
        ),
        click.option(
            "--partition-time-zone",
            metavar="ZONE",
            help="Time zone of partition values that have none.  [default: that of --time-zone]",
        ),
        _index_option,
    ):
        function = option(function)
    return function


class _NoPandas(MetaPathFinder):
    """Keeps pandas out of a question's process.

    pyarrow imports it, for half a second, to see whether an argument is a data frame.
    """

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> None:
        """Refuse pandas; every other module is left to the finders behind."""
        if fullname == "pandas":
            raise ModuleNotFoundError(fullname)


def _open(table: str, index: str | None) -> IndexedTable:
    """The table of a question; in a process that is there only for it, without pandas."""
    finder = click.get_current_context().find_object(_NoPandas)
    if finder is not None:
        sys.meta_path.insert(0, finder)
    from tailbit.api import open_indexed

    return open_indexed(table, index)


def _ask(table: str, predicate: str | None, options: dict[str, Any]) -> Answer:
    return _open(table, options["index"]).where(
        predicate,
        version=options["version"],
        as_of=options["as_of"],
        zone=options["time_zone"],
        partition_zone=options["partition_time_zone"],
    )


def _emit(value: Any) -> None:
    from tailbit.render import json_value

    click.echo(json.dumps(json_value(value), ensure_ascii=False))


def _warn(answer: Answer) -> None:
    """Say on stderr what of the index is damaged: the answer is right, but slower than it need be."""
    for damage in answer.damaged:
        click.echo(f"warning: {damage}; the data was read instead", err=True)


@cli.command()
@click.argument("table")
@click.argument("predicate", required=False)
@_query_options
@_json_option
def count(table: str, predicate: str | None, as_json: bool, **options: Any) -> None:
    r"""Count the rows of TABLE where PREDICATE is true (all rows without one).

    \b
    tailbit count flights "carrier = 'UA' AND dest IN ('SFO','LAX')"
    tailbit count flights "dep_delay >= 60" --version 12
    tailbit count flights "dest IS NULL" --as-of 2026-01-31T12:00:00Z --json

    \b
    With --json, one object:
      count            rows where PREDICATE is true
      version          version of TABLE answered for
      covered_version  last version that the index holds as a whole, or null
      files            files of TABLE at that version
      files_scanned    files whose data had to be read: not covered, or left open by the index
      damaged          files of the index that could not be read; the data was read instead
    """
    answer = _ask(table, predicate, options)
    n = answer.count()
    _warn(answer)
    if not as_json:
        click.echo(n)
        return
    _emit(
        {
            "count": n,
            "version": answer.version,
            "covered_version": answer.covered_version,
            "files": len(answer.snapshot.files),
            "files_scanned": answer.files_scanned,
            "damaged": [str(damage) for damage in answer.damaged],
        }
    )


@cli.command()
@click.argument("table")
@click.argument("column")
@click.option("--where", metavar="PREDICATE", help="Only rows where this is true.")
@click.option("--top", type=click.IntRange(min=1), help="Only the most frequent N values.")
@_query_options
@_json_option
def facets(
    table: str, column: str, where: str | None, top: int | None, as_json: bool, **options: Any
) -> None:
    r"""Count the rows of TABLE per value of COLUMN, the most frequent first.

    \b
    tailbit facets flights carrier --where "origin = 'JFK'" --top 10

    With --json: {"column", "version", "facets": [{"value", "count"}, ...]}; a value that JSON lacks (a date,
    a decimal, NaN) is text, bytes are hex digits, NULL is null.
    """
    answer = _ask(table, where, options)
    items = list(answer.facets(column).items())[:top]
    _warn(answer)
    if as_json:
        _emit(
            {
                "column": column,
                "version": answer.version,
                "facets": [{"value": v, "count": n} for v, n in items],
            }
        )
        return
    from tailbit.render import cell, json_value, print_table

    print_table([column, "count"], [[cell(json_value(v)), n] for v, n in items])


@cli.command()
@click.argument("table")
@click.argument("predicate", required=False)
@click.option("--columns", metavar="A,B", help="Only these columns.  [default: all]")
@click.option(
    "--limit", type=click.IntRange(min=0), help="At most N rows.  [default: 20 on a terminal table, else all]"
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "json", "csv", "parquet"]),
    default="table",
    show_default=True,
)
@click.option("-o", "--output", metavar="FILE", help="Write to FILE instead of the terminal.")
@_query_options
def read(
    table: str,
    predicate: str | None,
    columns: str | None,
    limit: int | None,
    form: str,
    output: str | None,
    **options: Any,
) -> None:
    r"""Read the rows of TABLE where PREDICATE is true.

    \b
    tailbit read flights "carrier = 'UA'" --columns flight,dest --limit 5
    tailbit read flights "dest = 'HNL'" --format parquet -o honolulu.parquet
    tailbit read flights --format csv --columns "carrier,`air time`" > flights.csv

    JSON is a line per row. In CSV, NULL is an empty field and an empty string is "".
    """
    from tailbit.render import write_rows

    if form == "parquet" and output is None:
        raise click.UsageError("--format parquet needs -o FILE")
    if limit is None and form == "table":
        limit = 20
    answer = _ask(table, predicate, options)
    schema, tables = answer.stream(split_columns(columns), limit)
    write_rows(schema, tables, form, output)
    _warn(answer)


@cli.command()
@click.argument("table")
@click.argument("predicate", required=False)
@_query_options
@_json_option
def positions(table: str, predicate: str | None, as_json: bool, **options: Any) -> None:
    r"""Print path and 0-based physical row position of each row of TABLE where PREDICATE is true.

    \b
    tailbit positions flights "dest IS NULL"

    Lines are tab-separated: path, position. With --json: {"version", "positions": {path: [position, ...]}}.
    """
    answer = _ask(table, predicate, options)
    found = answer.positions()
    _warn(answer)
    if as_json:
        _emit({"version": answer.version, "positions": {p: at.tolist() for p, at in found.items()}})
        return
    for path, at in found.items():
        click.echo("\n".join(f"{path}\t{position}" for position in at.tolist()))


@cli.command()
@click.argument("table")
@click.argument("predicate", required=False)
@_query_options
@_json_option
def explain(table: str, predicate: str | None, as_json: bool, **options: Any) -> None:
    r"""Show per file of TABLE whether the index covers it, and what kept or pruned it.

    \b
    tailbit explain flights "carrier = 'UA' AND dep_delay > 600"

    A file is kept or pruned by the index or the log alone, rechecked where the index left rows open, or
    scanned.
    """
    answer = _ask(table, predicate, options)
    account = answer.explain()
    _warn(answer)
    if as_json:
        _emit(account)
        return
    from tailbit.render import print_table

    click.echo(f"version {account['version']}, covered up to {_or_dash(account['covered_version'])}")
    click.echo(f"predicate: {account['predicate']}")
    click.echo(
        f"{account['segments']} segments, {account['bytes_touched']} bytes touched, {account['count']} rows"
    )
    rows = [
        [
            f["path"],
            "yes" if f["covered"] else "no",
            f["outcome"],
            f["by"] or "",
            _or_dash(f["rows"]),
            f["matching"],
        ]
        for f in account["files"]
    ]
    print_table(["file", "covered", "outcome", "by", "rows", "matching"], rows)


def _or_dash(value: Any) -> Any:
    return "-" if value is None else value


def split_columns(text: str | None) -> list[str] | None:
    """The names in a comma-separated list; a name in backticks may hold a comma."""
    if text is None:
        return None
    import re

    names = [n.strip() for n in re.findall(r"(?:`(?:[^`]|``)*`|[^,`])+", text)]
    return [n for n in names if n]


@cli.command()
@click.argument("table")
@_index_option
@_json_option
def status(table: str, index: str | None, as_json: bool) -> None:
    r"""Show columns, covered version, head, lag, segments and sizes of the index of TABLE.

    \b
    tailbit status flights --json
    """
    from tailbit.status import status_of

    found = status_of(table, index)
    if as_json:
        _emit(found)
        return
    from tailbit.render import print_status

    print_status(found)


@cli.command()
@click.argument("table")
@_index_option
@click.option(
    "--samples",
    type=click.IntRange(min=0),
    default=200,
    show_default=True,
    help="Values to read again from the data.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the sample.")
@_json_option
def verify(table: str, index: str | None, samples: int, seed: int, as_json: bool) -> int:
    r"""Check the index of TABLE: records, postings, value counts, and a sample of values in the data files.

    \b
    tailbit verify flights --samples 1000

    Exit status 1 when something is wrong.
    """
    from tailbit.render import progress_bar

    opened = _open(table, index)
    with progress_bar("verify", hidden=as_json) as advance:
        report = opened.verify(samples=samples, seed=seed, progress=advance)
    if as_json:
        _emit(
            {
                "sound": report.sound,
                "state": report.state,
                "version": report.version,
                "files": report.files,
                "spaces": report.spaces,
                "postings": report.postings,
                "positions": report.positions,
                "counts": report.counts,
                "sampled": report.sampled,
                "problems": [{"where": p.where, "found": p.found} for p in report.problems],
            }
        )
    else:
        click.echo(f"index {report.state}, compared with version {_or_dash(report.version)} of the table")
        click.echo(
            f"{report.files} files, {report.spaces} row spaces, {report.postings} postings, "
            f"{report.positions} positions, {report.counts} value counts, {report.sampled} values read again"
        )
        for problem in report.problems:
            click.echo(f"WRONG {problem.where}: {problem.found}")
        click.echo("sound" if report.sound else f"{len(report.problems)} problems")
    return 0 if report.sound else PROBLEM


@cli.command()
@click.argument("table")
@click.option("--add", metavar="A,B", multiple=True, help="Columns to index from now on.")
@click.option("--drop", metavar="C,D", multiple=True, help="Columns to index no longer.")
@_index_option
@_json_option
def alter(table: str, add: tuple[str, ...], drop: tuple[str, ...], index: str | None, as_json: bool) -> None:
    r"""Change which columns of TABLE are indexed, whether or not an indexer runs.

    A running indexer takes it up by itself, else the next `tailbit run` does. Questions are right all the
    while: of a file that does not have a column posted yet, the data is read.

    \b
    tailbit alter flights --add dep_delay,tailnum --drop dest
    tailbit alter flights --drop "`air time`" --json
    """
    from tailbit.status import running_indexer

    coming = [name for names in add for name in split_columns(names) or ()]
    going = [name for names in drop for name in split_columns(names) or ()]
    if not coming and not going:
        raise click.UsageError("give --add or --drop")
    opened = _open(table, index)
    done = opened.alter(coming, going)
    indexer = running_indexer(opened.index_path)
    labels = [column.label for column in done.settings.columns]
    if as_json:
        _emit(
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
    """Who will post a new column, and what to start where nobody does."""
    if indexer is not None:
        return f"the running indexer ({indexer}) posts what is new"
    given = "" if index is None else f" --index {index}"
    return f"no indexer runs: start one to post what is new: tailbit run {table}{given}"


@cli.command()
@click.argument("table")
@_index_option
@_json_option
def compact(table: str, index: str | None, as_json: bool) -> None:
    r"""Merge the small segments of the index of TABLE now (the indexer does so by itself as it goes).

    \b
    tailbit compact flights
    """
    merged = _open(table, index).compact()
    if as_json:
        _emit({"merged": merged})
    else:
        click.echo(f"{merged} merges")


@cli.command()
@click.argument("table")
@_index_option
@click.option(
    "--older-than",
    metavar="HOURS",
    type=click.FloatRange(min=0),
    default=1.0,
    show_default=True,
    help="Keep files younger than this: open answers may still read them.",
)
@click.option("--dry-run", is_flag=True, help="Only say what would be deleted.")
@_json_option
def vacuum(table: str, index: str | None, older_than: float, dry_run: bool, as_json: bool) -> None:
    r"""Delete files of the index of TABLE that no state of it refers to any more.

    \b
    tailbit vacuum flights --older-than 24 --dry-run
    """
    gone = _open(table, index).vacuum(older_than_hours=older_than, dry_run=dry_run)
    if as_json:
        _emit({"deleted": gone, "dry_run": dry_run})
    else:
        click.echo(f"{len(gone)} files {'would be ' if dry_run else ''}deleted")


@cli.command()
@click.argument("table")
@click.option(
    "--columns",
    metavar="A,B",
    help="Columns to index; remembered in the index, so only the first run needs it.",
)
@_index_option
@click.option("--checkpoint", metavar="PATH", help="Spark checkpoint.  [default: INDEX/_checkpoint]")
@click.option("--once", is_flag=True, help="Index what is there and stop.")
@click.option("--trigger", default="200ms", show_default=True, help="How often to look for new commits.")
@click.option("--master", default="local[2]", show_default=True, help="Spark master.")
@click.option("--quiet", is_flag=True, help="No progress lines.")
@_json_option
def run(
    table: str,
    columns: str | None,
    index: str | None,
    checkpoint: str | None,
    once: bool,
    trigger: str,
    master: str,
    quiet: bool,
    as_json: bool,
) -> int:
    r"""Keep the index of TABLE up to date: a Spark Structured Streaming query that tails its commit log.

    Stop it with Ctrl-C or SIGTERM: the batch in flight is finished. Start it again any time: it goes on where
    the index says it was. Progress and lag are also in the Spark UI.

    \b
    tailbit run flights --columns carrier,origin,dest          # for ever
    tailbit run flights --once                                 # catch up and stop
    """
    from tailbit.render import progress_lines
    from tailbit.streaming.job import run as run_job

    return run_job(
        table,
        columns=split_columns(columns),
        index=index,
        checkpoint=checkpoint,
        once=once,
        trigger=trigger,
        master=master,
        on_progress=None if quiet else progress_lines(as_json),
    )


@cli.command()
@click.option(
    "--folder", metavar="PATH", help="Where to put the demo's table.  [default: a temporary folder]"
)
def demo(folder: str | None) -> int:
    r"""Index a year of flights while it is written, kill the indexer on the way, check every answer.

    \b
    tailbit demo
    """
    from tailbit.demo import run_demo

    return run_demo(folder)


if __name__ == "__main__":
    main()
