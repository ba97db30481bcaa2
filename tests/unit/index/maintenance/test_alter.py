"""Columns of an index come and go: in one commit, beside other writers, without a trace that misleads."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from deltalake import write_deltalake

import tailbit
from support.delta_builder import DeltaBuilder, field_json
from support.drive import Drive
from support.tables import index_of
from tailbit.checkpoints.recovery import Verdict
from tailbit.errors import ColumnTypeError, NoIndexError, UnknownColumnError, UsageError
from tailbit.index.kinds.bitmap_index import BITMAP_INDEX
from tailbit.index.store.state import statistics_of
from tailbit.index.store.table import MetadataTable
from tailbit.streaming.settings import StreamSettings
from tailbit.upkeep.status import status_of


def write(path: str, first: int) -> None:
    keys = range(first, first + 10)
    columns = {"k": list(keys), "a": [f"a{k % 3}" for k in keys], "b": [k % 4 or None for k in keys]}
    tags = pa.array([[["x"]]] * 10, pa.list_(pa.list_(pa.string())))
    write_deltalake(path, pa.table({**columns, "tags": tags}), mode="append")


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Four files of ten rows."""
    table = str(tmp_path / "t")
    for first in range(0, 40, 10):
        write(table, first)
    return table


def scanned(path: str, predicate: str) -> int:
    answer = tailbit.open(path).where(predicate)
    keys = np.arange(40)
    assert answer.count() == {"a = 'a1'": (keys % 3 == 1).sum(), "b = 2": (keys % 4 == 2).sum()}[predicate]
    return answer.files_scanned


def labels(path: str) -> list[str]:
    return [c.label for c in MetadataTable.open(f"{path}/_tailbit").state.settings.columns]


def _bytes_of_postings(path: str) -> int:
    index = MetadataTable.open(f"{path}/_tailbit")
    return statistics_of(index.version, index.state).bytes[BITMAP_INDEX.name]


def test_a_column_that_is_added_is_scanned_for_file_by_file_until_it_is_posted(path: str) -> None:
    index_of(path, ["a"])
    tailbit.open(path).alter(add=["b"])
    drive = Drive(path, f"{path}/_tailbit", None, StreamSettings(files=1))
    left = [scanned(path, "b = 2")]
    while drive.step() is not None:
        left.append(scanned(path, "b = 2"))
        assert scanned(path, "a = 'a1'") == 0
    assert left == [4, 3, 2, 1, 0]
    assert tailbit.open(path).verify().problems == []


def test_a_running_indexer_takes_up_an_added_column_without_a_commit_of_the_table(path: str) -> None:
    drive = index_of(path, ["a"])
    assert drive.step() is None
    tailbit.open(path).alter(add=["b"])
    drive.drain()
    assert scanned(path, "b = 2") == 0
    assert drive.step() is None


def test_a_dropped_column_costs_no_new_round_and_its_bits_go_when_merged(path: str) -> None:
    drive = index_of(path, ["a", "b"])
    done = tailbit.open(path).alter(drop=["b"])
    assert (done.dropped, labels(path)) == (("b",), ["a"])
    assert drive.step() is None
    assert scanned(path, "b = 2") == 4
    tailbit.open(path).compact()
    segments = [s for found in MetadataTable.open(f"{path}/_tailbit").state.spaces.values() for s in found]
    assert {column for segment in segments for column in segment.columns} == {"a"}
    assert scanned(path, "a = 'a1'") == 0
    assert tailbit.open(path).verify().problems == []


@pytest.mark.parametrize("compact", [False, True])
def test_a_column_that_was_dropped_and_comes_back_is_counted_once(path: str, compact: bool) -> None:
    drive = index_of(path, ["a", "b"])
    tailbit.open(path).alter(drop=["b"])
    if compact:
        tailbit.open(path).compact()
    tailbit.open(path).alter(add=["b"])
    drive.drain()
    opened = tailbit.open(path)
    assert opened.where().facets("b") == {None: 10, 1: 10, 2: 10, 3: 10}
    assert opened.where("a <> 'a9'").facets("b") == {None: 10, 1: 10, 2: 10, 3: 10}
    assert opened.verify().problems == []


@pytest.mark.supports("Changes", "two alterations at once", "exact")
def test_of_two_alterations_at_once_both_hold(path: str) -> None:
    index_of(path, ["a"])
    one, other = tailbit.open(path), tailbit.open(path)
    assert one._index is not None
    assert other._index is not None
    start = threading.Barrier(2)

    def alter(opened: tailbit.IndexedTable, **change: list[str]) -> None:
        start.wait()
        opened.alter(**change)

    threads = [
        threading.Thread(target=alter, args=(one,), kwargs={"add": ["b"]}),
        threading.Thread(target=alter, args=(other,), kwargs={"add": ["k"], "drop": ["a"]}),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(labels(path)) == ["b", "k"]
    Drive(path, f"{path}/_tailbit").drain()
    assert scanned(path, "b = 2") == 0
    assert tailbit.open(path).verify().problems == []


def test_an_alteration_between_plan_and_commit_of_a_batch_is_not_lost(path: str) -> None:
    """The batch finds another commit before its own, and does its part anew under the new settings."""
    drive = index_of(path, ["a"])
    write(path, 40)
    begin = drive.position
    end = drive.planner.next(begin)
    build = drive.indexer._run

    def altered_meanwhile(tasks: object) -> object:
        drive.indexer._run = build
        results = build(tasks)  # type: ignore[arg-type]
        tailbit.open(path).alter(add=["b"])
        return results

    drive.indexer._run = altered_meanwhile  # type: ignore[assignment]
    assert drive.indexer.apply(begin, end, drive.origin).verdict is Verdict.APPLY
    drive.ends.append(end)
    drive.drain()
    opened = tailbit.open(path)
    answer = opened.where("b = 2")
    assert (answer.count(), answer.files_scanned) == (12, 0)
    assert opened.verify().problems == []


def test_what_is_so_already_changes_nothing(path: str) -> None:
    index_of(path, ["a"])
    before = MetadataTable.open(f"{path}/_tailbit").version
    done = tailbit.open(path).alter(add=["A"], drop=["b"])
    assert (done.added, done.dropped) == ((), ())
    assert MetadataTable.open(f"{path}/_tailbit").version == before


def test_a_column_named_twice_is_added_once(path: str) -> None:
    index_of(path, ["a"])
    assert tailbit.open(path).alter(add=["b", "B"]).added == ("b",)
    assert labels(path) == ["a", "b"]


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"add": ["nope"]}, UnknownColumnError, "nope"),
        ({"drop": ["nope"]}, UnknownColumnError, "nor in its index"),
        ({"add": ["tags"]}, ColumnTypeError, "tags"),
        ({"add": ["b"], "drop": ["B"]}, UsageError, "both added and dropped"),
    ],
)
def test_an_alteration_that_cannot_be_is_refused_and_changes_nothing(
    path: str, change: dict[str, list[str]], error: type[Exception], message: str
) -> None:
    index_of(path, ["a"])
    with pytest.raises(error, match=message):
        tailbit.open(path).alter(**change)
    assert labels(path) == ["a"]


def test_there_must_be_an_index_to_alter(path: str) -> None:
    with pytest.raises(NoIndexError):
        tailbit.open(path).alter(add=["a"])


def test_a_column_that_the_table_no_longer_has_is_dropped_by_its_old_name(path: str) -> None:
    index_of(path, ["a", "b"])
    rows = pa.table({"k": [1], "a": ["a1"]})
    write_deltalake(path, rows, mode="overwrite", schema_mode="overwrite")
    assert tailbit.open(path).alter(drop=["b"]).dropped == ("b",)
    Drive(path, f"{path}/_tailbit").drain()
    answer = tailbit.open(path).where("a = 'a1'")
    assert (answer.count(), answer.files_scanned) == (1, 0)
    assert tailbit.open(path).verify().problems == []


def test_the_bits_of_a_dropped_column_are_in_no_live_segment_once_an_indexer_merges(path: str) -> None:
    index_of(path, ["a", "b"])
    opened = tailbit.open(path)
    opened.alter(drop=["b"])
    before = _bytes_of_postings(path)
    opened.compact()
    assert _bytes_of_postings(path) < before


def mapped(*columns: tuple[str, str]) -> dict[str, object]:
    """A schema of text columns, each by name and physical name."""
    ids = {"delta.columnMapping.id": 1}
    fields = [
        field_json(pa.field(name, pa.string()), **ids, **{"delta.columnMapping.physicalName": physical})
        for name, physical in columns
    ]
    return {"type": "struct", "fields": fields}


def test_a_name_that_the_table_knows_never_drops_the_column_that_had_it_before(tmp_path: Path) -> None:
    """a is renamed to b, and another column is called a: dropping a twice leaves b indexed."""
    by_name = {"delta.columnMapping.mode": "name"}
    table = DeltaBuilder(str(tmp_path / "t"))
    table.create(mapped(("a", "one"), ("c", "two")), configuration=by_name, features=["columnMapping"])
    table.commit([table.data_file(pa.table({"one": ["x"], "two": ["y"]}))])
    index_of(table.path, ["a", "c"])
    later = mapped(("b", "one"), ("c", "two"), ("a", "three"))
    table.commit([{"metaData": table.metadata_action(later, (), by_name, table.metadata["id"])}])
    opened = tailbit.open(table.path)
    opened.alter(add=["a"])
    assert status_of(table.path)["columns"] == ["b", "c", "a"]
    assert opened.alter(drop=["a"]).dropped == ("a",)
    assert opened.alter(drop=["a"]).dropped == ()
    assert status_of(table.path)["columns"] == ["b", "c"]


def test_a_column_is_added_under_a_name_that_no_other_index_has(path: str) -> None:
    opened = tailbit.open(path)
    for name, on in (("A", "upper(b)"), ("a_2", "k"), ("c", "b")):
        opened.create_index(name, on)
    assert opened.alter(add=["a"]).added == ("a",)
    assert [(index.name, index.terms) for index in opened.indexes() if index.terms == ("a",)] == [
        ("a_3", ("a",))
    ]
    opened.drop_index("a")
    assert sorted(index.name for index in opened.indexes()) == ["a_2", "a_3", "c"]
    index_of(path)
    assert scanned(path, "a = 'a1'") == 0


def test_a_file_that_comes_back_with_other_partition_values_is_counted_by_these(tmp_path: Path) -> None:
    schema = pa.schema([("v", pa.int64()), ("p", pa.int32())])
    table = DeltaBuilder(str(tmp_path / "t")).create(schema, ["p"])
    add = table.data_file(pa.table({"v": [1, 2, 3]}), partition={"p": "1"})
    table.commit([add])
    drive = index_of(table.path, ["v", "p"])
    for value in ("2", None, "1"):
        table.commit([table.remove(add["add"]["path"])])
        table.commit([{"add": {**add["add"], "partitionValues": {"p": value}}}])
        drive.drain()
        opened = tailbit.open(table.path)
        assert opened.where().facets("p") == {None if value is None else int(value): 3}
        assert opened.where().facets("v") == {1: 1, 2: 1, 3: 1}
        assert opened.verify().problems == []
