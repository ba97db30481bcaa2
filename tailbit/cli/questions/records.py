"""The command that tells which rows of each file hold each value."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import click

from tailbit.cli.options import VersionText, index_option, open_for_question, split_columns

if TYPE_CHECKING:
    import pyarrow as pa

_SHOWN = 8
"""Row numbers of a record on the terminal."""


@click.command()
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
