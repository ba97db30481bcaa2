"""Times whose unit the table's schema declares and its data files state otherwise, or not at all."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tailbit
from support.drive import Drive
from support.hudi_builder import META, BaseFile, HudiBuilder
from support.hudi_logs import avro_block, parquet_block
from support.hudi_made import GROUP
from tailbit.errors import UnsupportedFeatureError, UsageError
from tailbit.tables.hudi import retention
from tailbit.tables.hudi import schema as hudi_schema
from tailbit.tables.open import open_table

MOMENT = datetime(2024, 7, 10, 17, 7, 4, 939000, tzinfo=timezone.utc)
LOCAL = MOMENT.replace(tzinfo=None)
MILLIS = 1720631224939
EARLY = datetime(1970, 1, 20, 21, 57, 11, 224939, timezone.utc)
INSTANT = pa.timestamp("us", "UTC")
RECENT = "at >= TIMESTAMP'2024-01-01 00:00:00Z'"

Avro = Mapping[str, Any]


def nullable(type_: Any) -> list[Any]:
    return ["null", type_]


def declared(logical: str) -> Avro:
    return {"type": "long", "logicalType": logical}


def record(at: Any) -> Avro:
    fields = [{"name": "key", "type": nullable("long")}, {"name": "at", "type": nullable(at)}]
    return {"type": "record", "name": "t_record", "namespace": "hoodie.t", "fields": fields}


def stored(keys: Sequence[int], at: pa.Array) -> pa.Table:
    return pa.table({META[2]: [str(key) for key in keys], "key": pa.array(keys, pa.int64()), "at": at})


def numbers(type_: pa.DataType, *values: int | None) -> pa.Array:
    """Return an array whose stored numbers are the given ones."""
    return pa.array(values, pa.int64()).view(type_)


class Table:
    """A hand-made table of a key and a time; `declares` is the Avro type of the time in its commits."""

    def __init__(self, folder: Path, declares: Any, kind: str = "COPY_ON_WRITE", **properties: str) -> None:
        self.path, self.declares, self.kind = str(folder / "table"), declares, kind
        known = {"hoodie.table.type": kind, **properties}
        self.builder = HudiBuilder(self.path, 9, random.Random(1), **known)
        self.action = "commit" if kind == "COPY_ON_WRITE" else "deltacommit"

    def write(self, keys: Sequence[int], at: pa.Array, group: str = "") -> BaseFile:
        """Commit a file of its own."""
        requested = self.builder.timeline.request(self.action)
        group = group or self.builder.new_group()
        file, _ = self.builder.data_file(stored(keys, at), requested, group, "")
        self.complete(requested, file.file_id, file.name, file.size)
        return file

    def log(self, base: BaseFile, block: Any) -> None:
        """Commit a log file of one block, which is made from the requested time of its instant."""
        requested = self.builder.timeline.request(self.action)
        name = f".{base.file_id}_{requested}.log.1_0-1-1"
        (Path(self.path) / name).write_bytes(block(requested))
        self.complete(requested, base.file_id, name, 9)

    def complete(self, requested: str, group: str, name: str, size: int) -> None:
        stat = {"fileId": group, "path": name, "prevCommit": "null", "numWrites": 1, "fileSizeInBytes": size}
        extra = {"schema": json.dumps(record(self.declares))}
        said = {"partitionToWriteStats": {"": [stat]}, "compacted": False, "operationType": "INSERT"}
        self.builder.timeline.complete(requested, self.action, {**said, "extraMetadata": extra})

    def values(self) -> dict[int, Any]:
        """Return what a scan finds, by key."""
        found = tailbit.open(self.path).where().read(["key", "at"]).to_pylist()
        return {row["key"]: row["at"] for row in found}


STRUCT = {
    "type": "record",
    "name": "inner",
    "fields": [{"name": "x", "type": nullable(declared("timestamp-millis"))}],
}
WRONG = numbers(INSTANT, MILLIS, None)
SHAPES: dict[str, tuple[Any, pa.Array, list[Any]]] = {
    "an instant": (declared("timestamp-millis"), WRONG, [MOMENT, None]),
    "an instant labelled rightly": (
        declared("timestamp-millis"),
        numbers(pa.timestamp("ms", "UTC"), MILLIS, None),
        [MOMENT, None],
    ),
    "an instant in a struct": (
        STRUCT,
        pa.StructArray.from_arrays([WRONG], ["x"]),
        [{"x": MOMENT}, {"x": None}],
    ),
    "instants in an array of three levels, as labelled": (
        {"type": "array", "items": nullable(declared("timestamp-millis"))},
        pa.ListArray.from_arrays([0, 2, 2], WRONG),
        [[EARLY, None], []],
    ),
    "instants in a map": (
        {"type": "map", "values": nullable(declared("timestamp-millis"))},
        pa.MapArray.from_arrays([0, 2, 2], ["a", "b"], WRONG),
        [[("a", MOMENT), ("b", None)], []],
    ),
    "a local time without a label, in milliseconds": (
        declared("local-timestamp-millis"),
        numbers(pa.int64(), MILLIS, None),
        [LOCAL, None],
    ),
    "a local time without a label, in microseconds": (
        declared("local-timestamp-micros"),
        numbers(pa.int64(), MILLIS * 1000, None),
        [LOCAL, None],
    ),
    "a local time in microseconds, as its label says": (
        declared("local-timestamp-millis"),
        numbers(pa.timestamp("us"), MILLIS * 1000, None),
        [LOCAL, None],
    ),
    "an instant in microseconds": (
        declared("timestamp-micros"),
        numbers(INSTANT, MILLIS * 1000, None),
        [MOMENT, None],
    ),
}


@pytest.mark.supports_hudi(
    "Schema and types", "times in milliseconds labelled as microseconds, local times without a label", "exact"
)
@pytest.mark.parametrize("shape", SHAPES)
def test_times_are_read_in_the_unit_that_the_schema_declares(shape: str, tmp_path: Path) -> None:
    declares, at, expected = SHAPES[shape]
    table = Table(tmp_path, declares)
    table.write([1, 2], at)
    assert table.values() == dict(zip([1, 2], expected, strict=True))


@pytest.mark.parametrize(
    "shape", [name for name, (_, _, values) in SHAPES.items() if values[0] in (MOMENT, LOCAL)]
)
def test_conditions_on_such_times_are_answered_alike_by_scan_and_index(shape: str, tmp_path: Path) -> None:
    declares, at, _ = SHAPES[shape]
    table = Table(tmp_path, declares)
    for first in (1, 3, 5):
        table.write([first, first + 1], at)
    Drive(table.path, tmp_path / "index", ["at"]).drain()
    indexed = tailbit.open(table.path, tmp_path / "index")
    assert indexed.verify().sound
    for opened in (tailbit.open(table.path), indexed):
        for condition, count in (
            ("at >= TIMESTAMP_NTZ'2024-01-01 00:00:00'", 3),
            ("at < TIMESTAMP_NTZ'1971-01-01 00:00:00'", 0),
            ("at = TIMESTAMP_NTZ'2024-07-10 17:07:04.939'", 3),
            ("at IN (TIMESTAMP_NTZ'2024-07-10 17:07:04.939', TIMESTAMP_NTZ'1970-01-20 21:57:11.224939')", 3),
            ("year(at) = 2024", 3),
            ("at IS NULL", 3),
        ):
            text = condition if shape.startswith("a local") else condition.replace("_NTZ", "")
            assert opened.where(text).count() == count, text
    assert indexed.where("at IS NOT NULL").files_scanned == 0


def test_files_written_before_the_schema_declared_milliseconds_are_read_by_it_from_then_on(
    tmp_path: Path,
) -> None:
    table = Table(tmp_path, declared("timestamp-micros"))
    table.write([1], numbers(INSTANT, MILLIS))
    table.write([2], numbers(INSTANT, MILLIS + 1))
    Drive(table.path, tmp_path / "index", ["at"]).drain()
    opened = tailbit.open(table.path, tmp_path / "index")
    early = opened.where("at < TIMESTAMP'1971-01-01 00:00:00Z'")
    assert (opened.where(RECENT).count(), early.count()) == (0, 2)
    table.declares = declared("timestamp-millis")
    table.write([3], numbers(pa.timestamp("ms", "UTC"), MILLIS))
    lagging = tailbit.open(table.path, tmp_path / "index").where(RECENT)
    assert lagging.count() == 3
    Drive(table.path, tmp_path / "index", ["at"]).drain()
    followed = tailbit.open(table.path, tmp_path / "index")
    answer = followed.where(RECENT)
    assert (answer.count(), answer.files_scanned) == (3, 0)
    assert followed.verify().sound
    before = open_table(table.path).versions(0, open_table(table.path).head())[1]
    assert followed.where(RECENT, version=before).count() == 0
    for version, years in ((before, [1970, 1970]), (None, [2024, 2024, 2024]), (before, [1970, 1970])):
        times = tailbit.open(table.path).where(version=version).read(["at"])["at"].to_pylist()
        assert [time.year for time in times] == years


def test_an_index_that_was_built_by_other_rules_of_reading_is_built_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = Table(tmp_path, declared("timestamp-millis"))
    table.write([1, 2], WRONG)
    with monkeypatch.context() as other:
        other.setattr(hudi_schema, "READING_RULES", 0)
        other.setattr(retention, "READING_RULES", 0)
        hudi_schema.reading_mark.cache_clear()
        Drive(table.path, tmp_path / "index", ["at"]).drain()
    hudi_schema.reading_mark.cache_clear()
    before = tailbit.open(table.path, tmp_path / "index").where(RECENT)
    assert (before.count(), before.files_scanned) == (1, 1)
    Drive(table.path, tmp_path / "index", ["at"]).drain()
    after = tailbit.open(table.path, tmp_path / "index").where(RECENT)
    assert (after.count(), after.files_scanned) == (1, 0)


def header(declares: Any) -> Avro:
    """Return the schema of a log block whose times are declared in some way."""
    known = record(declares)
    return {**known, "fields": [{"name": META[2], "type": nullable("string")}, *known["fields"]]}


def avro(declares: Any, key: int, at: int) -> Any:
    return lambda instant: avro_block(instant, header(declares), [{META[2]: str(key), "key": key, "at": at}])


BY_COMMIT = {"hoodie.record.merge.mode": "COMMIT_TIME_ORDERING"}
BY_TIME = {"hoodie.record.merge.mode": "EVENT_TIME_ORDERING", "hoodie.table.ordering.fields": "at"}


@pytest.mark.parametrize("said", ["timestamp-millis", "timestamp-micros"])
def test_blocks_of_avro_are_read_in_the_unit_that_the_table_declares(said: str, tmp_path: Path) -> None:
    table = Table(tmp_path, declared("timestamp-millis"), "MERGE_ON_READ", **BY_COMMIT)
    base = table.write([1, 2], numbers(INSTANT, MILLIS, MILLIS), GROUP)
    table.log(base, avro(declared(said), 2, MILLIS + 1))
    assert table.values() == {1: MOMENT, 2: MOMENT.replace(microsecond=940000)}


@pytest.mark.parametrize("unit", ["millis", "micros"])
def test_local_times_of_blocks_without_a_unit_have_that_of_the_table(unit: str, tmp_path: Path) -> None:
    factor = 1 if unit == "millis" else 1000
    table = Table(tmp_path, declared(f"local-timestamp-{unit}"), "MERGE_ON_READ", **BY_COMMIT)
    base = table.write([1, 2], numbers(pa.int64(), MILLIS * factor, MILLIS * factor), GROUP)
    table.log(base, avro("long", 2, (MILLIS + 1) * factor))
    assert table.values() == {1: LOCAL, 2: LOCAL.replace(microsecond=940000)}


def test_blocks_of_parquet_are_read_in_the_unit_that_the_table_declares(tmp_path: Path) -> None:
    table = Table(tmp_path, declared("timestamp-millis"), "MERGE_ON_READ", **BY_COMMIT)
    base = table.write([1, 2], numbers(INSTANT, MILLIS, MILLIS), GROUP)
    rows = stored([2], numbers(INSTANT, MILLIS + 1))
    table.log(base, lambda instant: parquet_block(instant, header(declared("timestamp-micros")), rows))
    Drive(table.path, tmp_path / "index", ["at"]).drain()
    assert table.values() == {1: MOMENT, 2: MOMENT.replace(microsecond=940000)}
    answer = tailbit.open(table.path, tmp_path / "index").where(RECENT)
    assert (answer.count(), answer.files_scanned) == (2, 0)


def test_rows_ordered_by_times_of_one_unit_are_merged(tmp_path: Path) -> None:
    table = Table(tmp_path, declared("timestamp-millis"), "MERGE_ON_READ", **BY_TIME)
    base = table.write([1, 2], numbers(pa.timestamp("ms", "UTC"), MILLIS, MILLIS), GROUP)
    table.log(base, avro(declared("timestamp-millis"), 1, MILLIS - 1))
    table.log(base, avro(declared("timestamp-millis"), 2, MILLIS + 1))
    assert table.values() == {1: MOMENT, 2: MOMENT.replace(microsecond=940000)}


@pytest.mark.supports_hudi(
    "MERGE_ON_READ", "an ordering column of times that some files label wrongly", "refused"
)
def test_rows_ordered_by_times_of_which_some_are_mislabelled_are_refused(tmp_path: Path) -> None:
    table = Table(tmp_path, declared("timestamp-millis"), "MERGE_ON_READ", **BY_TIME)
    base = table.write([1, 2], numbers(INSTANT, MILLIS, MILLIS), GROUP)
    table.log(base, avro(declared("timestamp-millis"), 2, MILLIS - 1))
    with pytest.raises(UnsupportedFeatureError, match="ordering values of different types"):
        table.values()


@pytest.mark.supports_hudi("Ways to ask", "times that files label wrongly, in views of `to_delta`", "refused")
def test_a_view_over_files_that_mislabel_their_times_is_refused(tmp_path: Path) -> None:
    table = Table(tmp_path, declared("timestamp-millis"))
    table.write([1, 2], WRONG)
    with pytest.raises(UsageError, match="other engines would not read the same values"):
        tailbit.open(table.path).where().to_delta(tmp_path / "view")


@pytest.mark.parametrize("array", [False, True], ids=["an instant", "an array of instants"])
def test_counts_stay_right_where_files_leave_with_the_commit_that_declares_milliseconds(
    array: bool, tmp_path: Path
) -> None:
    def times(label: pa.DataType, *at: int) -> pa.Array:
        return (
            pa.ListArray.from_arrays(list(range(len(at) + 1)), numbers(label, *at))
            if array
            else numbers(label, *at)
        )

    def kind(logical: str) -> Any:
        return {"type": "array", "items": nullable(declared(logical))} if array else declared(logical)

    table = Table(tmp_path, kind("timestamp-micros"))
    old = table.write([1, 2], times(INSTANT, MILLIS, MILLIS))
    table.write([3], times(INSTANT, MILLIS))
    Drive(table.path, tmp_path / "index", ["at"]).drain()
    table.declares = kind("timestamp-millis")
    table.write([1], times(pa.timestamp("ms", "UTC"), MILLIS + 1), old.file_id)
    Drive(table.path, tmp_path / "index", ["at"]).drain()
    opened = tailbit.open(table.path, tmp_path / "index")
    assert opened.verify().sound
    assert array or opened.where().facets("at") == {MOMENT: 1, MOMENT.replace(microsecond=940000): 1}
    table.write([3], times(INSTANT, MILLIS + 1))
    late = table.write([4], times(INSTANT, MILLIS + 1))
    Drive(table.path, tmp_path / "index", ["at"]).drain()
    table.write([4], times(INSTANT, MILLIS + 2), late.file_id)
    Drive(table.path, tmp_path / "index", ["at"]).drain()
    assert tailbit.open(table.path, tmp_path / "index").verify().sound
