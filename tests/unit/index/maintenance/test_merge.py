from __future__ import annotations

import multiprocessing
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyroaring import BitMap

import tailbit
from support.delta_builder import DeltaBuilder
from support.index_records import counts, hidden, ledger, new_index, record, segment, unchecked_segment
from support.racers import merge_everything
from support.tables import index_of
from support.waiting import HANG_S
from tailbit.base.faults import InjectedFaultError
from tailbit.errors import CorruptIndexError
from tailbit.index.keys import encode_array
from tailbit.index.kinds.kind import size_class
from tailbit.index.kinds.schemas import BITMAP_INDEX, FILES, HIDDEN_ROWS, VALUE_COUNTS
from tailbit.index.maintenance.merge import merge_all, merge_due, run_merge
from tailbit.index.model import FileRecord
from tailbit.index.postings.postings import Postings, write_segment
from tailbit.index.store.table import MetadataTable

Values = Sequence[bytes | None]


def add_space(index: MetadataTable, space: str, files: Mapping[str, Values], column: str = "c") -> None:
    """Commit one row space that holds some files end to end."""
    values = [value for file in files.values() for value in file]
    claims, base = [], 0
    for path, file in files.items():
        claims.append(record(path, len(file), space=space, base=base, built=(column,)))
        base += len(file)
    index.commit(claims, [segment(index, space, {column: values})], ledger(index.version))


def said(index: MetadataTable) -> dict[tuple[str, str, bytes | None], BitMap]:
    """(path, column, key) to physical rows, as the claims and postings say."""
    found: dict[tuple[str, str, bytes | None], BitMap] = {}
    for item in index.state.recorded.records():
        if item.space is None or item.base is None:
            continue
        claim = BitMap(range(item.base, item.base + item.rows))
        for part in index.state.segments_of(item.space):
            for column in set(item.built) & set(part.columns):
                for key in part.keys(column)[0].to_pylist():
                    rows = (part.lookup(column, key) or BitMap()) & claim
                    if rows:
                        at = (item.path, column, key)
                        found[at] = found.get(at, BitMap()) | rows.shift(-item.base)
    return found


def space(number: int) -> str:
    return f"{number:032x}"


def test_seven_files_of_a_class_are_left_alone(tmp_path: Path) -> None:
    index = new_index(str(tmp_path))
    for i in range(7):
        add_space(index, space(i), {f"a{i}": [b"x"]})
    assert merge_due(index.state) == []


def test_a_merge_is_one_commit_that_changes_no_data(tmp_path: Path) -> None:
    index = new_index(str(tmp_path))
    for i in range(8):
        add_space(index, space(i), {f"a{i}": [b"x"]})
        index.commit([], [counts(index, "c", {b"x": 1}), hidden(index, {f"u{i}": [i]})], ledger(i))
    version = index.version
    before = index.state.ledger
    [plan] = merge_due(index.state)
    assert {group.kind for group in plan.groups} == {
        BITMAP_INDEX.name,
        FILES.name,
        VALUE_COUNTS.name,
        HIDDEN_ROWS.name,
    }
    assert run_merge(index, plan)
    assert index.version == version + 1
    commit = (tmp_path / f"_delta_log/{index.version:020}.json").read_text()
    assert '"dataChange":true' not in commit
    assert before is not None
    assert index.state.ledger is not None
    assert (index.state.ledger.version, index.state.ledger.seq) == (before.version, before.seq + 1)
    assert index.state.value_counts("c")[1].tolist() == [8]
    assert [index.state.hidden_rows(f"u{i}") for i in range(8)] == [BitMap([i]) for i in range(8)]


def test_what_no_retained_version_reaches_loses_bits_and_claim_in_one_commit(tmp_path: Path) -> None:
    index = new_index(str(tmp_path))
    for i in range(8):
        add_space(index, space(i), {f"gone{i}": [b"x", b"g"], f"kept{i}": [b"x", b"k"], f"late{i}": [b"l"]})
    for i in range(8):
        for name, left in (("gone", 5), ("late", 9)):
            now = index.state.recorded.get(f"{name}{i}")
            assert now is not None
            index.commit([_left(now, left)], [], ledger(9))
    kept = {at: rows for at, rows in said(index).items() if not at[0].startswith("gone")}
    merge_all(index, earliest_version=5)
    for found in (index, MetadataTable.open(str(tmp_path))):
        assert said(found) == kept
        [only] = found.state.spaces
        assert sum(r.rows for r in found.state.recorded.claims(only)) == 8 * 3
        assert found.state.segments_of(only)[0].lookup("c", b"g") is None
        gone = found.state.recorded.get("gone3")
        assert gone is None or (gone.space, gone.base, gone.built) == (None, None, ())


def _left(record_: FileRecord, version: int) -> FileRecord:
    from dataclasses import replace

    return replace(record_, left=version, counted=False, hidden="")


def test_a_record_that_says_nothing_goes_only_where_no_older_one_can_come_back(tmp_path: Path) -> None:
    index = new_index(str(tmp_path))
    index.commit([record(f"big{i}" + "x" * 200) for i in range(3000)] + [record("a")], [], ledger(0))
    assert size_class(index.state.files_of(FILES)[0].size) > 0
    for i in range(8):
        index.commit([record("a", left=3, counted=False)], [], ledger(i))
    merge_all(index)
    found = MetadataTable.open(str(tmp_path)).state.recorded.get("a")
    assert found is not None
    assert found.left == 3


def test_a_row_space_that_is_mostly_dead_is_written_anew_alone(tmp_path: Path) -> None:
    index = new_index(str(tmp_path))
    add_space(index, space(1), {"a": [b"x"] * 5, "b": [b"x"] * 4})
    now = index.state.recorded.get("a")
    assert now is not None
    index.commit([_left(now, 3)], [], ledger(4))
    assert merge_due(index.state, 2) == []
    assert merge_all(index, 3) == 1
    assert merge_due(index.state, 3) == []
    assert said(MetadataTable.open(str(tmp_path))) == {("b", "c", b"x"): BitMap(range(4))}


def test_a_row_space_without_claims_vanishes(tmp_path: Path) -> None:
    index = new_index(str(tmp_path))
    add_space(index, space(1), {"a": [b"x"]})
    index.commit([record("a", 1)], [], ledger(1))
    assert merge_all(index) == 1
    assert index.state.spaces == {}


def test_bits_outside_the_claims_vanish(tmp_path: Path) -> None:
    index = new_index(str(tmp_path))
    for i in range(8):
        file = segment(index, space(i), {"c": [b"x", b"lost", b"x", b"lost"]})
        claims = [
            record(f"a{i}", 1, space=space(i), base=0, built=("c",)),
            record(f"b{i}", 1, space=space(i), base=2, built=("c",)),
        ]
        index.commit(claims, [file], ledger(i))
    before = said(index)
    merge_all(index)
    assert said(index) == before
    [only] = index.state.spaces.values()
    assert only[0].keys("c")[0].to_pylist() == [b"x"]
    assert only[0].lookup("c", b"x") == BitMap(range(16))


def test_columns_posted_later_meet_the_others_in_one_segment(tmp_path: Path) -> None:
    index = new_index(str(tmp_path), "c", "d")
    for i in range(8):
        add_space(index, space(i), {f"a{i}": [b"x", b"y"]})
        late = segment(index, space(i), {"d": [b"1", None]})
        claim = record(f"a{i}", 2, space=space(i), base=0, built=("c", "d"))
        index.commit([claim], [late], ledger(i))
    before = said(index)
    merge_all(index)
    assert said(MetadataTable.open(str(tmp_path))) == before
    assert [set(s.columns) for s in next(iter(index.state.spaces.values()))] == [{"c", "d"}]


def add_typed_space(index: MetadataTable, number: int, values: pa.Array, key_type: str) -> None:
    """Commit one row space of one file, with one row a value."""
    keys = encode_array(values, key_type)
    bitmaps = pa.array([BitMap([k]).serialize() for k in range(len(keys))], pa.binary())
    postings = [Postings("c", key_type, keys, np.ones(len(keys), dtype=np.int64), bitmaps)]
    file = write_segment(index.storage, space(number), len(keys), postings)
    claim = record(f"a{number}", len(keys), space=space(number), base=0, built=("c",))
    index.commit([claim], [file], ledger(number))


def test_keys_of_a_widened_column_are_merged_in_the_widest_type(tmp_path: Path) -> None:
    index = new_index(str(tmp_path))
    for i in range(8):
        type_, key_type = (pa.int64(), "integer") if i % 2 else (pa.decimal128(10, 2), "decimal(2)")
        add_typed_space(index, i, pa.array([i, 7 + i], type_), key_type)
    merge_all(index)
    [only] = next(iter(index.state.spaces.values()))
    assert only.columns == {"c": "decimal(2)"}
    wanted = encode_array(pa.array(range(15), pa.decimal128(10, 2)), "decimal(2)").to_pylist()
    assert only.keys("c")[0].to_pylist() == wanted
    assert len(only.lookup("c", wanted[7]) or ()) == 2


def test_row_spaces_of_a_column_that_got_another_type_are_not_merged_with_each_other(tmp_path: Path) -> None:
    """REPLACE TABLE may give a column any other type; files of before stay indexed for time travel."""
    index = new_index(str(tmp_path))
    for i in range(11):
        values, key_type = (pa.array([True]), "boolean") if i < 3 else (pa.array([i]), "integer")
        add_typed_space(index, i, values, key_type)
    before = said(index)
    merge_all(index)
    assert said(MetadataTable.open(str(tmp_path))) == before
    types = [s.columns["c"] for found in index.state.spaces.values() for s in found]
    assert sorted(types) == ["boolean", "boolean", "boolean", "integer"]


def test_hidden_rows_in_use_survive_every_merge_and_others_do_not(tmp_path: Path) -> None:
    index = new_index(str(tmp_path))
    noise = np.random.default_rng(0)
    for i in range(64):
        rows = {f"u{i}-{k}": noise.integers(0, 1 << 30, 400) for k in range(3)}
        index.commit([record(f"f{i}", hidden=f"u{i}-1")], [hidden(index, rows)], ledger(i))
        merge_all(index)
    assert all(index.state.hidden_rows(f"u{i}-1") is not None for i in range(64))
    assert sum(index.state.hidden_rows(f"u{i}-0") is not None for i in range(64)) < 32


def test_size_classes_grow_by_eight() -> None:
    assert [size_class(n * 4096) for n in (0, 1, 7, 8, 63, 64, 511, 512)] == [0, 0, 0, 1, 1, 2, 2, 3]


def test_many_small_commits_leave_few_files(tmp_path: Path) -> None:
    index = new_index(str(tmp_path))
    for i in range(100):
        claims = [record(f"f{i}", 2, space=space(i), base=0, built=("c",))]
        files = [
            segment(index, space(i), {"c": [b"x", b"%d" % i]}),
            counts(index, "c", {b"x": 1, b"%d" % i: 1}),
        ]
        index.commit(claims, files, ledger(i))
        merge_all(index)
    fresh = MetadataTable.open(str(tmp_path))
    assert len(fresh.state.files) < 40
    assert len(said(fresh)) == 200
    assert sum(fresh.state.value_counts("c")[1].tolist()) == 200


def test_a_merge_whose_inputs_another_has_merged_does_nothing(tmp_path: Path) -> None:
    index = new_index(str(tmp_path))
    for i in range(8):
        add_space(index, space(i), {f"a{i}": [b"x"]})
    other = MetadataTable.open(str(tmp_path))
    [plan] = merge_due(other.state)
    merge_all(index)
    before = said(index)
    assert not run_merge(other, plan)
    assert said(MetadataTable.open(str(tmp_path))) == before


def test_a_merge_that_another_commit_overtakes_lands_on_top_of_it(tmp_path: Path) -> None:
    index = new_index(str(tmp_path))
    for i in range(8):
        add_space(index, space(i), {f"a{i}": [b"x", b"y"]})
    other = MetadataTable.open(str(tmp_path))
    [plan] = merge_due(other.state)
    now = index.state.recorded.get("a3")
    assert now is not None
    index.commit([_left(now, 9), record("new")], [], ledger(9))
    before = said(index)
    assert run_merge(other, plan)
    index.refresh()
    for found in (index, other, MetadataTable.open(str(tmp_path))):
        assert said(found) == before
        assert found.state.recorded.get("a3").left == 9  # type: ignore[union-attr]
        assert found.state.recorded.get("new") is not None
        assert len(found.state.spaces) == 1


def test_a_file_that_came_back_while_its_bits_were_dropped_stops_the_merge(tmp_path: Path) -> None:
    index = new_index(str(tmp_path))
    for i in range(8):
        add_space(index, space(i), {f"a{i}": [b"x", b"y"]})
    now = index.state.recorded.get("a3")
    assert now is not None
    index.commit([_left(now, 5)], [], ledger(9))
    other = MetadataTable.open(str(tmp_path))
    [plan] = merge_due(other.state, 5)
    index.commit([now], [], ledger(10))
    assert not run_merge(other, plan)
    assert MetadataTable.open(str(tmp_path)).state.recorded.get("a3").space == now.space  # type: ignore[union-attr]


@pytest.mark.parametrize("point", ["merge_written", "before_commit", "after_commit", "merge_committed"])
def test_a_merge_that_dies_changes_nothing_that_the_index_says(
    tmp_path: Path, point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = new_index(str(tmp_path))
    for i in range(8):
        add_space(index, space(i), {f"a{i}": [b"x", None], f"b{i}": [b"y"]})
        index.commit([], [counts(index, "c", {b"x": 1})], ledger(i))
    before = said(index)
    monkeypatch.setenv("TAILBIT_FAULT", f"{point}=raise")
    monkeypatch.setattr("tailbit.base.faults._passes", {})
    with pytest.raises(InjectedFaultError):
        merge_all(index)
    monkeypatch.delenv("TAILBIT_FAULT")
    fresh = MetadataTable.open(str(tmp_path))
    assert said(fresh) == before
    merge_all(fresh)
    assert said(fresh) == before
    assert fresh.state.value_counts("c")[1].tolist() == [8]


def test_a_damaged_input_stops_the_merge_by_name_and_is_left_alone(tmp_path: Path) -> None:
    index = new_index(str(tmp_path))
    for i in range(8):
        add_space(index, space(i), {f"a{i}": [b"x"]})
    path = index.state.segments_of(space(3))[0].path
    data = bytearray((tmp_path / path).read_bytes())
    keys = pq.read_metadata(tmp_path / path).row_group(0).column(3)
    data[keys.data_page_offset + keys.total_compressed_size - 1] ^= 0xFF
    (tmp_path / path).write_bytes(data)
    before = MetadataTable.open(str(tmp_path)).state.files
    with pytest.raises(CorruptIndexError) as caught:
        merge_all(MetadataTable.open(str(tmp_path)))
    assert path in str(caught.value)
    assert MetadataTable.open(str(tmp_path)).state.files == before


def broken(index: MetadataTable, number: int) -> str:
    """A row space whose segment holds a bitmap as an earlier kernel wrote it; the segment's path.

    Of its 65,536 rows 4,096 have `x`: they are written as a bitset, and read as an array.
    """
    bits = np.zeros(1 << 16, dtype=np.uint8)
    bits[::16] = 1
    data = BitMap(range(0, 1 << 16, 16)).serialize()[:16] + np.packbits(bits, bitorder="little").tobytes()
    keys, sizes = pa.array([b"x"], pa.binary()), np.array([4096], dtype=np.int64)
    part = Postings("c", "binary", keys, sizes, pa.array([data], pa.binary()))
    file = unchecked_segment(index.storage, space(number), 1 << 16, part)
    claim = record(f"a{number}", 1 << 16, space=space(number), base=0, built=("c",))
    index.commit([claim], [file], ledger(number))
    return file.path


def test_a_broken_bitmap_stops_the_merge_by_name_and_says_what_to_do(tmp_path: Path) -> None:
    index = new_index(str(tmp_path))
    path, *_ = [broken(index, i) for i in range(8)]
    before, files = index.version, set(index.state.files)
    with pytest.raises(CorruptIndexError, match="a bitmap is damaged") as damage:
        merge_all(index)
    assert (damage.value.fields["file"], "tailbit repair" in damage.value.hint) == (path, True)
    reloaded = MetadataTable.open(str(tmp_path))
    assert (reloaded.version, set(reloaded.state.files)) == (before, files)


def test_one_position_whose_bitmap_is_broken_stops_the_merge_by_name(tmp_path: Path) -> None:
    index = new_index(str(tmp_path))
    for i in range(8):
        keys, sizes = pa.array([b"x"], pa.binary()), np.ones(1, dtype=np.int64)
        data = b"\xff" + BitMap([0]).serialize()[1:]
        part = Postings("c", "binary", keys, sizes, pa.array([data], pa.binary()))
        file = unchecked_segment(index.storage, space(i), 1, part)
        index.commit([record(f"a{i}", 1, space=space(i), base=0, built=("c",))], [file], ledger(i))
    with pytest.raises(CorruptIndexError, match="a bitmap is damaged"):
        merge_all(index)


def test_two_processes_merging_at_once_merge_once(tmp_path: Path) -> None:
    index = new_index(str(tmp_path))
    for i in range(16):
        add_space(index, space(i), {f"a{i}": [b"x", b"%d" % i]})
    before = said(index)
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=merge_everything, args=(str(tmp_path),)) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(HANG_S)
        assert worker.exitcode == 0
    found = MetadataTable.open(str(tmp_path))
    assert said(found) == before
    assert len(found.state.spaces) == 1


def test_row_spaces_are_not_merged_whose_keys_are_beyond_the_new_type_of_their_column(tmp_path: Path) -> None:
    builder = DeltaBuilder(str(tmp_path / "t")).create(pa.schema([("v", pa.int64())]))
    drive = index_of(builder.path, ["v"])
    decimal = pa.decimal128(38, 30)
    for number in range(8):
        values = [10**10 + number] if number < 4 else [Decimal(number)]
        rows = pa.table({"v": pa.array(values, pa.int64() if number < 4 else decimal)})
        replaced = [builder.remove(path) for path in builder.live] if number == 4 else []
        schema = [{"metaData": builder.metadata_action(rows.schema)}] if number == 4 else []
        builder.commit([*schema, *replaced, builder.data_file(rows)])
        drive.drain()
    merge_all(MetadataTable.open(f"{builder.path}/_tailbit"))
    opened = tailbit.open(builder.path)
    assert opened.where().facets("v") == {Decimal(number): 1 for number in range(4, 8)}
    assert opened.where("v = 5").count() == 1
    assert opened.verify().sound
