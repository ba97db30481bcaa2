"""The commands that look up keys: `locate` tells where their rows lie, `erase` deletes them."""

from __future__ import annotations

import datetime
import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from tailbit.base.wording import counted
from tailbit.cli.options import (
    HintingCommand,
    VersionText,
    format_options,
    index_option,
    json_option,
    open_for_question,
    split_columns,
    storage_options,
    to_rows,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from tailbit.spark.writing.deletion import Deletion


@click.command(cls=HintingCommand)
@click.argument("table")
@click.argument("values", nargs=-1, metavar="[KEY]...")
@click.option("--on", metavar="A,B", help="The key columns.  [default: all columns of --keys]")
@click.option("--keys", "file", metavar="FILE", help="Keys in a .parquet, .csv, .json or .arrow file.")
@click.option("--version", type=VersionText(), help="Answer for this version of the table.")
@click.option("--as-of", metavar="TIME", help="Answer for the last version at this time (ISO 8601).")
@click.option("--since", type=VersionText(), help="Tell what became of each row since this older version.")
@format_options
@index_option
def locate(
    table: str,
    values: tuple[str, ...],
    on: str | None,
    file: str | None,
    version: str | None,
    as_of: str | None,
    since: str | None,
    form: str,
    output: str | None,
    index: str | None,
) -> None:
    r"""Tell for each KEY the file of TABLE and the 0-based physical row where it lies.

    \b
    tailbit locate flights --on flight 3 5 99
    tailbit locate flights --on carrier,flight UA,1 DL,6
    tailbit locate flights --keys wanted.csv --format parquet -o places.parquet

    A key without a row has neither path nor position; one of several rows is told once for each. The last
    line tells how many keys these are. With --since, a column tells whether a row is where it was (same),
    its key lay elsewhere (moved) or nowhere (new), or has no row now (gone). A key of several columns is
    written with commas, or in a file with the columns by name; of a CSV file, values are read as the table's
    columns have them.

    Right at any lag: what the index does not cover is looked up by a scan of just those files.
    """
    from tailbit.cli.render import write_rows

    to_rows(form, output)
    columns = split_columns(on) or None
    if (file is None) == (not values):
        raise click.UsageError("give keys as arguments, or in a file by --keys FILE")
    if file is None and columns is None:
        raise click.UsageError("name the key columns: --on A,B")
    keys: Any = _of_arguments(values, columns or []) if file is None else keys_of_file(file)
    opened = open_for_question(table, index)
    located = opened.locate(keys, columns, version=version, as_of=as_of, since=since)
    write_rows(located.schema, [located], form, output)
    click.echo(_summary(located, since), err=True)


def _of_arguments(values: tuple[str, ...], columns: list[str]) -> list[tuple[str, ...]]:
    """Return keys given as texts; the key of one column may hold commas."""
    return [(value,) if len(columns) == 1 else tuple(value.split(",")) for value in values]


def keys_of_file(file: str) -> pa.Table:
    """Return the keys in a file, by its extension; values of a CSV file are texts, empty cells NULL."""
    import pyarrow as pa
    import pyarrow.parquet as pq
    from pyarrow import csv, feather, json

    def texts(path: str) -> pa.Table:
        with csv.open_csv(path) as reader:
            names = reader.schema.names
        texts_or_null = csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()),
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        )
        return csv.read_csv(path, convert_options=texts_or_null)

    readers = {
        ".parquet": pq.read_table,
        ".csv": texts,
        ".json": json.read_json,
        ".arrow": feather.read_table,
    }
    for end, read in readers.items():
        if file.lower().endswith(end):
            try:
                return read(file)
            except (OSError, pa.ArrowException) as error:
                raise click.UsageError(f"{file} cannot be read: {error}") from error
    raise click.UsageError(f"{file} is no file of keys: its name ends in none of {', '.join(readers)}")


def _summary(located: pa.Table, since: str | None) -> str:
    """Return how many keys were located, how many have no row, how many several, and what became of rows."""
    of_places = 2 if since is None else 3
    keys = located.select(located.column_names[:-of_places])
    distinct = keys.group_by(keys.column_names).aggregate([([], "count_all")])
    several = sum(count > 1 for count in distinct["count_all"].to_pylist())
    absent = located.column(located.num_columns - of_places).null_count
    summary = f"{counted(len(distinct), 'key')}: {absent} without a row, {several} with several"
    if since is None:
        return summary
    changes = located.column(located.num_columns - 1).to_pylist()
    since_then = ", ".join(f"{changes.count(change)} {change}" for change in ("moved", "new", "gone"))
    return f"{summary}; since version {since} {since_then}"


@click.command(cls=HintingCommand)
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
