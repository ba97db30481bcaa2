"""Lance and Spark as contestants: the same rows as a Lance dataset with indexes, and the table read by Spark.

DuckDB and Polars read the table's files; each benchmark asks them by itself. Lance reads only its own format:
its dataset lies beside the table, made on first use, with a BITMAP index of each column that tailbit indexes
too, or a BTREE where nearly every row has a value of its own.
"""

from __future__ import annotations

import pathlib
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any

import lance
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from tailbit.streaming.java.session import delta_settings

DELTA = delta_settings() | {
    "spark.driver.memory": "4g",
    "spark.driver.maxResultSize": "0",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
"""What a session needs to read Delta tables, and to give Python large answers. All else is as by default."""

SORTED = ("l_orderkey",)
"""Columns of so many values that Lance's own advice is a BTREE."""


class LanceTable:
    """The rows of a table as a Lance dataset."""

    def __init__(self, table: pathlib.Path, columns: Sequence[str], sorted_: Sequence[str] = SORTED) -> None:
        path = table.with_name(f"{table.name}-lance")
        if not path.exists():
            made = table.with_name(f"making-{path.name}")
            shutil.rmtree(made, ignore_errors=True)
            files = [pq.ParquetFile(file) for file in sorted(table.glob("*.parquet"))]
            batches = chain.from_iterable(file.iter_batches() for file in files)
            lance.write_dataset(pa.RecordBatchReader.from_batches(files[0].schema_arrow, batches), made)
            made.rename(path)
        self._rows = lance.dataset(path)
        known = {index.field_names[0] for index in self._rows.describe_indices()}
        for column in columns:
            if column not in known:
                self._rows.create_scalar_index(column, "BTREE" if column in sorted_ else "BITMAP")

    def size_of(self, column: str) -> int:
        """Bytes of the index of a column."""
        sizes = {index.field_names[0]: index.total_size_bytes for index in self._rows.describe_indices()}
        return int(sizes[column])

    def count(self, where: str) -> int:
        """How many rows meet a condition."""
        return int(self._rows.count_rows(filter=where))

    def read(self, columns: Sequence[str] | None, where: str) -> pa.Table:
        """Columns of the rows that meet a condition; None: all."""
        return self._rows.to_table(columns=None if columns is None else list(columns), filter=where)


class SparkTable:
    """A Delta table as Spark reads it; each question is planned anew, as ours are."""

    def __init__(self, session: Any, table: pathlib.Path) -> None:
        self._session, self._path = session, str(table)

    def where(self, where: str) -> Any:
        """A DataFrame of the rows that meet a condition."""
        return self._session.read.format("delta").load(self._path).where(where)

    def count(self, where: str) -> int:
        """How many rows meet a condition."""
        return int(self.where(where).count())

    def read(self, columns: Sequence[str] | None, where: str) -> pa.Table:
        """Columns of the rows that meet a condition; None: all."""
        found = self.where(where)
        return (found if columns is None else found.select(*columns)).toArrow()


@contextmanager
def spark(name: str, wanted: bool = True) -> Iterator[Any]:
    """A session of all cores that reads Delta tables; None where none is wanted."""
    if not wanted:
        yield None
        return
    builder = SparkSession.builder.master("local[*]").appName(name)
    for key, value in DELTA.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    try:
        yield session
    finally:
        session.stop()
