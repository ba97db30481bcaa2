"""The commands that ask for rows: count, facets, read, positions, explain, to-delta, records.

The commands that sum up a column: summary, histogram, transitions.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from tailbit.base.wording import counted, visible
from tailbit.cli.options import (
    HintingCommand,
    Question,
    VersionText,
    ask,
    emit,
    format_options,
    index_option,
    json_option,
    measure_options,
    measures_of,
    open_for_question,
    or_dash,
    print_values,
    query_options,
    split_columns,
    to_rows,
    warn,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from tailbit.answer import Answer


@click.command(cls=Question)
@click.argument("table")
@click.argument("condition", required=False)
@query_options
@json_option
def count(table: str, condition: str | None, as_json: bool, **options: Any) -> None:
    r"""Count the rows of TABLE where CONDITION is true (all rows without one).

    \b
    tailbit count flights "carrier = 'UA' AND dest IN ('SFO','LAX')"
    tailbit count flights "dep_delay >= 60" --version 12
    tailbit count flights "dest IS NULL" --as-of 2026-01-31T12:00:00Z --json
    tailbit count flights --where "carrier = :carrier" --param carrier=UA

    Behind `--` no argument is an option, whatever it begins with: tailbit count flights -- "-x = 1"

    \b
    With --json, one object:
      count            rows where CONDITION is true
      version          version of TABLE answered for
      covered_version  last version that the index holds as a whole, or null
      files            files of TABLE at that version
      files_scanned    files whose data had to be read: not covered, or left open by the index
      damaged          files of the index that could not be read; the data was read instead
    """
    answer = ask(table, options, condition)
    n = answer.count()
    warn(answer)
    if not as_json:
        click.echo(n)
        return
    emit(
        {
            "count": n,
            **answer._version_names(),
            "files": answer.files_in_table,
            "files_scanned": answer.files_scanned,
            "damaged": [str(damage) for damage in answer.damaged],
        }
    )


@click.command(cls=Question)
@click.argument("table")
@click.argument("column")
@click.option("--top", type=click.IntRange(min=1), help="Only the most frequent N values.")
@measure_options
@format_options
@query_options
@json_option
def facets(
    table: str, column: str, top: int | None, form: str, output: str | None, as_json: bool, **options: Any
) -> None:
    r"""Count the rows of TABLE per value of COLUMN, the most frequent first; of A,B per pair of values.

    \b
    tailbit facets flights carrier --where "origin = 'JFK'" --top 10
    tailbit facets flights "origin, dep_delay > 60" --top 10
    tailbit facets flights carrier --sum distance --avg dep_delay,arr_delay

    A column may be an expression. With --json: {"column", "version", "facets": [{"value", "count"}, ...]}; a
    value that JSON lacks (a date, a decimal, NaN) is text, bytes are hex digits, NULL is null. Of several
    columns, a value is a list. What --sum and its like tell has a name such as "sum(distance)". With --format
    json, a line per value.
    """
    to_rows(form, output)
    as_rows = (form, output) != ("table", None)
    if as_json and as_rows:
        raise click.UsageError("--json has no FILE and no other format")
    measures = measures_of(options)
    answer = ask(table, options)
    columns = split_columns(column) or [column]
    if as_rows:
        return _write_facets(answer, columns, measures, top, form, output)
    if measures:
        return _show_measures(answer, columns, measures, top, as_json)
    items = list(_facets(answer, columns, top).items())
    warn(answer)
    if as_json:
        listed = [{"value": value, "count": n} for value, n in items]
        emit({"column": column, "version": answer.version_name, "facets": listed})
    else:
        _print_facets(columns, items)


def _show_measures(
    answer: Answer, columns: list[str], measures: dict[str, Any], top: int | None, as_json: bool
) -> None:
    """Print facets with their measures."""
    records = dict(list(answer.facets(*columns, **measures).items())[:top])
    warn(answer)
    if as_json:
        listed = [{"value": value, **record} for value, record in records.items()]
        emit({"column": ",".join(columns), "version": answer.version_name, "facets": listed})
        return
    header = answer.facet_table(*columns, **measures).column_names
    rows = [
        ((value,) if len(columns) == 1 else value) + tuple(record.values())
        for value, record in records.items()
    ]
    print_values(header, rows)


def _facets(answer: Answer, columns: list[str], top: int | None) -> dict[Any, int]:
    if top is not None and len(columns) == 1:
        return answer.top(columns[0], top)
    return dict(list(answer.facets(*columns).items())[:top])


def _print_facets(columns: list[str], items: list[tuple[Any, int]]) -> None:
    from tailbit.outputs.frames import facet_header

    rows = [[*(value if len(columns) > 1 else (value,)), n] for value, n in items]
    print_values(facet_header(columns), rows)


def _write_facets(
    answer: Answer,
    columns: list[str],
    measures: dict[str, Any],
    top: int | None,
    form: str,
    output: str | None,
) -> None:
    from tailbit.cli.render import write_rows

    facet_rows = answer.facet_table(*columns, **measures).slice(0, top)
    write_rows(facet_rows.schema, [facet_rows], form, output)
    warn(answer)


@click.command(cls=Question)
@click.argument("table")
@click.argument("condition", required=False)
@click.option("--columns", metavar="A,B", help="Only these columns.  [default: all]")
@click.option(
    "--limit", type=click.IntRange(min=0), help="At most N rows.  [default: 20 on a terminal table, else all]"
)
@click.option("--offset", type=click.IntRange(min=0), default=0, help="Leave out the first N rows.")
@click.option(
    "--order-by", metavar="A,B", help="Order by these columns, e.g. 'dep_delay DESC NULLS LAST,flight'."
)
@format_options
@query_options
def read(
    table: str,
    condition: str | None,
    columns: str | None,
    limit: int | None,
    offset: int,
    order_by: str | None,
    form: str,
    output: str | None,
    **options: Any,
) -> None:
    r"""Read the rows of TABLE where CONDITION is true.

    \b
    tailbit read flights "carrier = 'UA'" --columns flight,dest --limit 5
    tailbit read flights "carrier = 'UA'" --order-by "dep_delay DESC" --limit 5
    tailbit read flights "dest = 'HNL'" --format parquet -o honolulu.parquet
    tailbit read flights --format csv --columns 'carrier,`air time`' > flights.csv

    Rows come in the order of file and position, unless --order-by says else: NULL is least there, NaN
    greatest.

    JSON is a line per row. A map is a JSON object; where its keys are structs, arrays or maps, it is a list
    of {"key", "value"}. In CSV, NULL is an empty field and an empty string is "": of one column, NULL is an
    empty line, which some readers skip. Arrow is the IPC file format in FILE, its streaming format in a pipe.
    No two columns have one name: where a field s.a and a column named s.a are both read, the column is named
    `s.a`, in backticks.
    """
    from tailbit.cli.render import write_rows

    to_rows(form, output)
    if limit is None and form == "table":
        limit = 20
    answer = ask(table, options, condition)
    order = split_columns(order_by)
    schema, tables = answer.stream(split_columns(columns), limit, order_by=order, offset=offset)
    write_rows(schema, tables, form, output)
    warn(answer)


@click.command(cls=Question)
@click.argument("table")
@click.argument("condition", required=False)
@query_options
@json_option
def positions(table: str, condition: str | None, as_json: bool, **options: Any) -> None:
    r"""Print path and 0-based physical row position of each row of TABLE where CONDITION is true.

    \b
    tailbit positions flights "dest IS NULL"

    Lines are tab-separated: path, position. With --json: {"version", "positions": {path: [position, ...]}}.
    """
    answer = ask(table, options, condition)
    by_path = answer.positions()
    warn(answer)
    if as_json:
        emit({"version": answer.version_name, "positions": {p: rows.tolist() for p, rows in by_path.items()}})
        return
    for path, rows in by_path.items():
        click.echo("\n".join(f"{path}\t{position}" for position in rows.tolist()))


@click.command(cls=Question)
@click.argument("table")
@click.argument("condition", required=False)
@click.option(
    "--facets", metavar="A,B", help="Tell also how facets of these columns or expressions are counted."
)
@click.option("--columns", metavar="A,B", help="Tell also how rows of these columns would be read.")
@query_options
@json_option
def explain(
    table: str, condition: str | None, facets: str | None, columns: str | None, as_json: bool, **options: Any
) -> None:
    r"""Show per file of TABLE whether the index covers it, and what kept or pruned it.

    \b
    tailbit explain flights "carrier = 'UA' AND dep_delay > 600"

    A file is kept or pruned by the index or the log alone, rechecked where the index left rows open, or
    scanned. The reasons are explained in docs/reasons.md.
    """
    answer = ask(table, options, condition)
    account = answer.explain(split_columns(facets) or (), split_columns(columns) or ())
    warn(answer)
    if as_json:
        emit(account)
    else:
        _print_explanation(account)


def _print_explanation(account: Mapping[str, Any]) -> None:
    from tailbit.cli.render import encoding_text

    click.echo(f"version {account['version']}, covered up to {or_dash(account['covered_version'])}")
    click.echo(f"predicate: {account['predicate']}")
    click.echo(
        f"{counted(account['segments'], 'segment')}, {counted(account['bytes_touched'], 'byte')} touched, "
        f"{counted(account['count'], 'row')}"
    )
    for line in account["set_aside"]:
        click.echo(line)
    for column, encoding in account["encodings"].items():
        click.echo(f"postings of {column}: {encoding_text(encoding)}")
    for condition in account["conditions"]:
        by = f"by {', '.join(condition['by'])}" if condition["by"] else "by no index"
        also = f"; {', '.join(condition['also'])} could have" if condition["also"] else ""
        click.echo(visible(f"{condition['condition']}: {by}{also}"))
    for other in account["not_used"]:
        click.echo(visible(f"index {other['index']} is not used: {other['reason']}"))
    _print_files(account["files"])
    for step in account.get("facets", ()):
        _print_step(step)
    for line in account.get("read", ()):
        click.echo(
            f"{visible(line['path'])} is read by {line['way']}: {counted(line['rows'], 'row')}, "
            f"{counted(line['row_groups'], 'row group')}, "
            f"{counted(line['batches'], 'batch', 'batches')}"
        )


def _print_files(files: list[dict[str, Any]]) -> None:
    """Print for each file what kept or pruned it, as a table."""
    from tailbit.cli.render import print_table

    rows = [
        [
            f["path"],
            "yes" if f["covered"] else "no",
            f["outcome"],
            f["reason"],
            f["by"] or "",
            or_dash(f["rows"]),
            f["matching"],
        ]
        for f in files
    ]
    print_table(["file", "covered", "outcome", "reason", "by", "rows", "matching"], rows)


def _print_step(step: dict[str, Any]) -> None:
    """Print how the facets of one column were counted, and the estimated time of each method."""
    estimates = ", ".join(f"{method} {ms:.3g}" for method, ms in step["estimates_ms"].items())
    click.echo(
        f"facets by {step['way']}: {or_dash(step['rows'])} rows, took {or_dash(step['took_ms'])} ms"
        + (f"; estimated, in ms: {estimates}" if estimates else "")
    )


@click.command(cls=Question)
@click.argument("table")
@click.argument("path")
@click.argument("condition", required=False)
@query_options
def to_delta(table: str, path: str, condition: str | None, **options: Any) -> None:
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
    answer = ask(table, options, condition)
    click.echo(answer.to_delta(path))
    warn(answer)


_SHOWN = 8
"""Row numbers of a record on the terminal."""


@click.command(cls=HintingCommand)
@click.argument("table")
@click.option("--columns", metavar="A,B", help="Columns of the records.  [default: all with a bitmap index]")
@click.option("--version", type=VersionText(), help="Answer for this version of the table.")
@click.option("-o", "--output", metavar="FILE", help="Write a Parquet file instead of to the terminal.")
@click.option("--keys", type=click.Choice(["rfc92"]), help="Add RFC-92's key, and the bitmap in Base64.")
@index_option
def records(
    table: str,
    columns: str | None,
    version: str | None,
    output: str | None,
    keys: str | None,
    index: str | None,
) -> None:
    r"""Tell for each column, value and file of TABLE which rows of the file hold the value.

    \b
    tailbit records orders --columns city
    tailbit records orders --columns city,part --keys rfc92 -o records.parquet

    This is the view that RFC-92 of Apache Hudi describes, of tables of either format; nothing is written into
    the table. In the file, `positions` are portable 32-bit Roaring bitmaps of 0-based physical rows, without
    hidden ones; on the terminal, the first of these rows. With --keys rfc92 there are also `key`,
    COLUMN$VALUE$PARTITION$FILE_ID, in which a $ of the value stands behind a backslash, and `bitmap`, in
    Base64; NULL has no key.

    Right at any lag: what the index does not cover is read from just those files.
    """
    import pyarrow as pa

    from tailbit.cli.render import write_rows
    from tailbit.outputs.bitmap_records import KEYED_SCHEMA, SCHEMA, with_rfc92_keys

    opened = open_for_question(table, index)
    batches = opened.bitmap_records(split_columns(columns), version)
    schema = SCHEMA
    if keys is not None:
        schema, batches = KEYED_SCHEMA, with_rfc92_keys(batches)
    tables = (pa.Table.from_batches([batch]) for batch in batches)
    if output is not None:
        write_rows(schema, tables, "parquet", output)
        return
    number = schema.get_field_index("positions")
    shown = schema.set(number, pa.field("positions", pa.string()))
    write_rows(shown, _with_row_numbers(tables, shown, number), "table", None)


def _with_row_numbers(tables: Iterable[pa.Table], schema: pa.Schema, number: int) -> Iterator[pa.Table]:
    """Yield records with the first positions as text in place of bitmaps."""
    import pyarrow as pa
    from pyroaring import BitMap

    for table in tables:
        texts = []
        for bits in map(BitMap.deserialize, table.column(number).to_pylist()):
            numbers = " ".join(map(str, bits[:_SHOWN]))
            texts.append(numbers if len(bits) <= _SHOWN else f"{numbers} ...")
        yield table.set_column(number, schema.field(number), pa.array(texts, pa.string()))


_DIGITS = 15
"""Most digits of a number that every reader of JSON keeps."""


@click.command(cls=Question)
@click.argument("table")
@click.argument("column")
@query_options
@json_option
def summary(table: str, column: str, as_json: bool, **options: Any) -> None:
    r"""Print rows, NULLs, distinct values, least and greatest value, sum and average of COLUMN.

    \b
    tailbit summary flights dep_delay --where "origin = 'JFK'"

    With --json: {"column", "version", "rows", "nulls", "distinct", "min", "max", "sum", "avg"}. Sum and
    average are of the types that Spark gives them; of a column that is no number they are null.
    """
    answer = ask(table, options)
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
@query_options
@json_option
def histogram(table: str, column: str, bins: int, by: str | None, as_json: bool, **options: Any) -> None:
    r"""Count the rows of TABLE in bins of COLUMN's values, or by parts of its dates and times.

    \b
    tailbit histogram flights dep_delay --bins 20
    tailbit histogram flights day --by month --where "carrier = 'UA'"

    A bin holds its lower edge; the last holds both. NULL and NaN are in none. With --json: {"column",
    "version", "bins": [{"low", "high", "count"}, ...]}, or with --by {"column", "version", "by", "parts":
    [{"begin", "count"}, ...]}. Times are cut in --time-zone.
    """
    answer = ask(table, options)
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
@query_options
@json_option
def crosstab(table: str, rows: str, columns: str, as_json: bool, **options: Any) -> None:
    r"""Count the rows of TABLE by the values of two columns: ROWS down the side, COLUMNS along the top.

    \b
    tailbit crosstab flights carrier origin --where "dep_delay > 60"
    tailbit crosstab flights carrier "dep_delay > 60"

    With --json: {"rows": {"column", "values"}, "columns": {"column", "values"}, "version", "counts"}.
    """
    answer = ask(table, options)
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
