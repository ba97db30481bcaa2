"""The command that deletes rows of a table, those of a condition or of keys."""

from __future__ import annotations

import datetime
import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from tailbit.base.wording import counted
from tailbit.cli.options import index_option, json_option, open_for_question, split_columns, storage_options
from tailbit.cli.questions.locate import keys_of_file

if TYPE_CHECKING:
    from tailbit.spark.writing.deletion import Deletion


@click.command()
@click.argument("table")
@click.option("--where", metavar="CONDITION", help="The rows where this Spark SQL condition is TRUE.")
@click.option("--keys", "file", metavar="FILE", help="Keys in a .parquet, .csv, .json or .arrow file.")
@click.option("--on", metavar="A,B", help="The key columns.  [default: all columns of --keys]")
@click.option("--dry-run", is_flag=True, help="Tell what would be deleted, and stop; starts no Spark.")
@click.option("--yes", is_flag=True, help="Delete without asking.")
@click.option("--master", default="local[2]", show_default=True, help="Spark master.")
@json_option
@index_option
def erase(
    table: str,
    where: str | None,
    file: str | None,
    on: str | None,
    dry_run: bool,
    yes: bool,
    master: str,
    as_json: bool,
    index: str | None,
) -> None:
    r"""Delete rows of TABLE, a Delta table: tell how many and where, ask, and commit through Delta on Spark.

    \b
    tailbit erase flights --where "tailnum = 'N14228'" --dry-run
    tailbit erase flights --keys people.csv --on carrier,flight

    The index finds the rows at any lag; deletion vectors hide them in one commit, and no data file that the
    index covers is read. A table without deletion vectors goes by Delta's own DELETE or MERGE. A condition
    that tailbit does not read, such as one with a subquery or rand(), is refused: there is Spark's DELETE
    for it. Rows leave the files physically by REORG and VACUUM: the last lines say when.
    """
    if (where is None) == (file is None):
        raise click.UsageError("give a condition by --where, or keys by --keys FILE")
    if where is not None and on is not None:
        raise click.UsageError("--on names the columns of --keys")
    columns = split_columns(on)
    rows: Any = where if file is None else keys_of_file(file)
    count, files, version = _extent(table, rows, columns, index)
    summary = f"{counted(count, 'row')} in {counted(files, 'file')} of version {version}"
    if dry_run or not count:
        _tell({"rows": count, "files": files, "version": None}, f"would delete {summary}", as_json)
        return
    if not yes:
        click.confirm(f"Delete {summary}?", abort=True, err=True)
    _tell_done(table, _deleted(table, rows, columns, master, index), as_json)


def _extent(table: str, rows: Any, columns: list[str] | None, index: str | None) -> tuple[int, int, int]:
    """Return how many rows would be deleted, in how many files, at which version."""
    opened = open_for_question(table, index)
    answer = opened.where(rows if isinstance(rows, str) else None)
    if isinstance(rows, str):
        return answer.count(), len(answer.files()), answer.version
    located = opened.locate(rows, columns, version=answer.version)
    paths = located.column(located.num_columns - 2).drop_null()
    return len(paths), len(paths.unique()), answer.version


def _deleted(table: str, rows: Any, columns: list[str] | None, master: str, index: str | None) -> Deletion:
    from tailbit.spark import delete
    from tailbit.streaming.java.session import build_session, delta_settings

    click.echo("starting Spark, which fetches Delta's jars the first time", err=True)
    with build_session("tailbit erase", master, ui=False, extra=delta_settings(), short=True) as spark:
        return delete(table, rows, columns, spark, index=index, storage_options=storage_options())


def _tell_done(table: str, done: Deletion, as_json: bool) -> None:
    from tailbit.spark.writing.target import sql_name

    by = "" if done.reason is None else f", by Delta's own statement: {done.reason}"
    lines = [f"deleted {counted(done.rows or 0, 'row')}: version {done.version}{by}"]
    assert done.retention is not None
    if done.version is not None:
        gone = datetime.datetime.now(datetime.timezone.utc) + done.retention
        lines += [
            "The rows are still in data files, where older versions are read. They are gone physically by",
            f"  REORG TABLE {sql_name(table)} APPLY (PURGE), which writes the files without them, and",
            f"  VACUUM, which deletes the older files: after a REORG now, from {gone:%Y-%m-%d %H:%M} UTC on.",
        ]
    _tell({**asdict(done), "retention": done.retention.total_seconds()}, "\n".join(lines), as_json)


def _tell(fields: dict[str, Any], text: str, as_json: bool) -> None:
    click.echo(json.dumps(fields) if as_json else text)
