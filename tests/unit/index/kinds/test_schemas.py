"""A kind is a thing: one that comes is a module and a line, here `RowCounts` and `WITH_ROW_COUNTS`."""

from __future__ import annotations

import pickle
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable

from support.built import Built
from support.delta_builder import DeltaBuilder
from support.index_records import ledger, record, settings
from tailbit.errors import CorruptIndexError, IndexFormatError
from tailbit.index.kinds.bitmap_index import BITMAP_INDEX
from tailbit.index.kinds.files import FILES, RecordedFiles, files_to_arrow
from tailbit.index.kinds.kind import CheckedSource, Entering, Kind, Merged, MergeGroup, Problem, View
from tailbit.index.kinds.ledger import ledger_from_arrow, ledger_to_arrow
from tailbit.index.kinds.schemas import KINDS, Kinds
from tailbit.index.kinds.settings import FORMAT, NEWEST_FORMAT, settings_from_arrow, settings_to_arrow
from tailbit.index.maintenance.merge import merge_all
from tailbit.index.maintenance.repair import Scrubber, damage_of, mend, why_damaged
from tailbit.index.maintenance.vacuum import vacuum
from tailbit.index.maintenance.verify import Report, verify
from tailbit.index.model import FileRecord
from tailbit.index.query.coverage import cover
from tailbit.index.store.table import MetadataTable
from tailbit.index.write.run import run_task
from tailbit.tables import open_table
from tailbit.tables.model import Column
from tailbit.tables.storage import LocalStorage, Storage

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.string())])


@dataclass(frozen=True)
class RowCounts(Kind[Mapping[str, int]]):
    """One row says how many rows a data file and each of its row groups have."""

    name: ClassVar[str] = "row_counts"
    schema: ClassVar[pa.Schema] = pa.schema(
        [("path", pa.string()), ("rows", pa.int64()), ("row_groups", pa.list_(pa.int64()))]
    )
    sorted_by: ClassVar[tuple[str, ...]] = ("path",)

    def reader(self, view: View) -> Mapping[str, int]:
        parts = [self.read(view.storage, path) for path in view.paths_of(self)]
        rows = pa.concat_tables([self.schema.empty_table(), *parts])
        return dict(zip(rows["path"].to_pylist(), rows["rows"].to_pylist(), strict=True))

    def build(self, entering: Sequence[Entering], columns: Sequence[Column]) -> Iterator[pa.Table]:
        for file in sorted(entering, key=lambda file: file.slice.path):
            footer = file.open().metadata
            groups = [footer.row_group(n).num_rows for n in range(footer.num_row_groups)]
            columns = {"path": [file.slice.path], "rows": [footer.num_rows], "row_groups": [groups]}
            yield pa.table(columns, schema=self.schema)

    def merge(self, view: View, group: MergeGroup, earliest: int | None) -> Merged:
        rows = pa.concat_tables([self.read(view.storage, path) for path in group.inputs])
        records = view.reader(FILES).get_all(rows["path"].to_pylist())
        kept = pa.array([record.path for record in records if record.is_reachable(earliest)], pa.string())
        rows = rows.filter(pc.is_in(rows["path"], value_set=kept)).sort_by("path")
        return Merged(tuple(self.write_stream(view.storage, [rows])))

    def check(self, view: View, source: CheckedSource) -> Iterator[Problem]:
        counted = view.reader(self)
        for slice_ in source.slices:
            if counted.get(slice_.path, slice_.rows) != slice_.rows:
                yield Problem(f"row count of {slice_.path}", f"{counted[slice_.path]} rows")


ROW_COUNTS = RowCounts()
WITH_ROW_COUNTS = Kinds((*KINDS.every, ROW_COUNTS))


@dataclass
class Grown:
    """A table that grows by one file a commit, and an index of it with one kind more."""

    table: DeltaBuilder
    built: Built

    @property
    def index(self) -> MetadataTable:
        return MetadataTable.open(self.built.index, WITH_ROW_COUNTS)

    def append(self, number: int) -> None:
        """Commit a file of `number` + 1 rows, and bring the index up to date."""
        rows = pa.table({"k": pa.array(range(number + 1), pa.int64()), "v": ["x"] * (number + 1)})
        self.table.commit([self.table.data_file(rows, f"f{number}")])
        self.index_it()

    def index_it(self) -> None:
        task = replace(self.built.task(), kinds=WITH_ROW_COUNTS)
        result = run_task(pickle.loads(pickle.dumps(task)))
        version = open_table(self.table.path).head()
        self.index.commit(result.records, result.files, ledger(version))

    def verified(self) -> Report:
        index, snapshot = self.index, self.built.snapshot()
        source = LocalStorage(self.table.path)
        return verify(index.state, cover(snapshot, source, index.state, True), source)


@pytest.fixture
def grown(tmp_path: Path) -> Grown:
    table = DeltaBuilder(str(tmp_path / "t")).create(SCHEMA)
    found = Grown(table, Built(table.path, str(tmp_path / "i"), ["k", "v"]))
    for number in range(3):
        found.append(number)
    return found


def test_a_kind_that_comes_is_written_in_the_commit_of_the_batch_and_read(grown: Grown) -> None:
    assert grown.index.state.reader(ROW_COUNTS) == {"f0": 1, "f1": 2, "f2": 3}
    assert len(grown.index.state.files_of(ROW_COUNTS)) == 3
    grown.built.check()


def test_what_a_kind_reads_follows_the_commits_of_others(grown: Grown) -> None:
    index = grown.index
    assert len(index.state.reader(ROW_COUNTS)) == 3
    grown.append(3)
    assert index.refresh()
    assert index.state.reader(ROW_COUNTS)["f3"] == 4


def test_a_kind_that_comes_is_merged_with_the_others_in_one_commit(grown: Grown) -> None:
    for number in range(3, 8):
        grown.append(number)
    grown.table.commit([grown.table.remove("f2")])
    grown.index_it()
    index = grown.index
    assert merge_all(index, open_table(grown.table.path).head()) == 1
    for found in (index, grown.index):
        assert len(found.state.files_of(ROW_COUNTS)) == len(found.state.files_of(BITMAP_INDEX)) == 1
        assert found.state.reader(ROW_COUNTS) == {f"f{n}": n + 1 for n in range(8) if n != 2}
    assert grown.verified().sound
    grown.built.check()


def test_verify_finds_what_is_wrong_in_a_kind_that_comes(grown: Grown) -> None:
    assert grown.verified().sound
    wrong = pa.table({"path": ["f1"], "rows": [7], "row_groups": [[7]]}, schema=ROW_COUNTS.schema)
    index = grown.index
    old = [file.path for file in index.state.files_of(ROW_COUNTS)]
    index.commit([], [ROW_COUNTS.write(index.storage, wrong)], None, removes=old)
    assert grown.verified().problems == [Problem("row count of f1", "7 rows")]


def test_damage_of_a_kind_that_comes_is_named_by_verify(grown: Grown) -> None:
    file = grown.index.state.files_of(ROW_COUNTS)[0]
    Path(grown.built.index, file.path).write_bytes(b"PAR1")
    assert [problem.where for problem in grown.verified().problems] == [file.path]


def test_a_damaged_file_of_a_kind_that_comes_is_taken_out_and_questions_do_without_its_rows(
    grown: Grown,
) -> None:
    index = grown.index
    file = index.state.files_of(ROW_COUNTS)[1]
    Path(grown.built.index, file.path).write_bytes(b"PAR1")
    (found,) = Scrubber(index).look()
    done = mend(index, open_table(grown.table.path), damage_of([Problem.of(found)]), "damaged")
    assert (done.removed, done.to_post, done.to_count) == ((file.path,), 0, 0)
    assert len(grown.index.state.reader(ROW_COUNTS)) == 2
    assert grown.verified().sound
    grown.built.check()


def test_a_file_whose_contents_no_longer_decode_is_found_by_its_own_kind(grown: Grown) -> None:
    @dataclass(frozen=True)
    class Positive(RowCounts):
        """Its rows are decoded by this kind alone: none has fewer than two rows."""

        def read_whole(self, storage: Storage, path: str) -> None:
            if min(self.read(storage, path)["rows"].to_pylist()) < 2:
                raise CorruptIndexError(file=path, reason="fewer than two rows")

    kinds = Kinds((*KINDS.every, Positive()))
    found = Scrubber(MetadataTable.open(grown.built.index, kinds)).look()
    assert [damage.fields["reason"] for damage in found] == ["fewer than two rows"]


def test_who_does_not_know_a_kind_takes_no_file_of_it_for_damaged(grown: Grown) -> None:
    stranger = MetadataTable.open(grown.built.index)
    assert Scrubber(stranger).look() == []
    file = grown.index.state.files_of(ROW_COUNTS)[0]
    Path(grown.built.index, file.path).unlink()
    assert Scrubber(stranger).look() == []
    assert why_damaged(stranger.storage, file.path) is None
    assert [damage.fields["file"] for damage in Scrubber(grown.index).look()] == [file.path]


def test_vacuum_deletes_of_a_kind_that_comes_what_no_commit_names(grown: Grown) -> None:
    index = grown.index
    orphan = ROW_COUNTS.write(index.storage, ROW_COUNTS.schema.empty_table())
    live = {file.path for file in index.state.files_of(ROW_COUNTS)}
    assert vacuum(index, older_than_hours=-1) == [orphan.path]
    assert {str(p.relative_to(index.path)) for p in Path(index.path).glob("kind=row_counts/*")} == live


def test_who_does_not_know_a_kind_reads_and_merges_the_others_and_leaves_it_alone(grown: Grown) -> None:
    for number in range(3, 8):
        grown.append(number)
    stranger = MetadataTable.open(grown.built.index)
    before = grown.index.state.files_of(ROW_COUNTS)
    assert merge_all(stranger) == 1
    assert vacuum(stranger, older_than_hours=-1) == []
    assert grown.index.state.files_of(ROW_COUNTS) == before
    grown.built.check()


def test_the_columns_of_a_kind_are_in_the_table_that_other_engines_read(tmp_path: Path) -> None:
    MetadataTable.create(str(tmp_path), settings(), WITH_ROW_COUNTS)
    names = [field.name for field in DeltaTable(str(tmp_path)).schema().fields]
    assert names == WITH_ROW_COUNTS.table_schema().names


def test_kinds_of_one_name_or_with_columns_of_two_types_are_refused() -> None:
    class Clash(RowCounts):
        name: ClassVar[str] = "clash"
        schema: ClassVar[pa.Schema] = pa.schema([("path", pa.int64())])

    with pytest.raises(ValueError, match="two kinds have one name"):
        Kinds((*WITH_ROW_COUNTS.every, RowCounts()))
    with pytest.raises(ValueError, match="column path of kind clash"):
        Kinds((*KINDS.every, Clash()))


def test_the_schema_of_the_table_is_the_union_of_the_kinds() -> None:
    names = WITH_ROW_COUNTS.table_schema().names
    assert names[0] == "kind"
    assert set(names[1:]) == {name for kind in WITH_ROW_COUNTS for name in kind.schema.names}
    assert len(set(names)) == len(names)
    assert Kinds((FILES,)).table_schema().names == ["kind", *FILES.schema.names]


@pytest.mark.parametrize("number", [FORMAT - 1, NEWEST_FORMAT + 1])
def test_settings_of_another_format_are_refused_by_number(number: int) -> None:
    rows = settings_to_arrow(replace(settings(), format=number), 0)
    said = f"format {number}; this tailbit reads {NEWEST_FORMAT}"
    with pytest.raises(IndexFormatError, match=said):
        settings_from_arrow(rows, "x")


def test_of_several_ledger_records_the_newest_counts() -> None:
    rows = pa.concat_tables([ledger_to_arrow(ledger(v, seq=v)) for v in (3, 9, 5)])
    found = ledger_from_arrow(rows)
    assert found is not None
    assert found.version == 9


def test_a_ledger_of_a_state_that_there_is_not_is_damage() -> None:
    rows = ledger_to_arrow(ledger(3))
    at = rows.column_names.index("state")
    rows = rows.set_column(at, "state", pa.array(["half"], pa.string()))
    with pytest.raises(CorruptIndexError, match="'half', neither building nor complete"):
        ledger_from_arrow(rows)


@pytest.mark.parametrize("damage", ["truncated", "altered", "gone", "not Parquet"])
def test_a_damaged_record_file_is_a_corrupt_index_with_the_name_of_the_file(
    tmp_path: Path, damage: str
) -> None:
    storage = LocalStorage(str(tmp_path))
    file = FILES.write(storage, files_to_arrow([record("a" * 50)]))
    local = tmp_path / file.path
    data = bytearray(local.read_bytes())
    if damage == "truncated":
        local.write_bytes(data[:-20])
    elif damage == "altered":
        data[60] ^= 0xFF
        local.write_bytes(data)
    elif damage == "gone":
        local.unlink()
    else:
        local.write_bytes(b"hello")
    with pytest.raises(CorruptIndexError) as caught:
        FILES.read(storage, file.path)
    assert file.path in str(caught.value)


def test_recorded_files_say_what_was_recorded_last() -> None:
    files = RecordedFiles(files_to_arrow([record("a", seq=1), record("b", seq=1)]))
    files.extend([record("a", seq=2, size=5), record("c", seq=2)])
    assert len(files) == 3
    assert {p: files.get(p).seq for p in "abc"} == {"a": 2, "b": 1, "c": 2}  # type: ignore[union-attr]
    assert files.get("d") is None
    assert dict(zip(files.table()["path"].to_pylist(), files.table()["seq"].to_pylist(), strict=True)) == {
        "a": 2,
        "b": 1,
        "c": 2,
    }


def test_rows_older_than_what_is_recorded_change_nothing() -> None:
    files = RecordedFiles(files_to_arrow([record("a", seq=5)]))
    files.extend_rows(files_to_arrow([record("a", seq=4, size=1), record("b", seq=2)]))
    assert [files.get(p).seq for p in "ab"] == [5, 2]  # type: ignore[union-attr]


def test_claims_follow_the_records_whether_folded_or_not() -> None:
    files = RecordedFiles(files_to_arrow([record(str(i), space="s", base=10 * i) for i in range(5)]))
    assert [r.path for r in files.claims("s")] == ["0", "1", "2", "3", "4"]
    files.extend([record("1", space="t", base=0, seq=1), record("3", seq=1)])
    for _ in range(2):
        assert [r.path for r in files.claims("s")] == ["0", "2", "4"]
        assert [r.path for r in files.claims("t")] == ["1"]
        files.table()
    files.extend_rows(files_to_arrow([record(f"x{i}", space="t", base=10 + i, seq=2) for i in range(300)]))
    assert len(files.claims("t")) == 301


def test_a_row_space_that_no_file_claims_any_more_is_forgotten() -> None:
    files = RecordedFiles(files_to_arrow([record("a", space="s", base=0)]))
    assert files.claim_counts() == {"s": 1}
    files.extend([record("a", space="t", base=0, seq=1)])
    assert files.claim_counts() == {"t": 1}
    assert files.claims("s") == []


@pytest.mark.by_thirds
@pytest.mark.parametrize("seed", range(20))
def test_whatever_is_recorded_in_whatever_way_the_newest_record_of_each_path_is_found(seed: int) -> None:
    rng = random.Random(seed)
    files, known = RecordedFiles(files_to_arrow([])), dict[str, FileRecord]()
    for seq in range(30):
        count = rng.choice((1, 3, 40, 300))
        paths = rng.sample([str(number) for number in range(900)], count)
        records = [
            record(
                path,
                space=rng.choice((None, "s", "t", f"u{seq}")),
                base=int(path),
                rows=1 + int(path) % 7,
                seq=seq,
            )
            for path in paths
        ]
        known |= {each.path: each for each in records}
        if rng.random() < 0.5:
            files.extend(records)
        else:
            files.extend_rows(files_to_arrow(records))
        if rng.random() < 0.3:
            files.table()
        check_claims(files, known)
    assert len(files) == len(known)
    assert {path: files.get(path) for path in map(str, range(900))} == dict.fromkeys(
        map(str, range(900))
    ) | known


def check_claims(files: RecordedFiles, known: dict[str, FileRecord]) -> None:
    claiming: dict[str, list[FileRecord]] = {}
    for each in sorted(known.values(), key=lambda each: each.base or 0):
        if each.space is not None:
            claiming.setdefault(each.space, []).append(each)
    assert files.claim_counts() == {space: len(claims) for space, claims in claiming.items()}
    for space in (*claiming, "none"):
        claims = claiming.get(space, [])
        assert files.claims(space) == claims
        assert files.claimed_rows(space) == sum(each.rows for each in claims)
