"""Where keys live, asked for a DataFrame of keys: each executor looks up its share of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.types import LongType, StringType, StructType

from tailbit.api import open_indexed
from tailbit.arguments.key_tables import check_distinct
from tailbit.arguments.values import names, path_text, texts_by_name
from tailbit.errors import UsageError
from tailbit.spark.plain_errors import without_traceback
from tailbit.spark.statements import location_of
from tailbit.wording import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def located(
    table: Any, keys: Any, on: Any, version: Any, as_of: Any, index: Any, storage_options: Any
) -> DataFrame:
    """Return the keys of a frame with the places of their rows (see `tailbit.spark.locate`).

    Raises:
        UsageError: an argument is not of its type, or the frame lacks a key column.
    """
    if not hasattr(keys, "mapInArrow"):
        raise UsageError(
            reason=f"keys are of type {type(keys).__name__}, and no Spark DataFrame",
            hint="Ask tailbit.open(table).locate(keys), which takes keys of any form.",
        )
    wanted = keys.columns if on is None else [on] if isinstance(on, str) else names("on", on)
    check_distinct(wanted)
    given = {name.lower() for name in keys.columns}
    for name in wanted:
        if name.lower() not in given:
            reason = f"keys have no column {name}: they have {', '.join(keys.columns)}"
            raise UsageError(reason=reason, hint="Name columns that both the keys and the table have.")
    options, named = texts_by_name("storage_options", storage_options), path_text("table", table)
    is_path = "/" in named or os.path.isdir(named)
    root = named if is_path else location_of(keys.sparkSession, named)
    answered = open_indexed(root, index, storage_options=options).where(version=version, as_of=as_of)
    look_up = _look_up(root, index, options, wanted, answered.version)
    distinct = keys.select(*(keys[quoted(name)].alias(name) for name in wanted)).dropDuplicates()
    return distinct.mapInArrow(look_up, _with_places(distinct.schema))


def _with_places(keys: StructType) -> StructType:
    """Return the columns of keys, and those of the places of their rows."""
    prefix = "_" if {"path", "position"} & set(keys.names) else ""
    places = StructType().add(f"{prefix}path", StringType()).add(f"{prefix}position", LongType())
    return StructType([*keys.fields, *places.fields])


def _look_up(
    root: str, index: str | None, options: Mapping[str, str], on: Iterable[str], version: int
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return what looks up a share of the keys at a version, all of them at once."""

    def look_up(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with without_traceback():
            share = [*batches]
            if share:
                table = open_indexed(root, index, storage_options=options)
                yield from table.locate(pa.Table.from_batches(share), on, version=version).to_batches()

    return look_up
