"""What a hand-made MERGE_ON_READ table shows, and what of its log files is refused or damaged, by name."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import date
from decimal import Decimal
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import orjson
import pyarrow as pa
import pytest

import tailbit
from support.drive import Drive
from support.hudi_builder import META, avro_fields
from support.hudi_logs import (
    BASE_INSTANT,
    COMMAND,
    COMPACTED,
    HFILE,
    INSTANT,
    PARTIAL,
    POSITIONS,
    Headers,
    Written,
    avro_block,
    delete_block,
    log_block,
    positions,
)
from support.hudi_made import GROUP, SCHEMA, Blocks, Made, deletions, rows, updates
from tailbit.errors import (
    LogBlockError,
    MalformedLogError,
    UnsupportedFeatureError,
    VacuumedFileError,
    VersionNotFoundError,
)
from tailbit.index.write import counting
from tailbit.tables.hudi.log_files import records
from tailbit.tables.hudi.log_files.blocks import list_blocks
from tailbit.tables.hudi.log_files.keys import FloatOrder, is_less, orderings, read_deletions
from tailbit.tables.hudi.log_files.plan import MergePlan
from tailbit.tables.hudi.log_files.slices import MergedRows
from tailbit.tables.open import open_table
from tailbit.tables.storage import open_storage
from tailbit.tables.storage.local import LocalStorage

LATEST = {
    "hoodie.record.merge.mode": "",
    "hoodie.compaction.payload.class": "org.apache.hudi.common.model.OverwriteWithLatestAvroPayload",
}
"""What a release before 1.0 says of a table in which the later record wins."""


def partial(keys: Sequence[int], ts: int, city: str) -> Blocks:
    """Return a maker of one block of rows of key, time and city alone."""
    table = rows(keys, ts, city).select([META[2], "ts", "city"])
    known = {META[2]: "string", "ts": "long", "city": "string"}
    fields = [{"name": name, "type": ["null", known[name]]} for name in table.column_names]
    schema = {"type": "record", "name": "t_record", "fields": fields}
    return lambda instant: [avro_block(instant, schema, table.to_pylist(), {PARTIAL: "true"})]


def test_a_log_block_changes_the_base_file_and_the_blocks_of_the_same_rows_alone(tmp_path: Path) -> None:
    made, logs, changed = Made(tmp_path), list[str](), list[set[str]]()
    table = open_table(made.path)
    for keys in ([0, 1], [2, 3], [1, 4], [3]):
        more: Headers = {POSITIONS: positions(keys), BASE_INSTANT: made.base.requested}
        logs.append(f"{made.write(updates(keys, 9, more=more))}!0")
        changed.append({change.path for change in table.changes(table.head(), table.head()).slices})
    own = [{made.base.path, log} for log in logs]
    assert changed == [own[0], own[1], own[2] | {logs[0]}, own[3] | {logs[1]}]


@pytest.mark.supports_hudi("MERGE_ON_READ", "deletions by several ordering columns that are all 0", "refused")
def test_rows_are_deleted_by_the_values_of_several_ordering_columns(tmp_path: Path) -> None:
    made = Made(tmp_path, **{"hoodie.table.ordering.fields": "ts,key"})
    made.write(deletions(("0", (5, -1)), ("1", (5, 2)), ("2", (4, 9)), ("3", (5, 3))))
    assert made.cities() == {0: "Oslo", 2: "Oslo", 4: "Oslo"}
    made.write(updates([0, 1, 3], 5, "Pune"))
    assert made.cities() == {0: "Pune", 2: "Oslo", 3: "Pune", 4: "Oslo"}
    refused(made, deletions(("4", (0, 0))), "deletions whose ordering values are all 0")


@pytest.mark.supports_hudi(
    "MERGE_ON_READ",
    "tables of releases before 1.0 (`OverwriteWithLatestAvroPayload`) where a later row in logs has a lesser "
    "ordering value than an earlier one: which is read depends on the release",
    "refused",
)
def test_rows_of_which_older_and_newer_releases_read_different_ones_are_refused(tmp_path: Path) -> None:
    made = Made(tmp_path, 6, **LATEST)
    made.write(updates([0, 1], 4))
    made.write(deletions(("1", None), ("2", 9)))
    made.write(updates([0, 1, 2], 4, "Pune"))
    assert made.cities() == {0: "Pune", 1: "Pune", 2: "Pune", 3: "Oslo", 4: "Oslo"}
    refused(made, updates([0], 3), "Hudi before 1.0")


def test_without_the_ordering_column_all_releases_take_the_later_row(tmp_path: Path) -> None:
    made = Made(tmp_path, 6, **{**LATEST, "hoodie.table.ordering.fields": "absent"})
    made.write(updates([0, 1], 4))
    made.write(updates([0], 3, "Pune"))
    assert made.cities() == {0: "Pune", 1: "Lima", 2: "Oslo", 3: "Oslo", 4: "Oslo"}


@pytest.mark.supports_hudi("MERGE_ON_READ", "log blocks of a writer that died", "exact")
@pytest.mark.parametrize("version", [6, 9])
@pytest.mark.parametrize("kept", [3, 20, -9])
def test_a_torn_block_of_an_instant_that_never_completed_is_passed_over(
    version: int, kept: int, tmp_path: Path
) -> None:
    made = Made(tmp_path, version)
    made.write(updates([0], 6))
    made.write(lambda instant: [updates([1], 6)(instant)[0][:kept]], completes=False)
    made.write(
        lambda instant: [*updates([2], 6)(instant), updates([3], 6)(instant)[0][:kept]], completes=False
    )
    assert made.cities() == {0: "Lima", 1: "Oslo", 2: "Oslo", 3: "Oslo", 4: "Oslo"}


@pytest.mark.parametrize("version", [6, 9])
@pytest.mark.parametrize("kept", [20, -9])
def test_a_torn_block_of_an_instant_that_completed_is_named_with_file_and_offset(
    version: int, kept: int, tmp_path: Path
) -> None:
    made = Made(tmp_path, version)
    whole = updates([0], 6)
    log = made.write(lambda instant: [*whole(instant), whole(instant)[0][:kept]])
    with pytest.raises(LogBlockError, match="it is torn") as damage:
        made.cities()
    fields = damage.value.fields
    assert (fields["file"], fields["offset"]) == (log, (Path(made.path) / log).read_bytes().rfind(b"#HUDI#"))


def test_commits_are_asked_once_about_all_torn_log_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Made(tmp_path, 6)
    for _ in range(9):
        made.write(updates([0], 6))
        made.write(lambda instant: [updates([1], 6)(instant)[0][:20]], completes=False)
    reads, read = Counter[str](), LocalStorage.read

    def noted(storage: LocalStorage, name: str, *limit: int) -> bytes:
        reads[name] += 1
        return read(storage, name, *limit)

    monkeypatch.setattr(LocalStorage, "read", noted)
    open_table(made.path).snapshot()
    assert max(count for name, count in reads.items() if name.endswith(".deltacommit")) <= 2


@pytest.mark.parametrize("version", [6, 9])
@pytest.mark.parametrize("kept", [20, -9])
def test_a_torn_block_of_a_task_that_was_run_again_is_passed_over(
    version: int, kept: int, tmp_path: Path
) -> None:
    made = Made(tmp_path, version)
    log = made.write(updates([0], 6))
    whole = (Path(made.path) / log).read_bytes()
    (Path(made.path) / log.replace(".log.1_0-1-1", ".log.2_0-1-0")).write_bytes(whole[:kept])
    assert made.cities()[0] == "Lima"


def changed_content(instant: str) -> Sequence[bytes]:
    """Make a block whose records are cut in another way than their sizes say."""
    [block] = updates([0, 1], 6)(instant)
    at = block.rindex(b"Lima") - 1
    return [block[:at] + b"\x7f" + block[at + 1 :]]


def test_a_block_with_damaged_content_is_named_and_an_index_leaves_it_out(tmp_path: Path) -> None:
    made = Made(tmp_path)
    Drive(made.path, tmp_path / "index", ["city"]).drain()
    log = made.write(changed_content)
    with pytest.raises(LogBlockError, match="cannot be decoded") as damage:
        made.cities()
    assert damage.value.fields["file"] == log
    Drive(made.path, tmp_path / "index", ["city"]).drain()
    with pytest.raises(LogBlockError):
        tailbit.open(made.path, tmp_path / "index").where("city = 'Oslo'").count()


@pytest.mark.parametrize("version", [6, 9])
def test_a_log_file_that_is_lost_is_told_by_its_name_to_who_asks_and_to_the_stream(
    version: int, tmp_path: Path
) -> None:
    made = Made(tmp_path, version)
    opened, stream = tailbit.open(made.path), Drive(made.path, tmp_path / "index", ["city"])
    stream.drain()
    assert opened.where().count() == 5
    log = made.write(updates([0], 6))
    (Path(made.path) / log).unlink()
    for asks in (opened.where, stream.drain):
        with pytest.raises(LogBlockError, match="the file is missing") as lost:
            asks()
        assert lost.value.fields["file"] == log
        assert "Restore the file from a backup" in lost.value.hint


@pytest.mark.parametrize("version", [6, 9])
def test_a_log_file_of_the_newest_commit_that_is_lost_is_told_to_a_new_reader(
    version: int, tmp_path: Path
) -> None:
    made = Made(tmp_path, version)
    log = made.write(updates([0], 6))
    (Path(made.path) / log).unlink()
    with pytest.raises(LogBlockError, match="the file is missing") as lost:
        made.cities()
    assert lost.value.fields["file"] == log


def test_a_log_file_that_lost_all_blocks_is_told_unless_its_instant_did_not_name_it(tmp_path: Path) -> None:
    made = Made(tmp_path)
    made.write(lambda _: [], named=[])
    assert set(made.cities().values()) == {"Oslo"}
    log = made.write(lambda _: [])
    with pytest.raises(LogBlockError, match="it has no block") as lost:
        made.cities()
    assert lost.value.fields["file"] == log


def refused(made: Made, blocks: Blocks, feature: str, log: str = "") -> None:
    """Check that a log file is refused by the name of a feature, with a way out."""
    made.write(blocks, log=log)
    with pytest.raises(UnsupportedFeatureError, match=feature) as raised:
        made.cities()
    assert raised.value.hint


@pytest.mark.parametrize(
    ("blocks", "feature"),
    [
        pytest.param(
            lambda instant: [log_block(HFILE, {INSTANT: instant})],
            "log blocks of HFile",
            marks=pytest.mark.supports_hudi("MERGE_ON_READ", "log blocks of HFile", "refused"),
        ),
        pytest.param(
            lambda instant: [
                *partial([0], 6, "Rome")(instant),
                *updates([0], 6, more={COMPACTED: "20250101000000000"})(instant),
            ],
            "log compaction of partial updates",
            marks=pytest.mark.supports_hudi("MERGE_ON_READ", "log compaction of partial updates", "refused"),
        ),
        pytest.param(
            deletions(("0", None), version=2),
            "delete blocks of version 2",
            marks=pytest.mark.supports_hudi(
                "MERGE_ON_READ", "delete blocks in the forms of releases before 0.14", "refused"
            ),
        ),
        pytest.param(
            lambda instant: [log_block(COMMAND, {INSTANT: instant})],
            "a command in .* that is no rollback",
            marks=pytest.mark.supports_hudi(
                "MERGE_ON_READ", "commands in logs other than rollbacks", "refused"
            ),
        ),
        pytest.param(
            updates([0], None),
            "NULL compared with a value of an ordering column",
            marks=pytest.mark.supports_hudi(
                "MERGE_ON_READ",
                "NULL compared with a value of an ordering column other than int, where Hudi fails too",
                "refused",
            ),
        ),
    ],
)
def test_a_block_of_a_kind_that_is_not_proven_is_refused_by_name(
    blocks: Blocks, feature: str, tmp_path: Path
) -> None:
    refused(Made(tmp_path), blocks, feature)


def test_ordering_values_of_two_types_are_refused(tmp_path: Path) -> None:
    made = Made(tmp_path)
    made.write(updates([0], 6))
    refused(made, deletions(("0", "6")), "ordering values of different types")


@pytest.mark.supports_hudi(
    "MERGE_ON_READ", "partial updates of rows that are deleted or missing, or that come too late", "refused"
)
@pytest.mark.parametrize(
    ("before", "then", "feature"),
    [
        (deletions(("0", None)), partial([0], 7, "Rome"), "a partial update and a deletion of one row"),
        (updates([8], 6), partial([9], 7, "Rome"), "a partial update of a row that is not there"),
        (partial([0], 7, "Rome"), partial([0], 6, "Pune"), "a record that is older than a partial update"),
        (updates([8], 6), partial([0, 0], 7, "Rome"), "two partial updates of one row in a block"),
    ],
)
def test_partial_updates_that_hudi_may_complete_otherwise_are_refused_by_name(
    before: Blocks, then: Blocks, feature: str, tmp_path: Path
) -> None:
    made = Made(tmp_path)
    made.write(before)
    refused(made, then, feature)


def test_a_partial_row_keeps_the_other_columns_of_the_row_before(tmp_path: Path) -> None:
    made = Made(tmp_path)
    made.write(partial([0, 1], 6, "Rome"))
    made.write(partial([2], 4, "Pune"))
    assert made.cities() == {0: "Rome", 1: "Rome", 2: "Oslo", 3: "Oslo", 4: "Oslo"}


@pytest.mark.parametrize(
    ("places", "reason"), [([1, 9], "a position is beyond the 5 rows"), ([1], "1 positions of 2 rows")]
)
def test_positions_that_cannot_be_are_damage(places: Sequence[int], reason: str, tmp_path: Path) -> None:
    made = Made(tmp_path)
    own: Mapping[int, str] = {BASE_INSTANT: made.base.requested}
    made.write(updates([2], 6, more={**own, POSITIONS: positions([2])}))
    log = made.write(updates([0, 1], 6, more={**own, POSITIONS: positions(places)}))
    with pytest.raises(LogBlockError, match=reason) as damage:
        made.cities()
    assert damage.value.fields["file"] == log


def test_positions_of_another_base_file_are_not_used(tmp_path: Path) -> None:
    made = Made(tmp_path)
    more = {BASE_INSTANT: "20240101000000000", POSITIONS: positions([3])}
    made.write(updates([0], 6, more=more))
    assert made.cities() == {0: "Lima", 1: "Oslo", 2: "Oslo", 3: "Oslo", 4: "Oslo"}


def test_of_two_log_files_of_one_instant_and_number_the_instant_names_the_right_one(tmp_path: Path) -> None:
    made = Made(tmp_path)
    log = made.write(updates([0], 6))
    twin = log.replace("_0-1-1", "_0-9-9")
    (Path(made.path) / twin).write_bytes((Path(made.path) / log).read_bytes()[:40])
    assert made.cities()[0] == "Lima"
    other = made.write(updates([1], 6), named=[])
    (Path(made.path) / other.replace("_0-2-1", "_0-9-9")).write_bytes(b"")
    with pytest.raises(MalformedLogError, match="leaves open which file is right"):
        made.cities()


def test_a_version_whose_log_file_the_cleaner_took_cannot_be_read(tmp_path: Path) -> None:
    made = Made(tmp_path)
    table = open_table(made.path)
    first = table.snapshot().version
    log = made.write(updates([0], 6))
    before = tailbit.open(made.path).where().version_name
    asked = tailbit.open(made.path).where("city = 'Lima'")
    assert asked.version_name == before
    requested = made.builder.timeline.request("compaction")
    compacted = made.builder.data_file(rows(range(5), 6, "Lima"), requested, GROUP, "")[0]
    made.builder.commit(requested, [compacted], SCHEMA, "COMPACT")
    (Path(made.path) / log).unlink()
    made.builder.cleaned({"": [log]}, requested)
    assert set(made.cities().values()) == {"Lima"}
    with pytest.raises(VersionNotFoundError, match="the cleaner has deleted files of it"):
        tailbit.open(made.path).where(version=before).count()
    cleaned = table.versions(first, table.head())[1]
    assert not table.follows(cleaned)
    with pytest.raises(VersionNotFoundError):
        table.snapshot(cleaned)
    with pytest.raises(VacuumedFileError, match=f"from version {requested} on"):
        asked.count()


@pytest.mark.supports_hudi("MERGE_ON_READ", "an ordering column of binary, where Hudi fails too", "refused")
@pytest.mark.parametrize("type_", [pa.binary(), pa.list_(pa.int32())], ids=str)
def test_a_table_ordered_by_values_whose_order_is_not_proven_is_refused_where_rows_are_merged(
    type_: pa.DataType, tmp_path: Path
) -> None:
    found = pa.table({"ts": pa.array([b"a" if pa.types.is_binary(type_) else [1]], type_)})
    with pytest.raises(UnsupportedFeatureError, match=re.escape(f"the ordering column ts of type {type_}")):
        orderings(open_storage(str(tmp_path)), found, ["ts"], "1")


@pytest.mark.supports_hudi(
    "MERGE_ON_READ", "an ordering column of date (with which Hudi writes no deletions)", "exact"
)
@pytest.mark.parametrize(
    ("type_", "ascending"),
    [
        (pa.float64(), [float("-inf"), -1.5, -0.0, 0.0, 5e-324, float("inf"), float("nan")]),
        (pa.float32(), [-1.5, -0.0, 0.0, 0.5, float("nan")]),
        (pa.bool_(), [False, True]),
        (pa.string(), ["", "a", "a\ue000", "a\U0001f600", "b"]),
        (pa.decimal128(20, 3), [Decimal("-1.5"), Decimal("0"), Decimal("10")]),
        (pa.date32(), [date(1960, 1, 1), date(1970, 1, 1), date(2020, 1, 1)]),
        (pa.timestamp("us"), [-1, 0, 1]),
    ],
    ids=str,
)
def test_ordering_values_sort_as_java_compares_them(
    type_: pa.DataType, ascending: list[Any], tmp_path: Path
) -> None:
    found = pa.table({"ts": pa.array(ascending, type_)})
    values = orderings(open_storage(str(tmp_path)), found, ["ts"], "1")
    assert all(is_less(one, other) and not is_less(other, one) for one, other in pairwise(values))


def test_a_delete_block_gives_ordering_values_of_every_type_that_rows_have(tmp_path: Path) -> None:
    values: list[Written] = [7, -0.5, "b", Decimal("-1.500"), (7, "b")]
    block = delete_block("20260101000000000", [("k", value) for value in values])
    (tmp_path / ".f_1.log.1_0-1-1").write_bytes(block)
    storage = open_storage(str(tmp_path))
    (listed,) = list_blocks(storage, ".f_1.log.1_0-1-1")
    read = [deletion.ordering for deletion in read_deletions(storage, ".f_1.log.1_0-1-1", listed)]
    assert read == [7, FloatOrder.of(-0.5), "b", Decimal("-1.5"), (7, "b")]


OPERATION = "_hoodie_operation"
BY_TIME, BY_COMMIT = "EVENT_TIME_ORDERING", "COMMIT_TIME_ORDERING"


def changes(*changed: tuple[int, int, str | None, str], mark: bool | None = None) -> Blocks:
    """Return a maker of one block of rows of key, ordering value, operation and city.

    `mark`: what `_hoodie_is_deleted` holds; None: there is no such column.
    """
    fields = [{"name": name, "type": ["null", "string"]} for name in (META[2], OPERATION)]
    fields += avro_fields(SCHEMA, "t")
    found = [rows([key], ts, city).to_pylist()[0] | {OPERATION: done} for key, ts, done, city in changed]
    if mark is not None:
        fields.append({"name": "_hoodie_is_deleted", "type": "boolean"})
        found = [row | {"_hoodie_is_deleted": mark} for row in found]
    return lambda instant: [avro_block(instant, {"type": "record", "name": "r", "fields": fields}, found)]


@pytest.mark.supports_hudi(
    "MERGE_ON_READ", "deletions by the column `_hoodie_operation`, as of Flink", "exact"
)
@pytest.mark.parametrize("version", [6, 8, 9])
def test_rows_of_deletions_and_rows_before_updates_delete_by_their_ordering_values(
    version: int, tmp_path: Path
) -> None:
    made = Made(tmp_path, version)
    made.write(
        changes((0, 6, "U", "a"), (1, 6, "-U", "a"), (2, 6, "D", "a"), (3, 6, "I", "a"), (7, 6, None, "a"))
    )
    assert made.cities() == {0: "a", 3: "a", 4: "Oslo", 7: "a"}
    made.write(changes((2, 4, "I", "b"), (3, 4, "D", "b"), (4, 4, "U", "b")))
    assert made.cities() == {0: "a", 3: "a", 4: "Oslo", 7: "a"}
    made.write(changes((1, 6, "U", "c"), (3, 6, "D", "c"), (4, 6, "-U", "c")))
    assert made.cities() == {0: "a", 1: "c", 7: "a"}


def test_by_commit_time_the_last_operation_counts(tmp_path: Path) -> None:
    made = Made(tmp_path, **{"hoodie.record.merge.mode": BY_COMMIT})
    made.write(changes((0, 6, "D", "a"), (1, 6, "D", "a"), (2, 6, "-U", "a"), (2, 1, "U", "b")))
    made.write(changes((1, 1, "I", "c")))
    assert made.cities() == {1: "c", 2: "b", 3: "Oslo", 4: "Oslo"}


@pytest.mark.parametrize(("mark", "left"), [(False, {0}), (True, set())])
def test_either_of_both_columns_deletes(mark: bool, left: set[int], tmp_path: Path) -> None:
    made = Made(tmp_path)
    made.write(changes((0, 6, "U", "a"), (1, 6, "D", "a"), mark=mark))
    assert {0, 1} & {*made.cities()} == left


def test_an_index_that_follows_hides_the_rows_that_operations_delete(tmp_path: Path) -> None:
    made = Made(tmp_path)
    drive = Drive(made.path, tmp_path / "index", ["key", "city"])
    for block in (changes((0, 6, "U", "a"), (1, 6, "D", "a")), changes((1, 7, "I", "b"), (0, 7, "-U", "a"))):
        drive.drain()
        made.write(block)
        for _ in range(2):
            opened = tailbit.open(made.path, tmp_path / "index")
            assert opened.where().facets("city") == tailbit.open(made.path).where().facets("city")
            drive.drain()
    assert opened.where("city = 'b'").count() == 1
    assert opened.where("city = 'b'").files_scanned == 0
    assert opened.verify().sound


@pytest.fixture
def made(tmp_path: Path) -> Made:
    """A table with three log blocks of new rows, which say no positions."""
    made = Made(tmp_path)
    for key in (10, 20, 30):
        made.write(updates([key, key + 1], 9))
    return made


def test_a_block_is_decoded_once(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    drive = Drive(made.path, Path(made.path) / "_tailbit", ["city"])
    drive.drain()
    decoded = Mock(side_effect=records.as_parquet)
    monkeypatch.setattr(records, "as_parquet", decoded)
    made.write(updates([40], 9))
    drive.drain()
    assert decoded.call_count == 1


def test_rows_that_stay_hidden_are_not_read_from_the_index(
    made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    drive = Drive(made.path, Path(made.path) / "_tailbit", ["city"])
    drive.drain()
    opened = Mock(side_effect=counting.MetadataTable.open)
    monkeypatch.setattr(counting, "MetadataTable", Mock(open=opened))
    made.write(updates([40], 9))
    [outcome] = drive.drain()
    # The base file, three blocks that the new one may have hidden rows of, and the new one.
    assert (outcome.files, outcome.rows, opened.call_count) == (5, 1, 0)


def test_an_identity_is_the_hash_of_the_text_up_to_the_block_that_decides(made: Made) -> None:
    """Indexes of earlier releases hold identities that were made of the whole text."""
    slices = [*open_table(made.path).snapshot().files]
    assert len(slices) == 4
    for slice_ in slices:
        assert isinstance(slice_.hidden, MergedRows)
        plan = MergePlan.parse(slice_.hidden.plan)
        for last in range(len(plan.blocks)):
            parts = plan.folder, plan.base, plan.rule[:2], [[*block] for block in plan.blocks[: last + 1]]
            hashed = sha256(orjson.dumps(parts) + b"\0" + slice_.path.encode()).hexdigest()
            assert plan.identity(slice_.path, last) == hashed[:32]
        assert slice_.hidden.id == plan.identity(slice_.path, len(plan.blocks) - 1)
