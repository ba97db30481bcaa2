"""The log: commits in any order, net changes, gaps, protocol at every commit."""

from __future__ import annotations

import json
import os
import random
import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from support.delta_builder import DeltaBuilder
from tailbit.errors import (
    CommitGapError,
    MalformedLogError,
    NotATableError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from tailbit.tables import open_table
from tailbit.tables.delta.log import CommitTimes, Listing, commit_name
from tailbit.tables.storage import Entry

SCHEMA = pa.schema([("a", pa.int64())])
ROWS = pa.table({"a": list(range(10))})


@pytest.fixture
def builder(table_path: str) -> DeltaBuilder:
    return DeltaBuilder(table_path).create(SCHEMA, features=["deletionVectors"])


def test_commits_say_what_they_did_in_numbers(builder: DeltaBuilder) -> None:
    builder.commit([builder.data_file(ROWS, "x.parquet"), builder.data_file(ROWS, "y.parquet")])
    builder.commit([builder.remove("x.parquet")], info={"operation": "DELETE"})
    first, second = open_table(builder.path).changes(1, 2).commits
    assert (first.files_added, first.files_removed, first.operation) == (2, 0, "TEST")
    assert first.bytes_added == sum(builder.history[1][n]["size"] for n in ("x.parquet", "y.parquet"))
    assert (second.version, second.files_removed, second.operation) == (2, 1, "DELETE")


@pytest.mark.supports("Log", "a gap in the log", "refused")
def test_a_missing_commit_inside_the_range_is_a_gap(builder: DeltaBuilder) -> None:
    for name in ("x", "y", "z"):
        builder.commit([builder.data_file(ROWS, name)])
    table = open_table(builder.path)
    (builder.log / f"{2:020d}.json").unlink()
    with pytest.raises(CommitGapError, match="commit 2 is missing"):
        table.changes(1, 3)
    with pytest.raises(CommitGapError, match="commit 2 is missing"):
        open_table(builder.path).snapshot(3)


@pytest.mark.supports("Log", "a gap in the log", "refused")
def test_a_missing_last_commit_is_a_gap(builder: DeltaBuilder) -> None:
    with pytest.raises(CommitGapError, match="commit 1 is missing"):
        open_table(builder.path).changes(0, 1)


@pytest.mark.parametrize("version", [-1, 7])
def test_a_version_that_is_not_there_is_named(builder: DeltaBuilder, version: int) -> None:
    with pytest.raises(VersionNotFoundError, match=rf"version {version} .*readable: 0 to 0"):
        open_table(builder.path).snapshot(version)


@pytest.mark.supports("Table features", "an unknown reader feature", "refused")
@pytest.mark.parametrize(
    "feature",
    [
        "catalogManaged",
        "catalogOwned-preview",
        "adaptiveMetadata-preview",
        "redirectReaderWriter-preview",
        "flux",
    ],
)
def test_an_unknown_reader_feature_is_refused_by_name_and_version(
    builder: DeltaBuilder, feature: str
) -> None:
    builder.commit([builder.data_file(ROWS)])
    builder.commit([{"protocol": {**builder.protocol, "readerFeatures": [feature]}}])
    table = open_table(builder.path)
    assert len(table.snapshot(1).files) == 1
    with pytest.raises(UnsupportedFeatureError, match=f"version 2 uses {feature}"):
        table.snapshot()
    with pytest.raises(UnsupportedFeatureError, match=f"version 2 uses {feature}"):
        table.changes(2, 2)


@pytest.mark.supports(
    "Histories", "DROP FEATURE of a feature that is not read", "exact", note="once a log checkpoint covers it"
)
def test_a_feature_dropped_later_still_refuses_the_commits_it_covered(builder: DeltaBuilder) -> None:
    good = builder.protocol
    builder.commit([{"protocol": {**good, "readerFeatures": ["flux"]}}])
    builder.commit([{"protocol": good}])
    with pytest.raises(UnsupportedFeatureError, match="version 1 uses flux"):
        open_table(builder.path).snapshot()
    builder.checkpoint()
    assert len(open_table(builder.path).snapshot().files) == 0


@pytest.mark.supports("Table features", "a later reader version", "refused")
def test_a_later_reader_version_is_refused(table_path: str) -> None:
    builder = DeltaBuilder(table_path).create(SCHEMA, reader_version=4)
    with pytest.raises(UnsupportedFeatureError, match="reader version 4"):
        open_table(builder.path).snapshot()


@pytest.mark.parametrize(
    "key",
    ["delta.coordinatedCommits.commitCoordinator-preview", "delta.redirectReaderWriter-preview"],
)
def test_a_log_that_is_not_the_whole_truth_is_refused(table_path: str, key: str) -> None:
    builder = DeltaBuilder(table_path).create(SCHEMA, configuration={key: "x"})
    with pytest.raises(UnsupportedFeatureError, match=key.split(".")[1].split("-")[0]):
        open_table(builder.path).snapshot()


def test_an_unknown_writer_feature_and_unknown_actions_are_none_of_our_business(
    builder: DeltaBuilder,
) -> None:
    builder.commit(
        [
            {"protocol": {**builder.protocol, "writerFeatures": ["deletionVectors", "flux", "rowTracking"]}},
            {"domainMetadata": {"domain": "d", "configuration": "{}", "removed": False}},
            {"flux": {"capacitor": 1}},
            builder.data_file(ROWS, "x.parquet"),
            {
                "cdc": {
                    "path": "_change_data/c.parquet",
                    "size": 1,
                    "partitionValues": {},
                    "dataChange": False,
                }
            },
        ]
    )
    assert open_table(builder.path).snapshot().files.paths.to_pylist() == ["x.parquet"]


@pytest.mark.parametrize(
    "line",
    [
        b"{",
        b"[1]",
        b"\xff\xfe",
        b'{"add":7}',
        b'{"add":{"path":1}}',
        b'{"add":{"path":"x","size":"1","modificationTime":1}}',
        b'{"add":{"path":"x","size":true,"modificationTime":1}}',
        b'{"add":{"path":"","size":1,"modificationTime":1}}',
        b'{"add":{"path":"a%2","size":1,"modificationTime":1}}',
        b'{"add":{"path":"a%ff","size":1,"modificationTime":1}}',
        b'{"add":{"path":"x","size":1,"modificationTime":1,"partitionValues":{"a":[1]}}}',
        b'{"add":{"path":"x","size":1,"modificationTime":1,"deletionVector":{"storageType":"r"}}}',
        b'{"add":{"path":"x","size":1,"modificationTime":1,"deletionVector":{"storageType":"u"}}}',
        b'{"metaData":{"id":1}}',
        b'{"protocol":{"minReaderVersion":"one"}}',
        b'{"protocol":{"minReaderVersion":3,"minWriterVersion":7,"readerFeatures":"all"}}',
    ],
)
def test_malformed_commits_are_refused_by_name(builder: DeltaBuilder, line: bytes) -> None:
    builder.write_commit(1, line)
    with pytest.raises(MalformedLogError, match=r"00000000000000000001\.json"):
        open_table(builder.path).snapshot()


def test_a_file_added_and_removed_with_the_same_hidden_rows_is_refused(builder: DeltaBuilder) -> None:
    builder.commit([builder.data_file(ROWS, "x.parquet")])
    builder.commit([builder.remove("x.parquet"), {"add": builder.live["x.parquet"]}])
    with pytest.raises(MalformedLogError, match=r"adds and removes 'x\.parquet'"):
        open_table(builder.path).snapshot()


def test_what_is_no_table_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotATableError, match="no such folder"):
        open_table(str(tmp_path / "nowhere"))
    with pytest.raises(NotATableError, match="the folder is empty"):
        open_table(str(tmp_path))
    (tmp_path / "_delta_log").mkdir()
    with pytest.raises(NotATableError, match="no commit"):
        open_table(str(tmp_path))


def test_the_head_is_found_by_name_after_the_first_listing(builder: DeltaBuilder) -> None:
    table = open_table(builder.path)
    builder.commit([builder.data_file(ROWS)])
    builder.commit([builder.data_file(ROWS)])
    assert table.head() == 2
    assert len(table.snapshot().files) == 2


@pytest.mark.parametrize("commits", [1, 5])
def test_a_table_dropped_and_made_again_is_read_anew(builder: DeltaBuilder, commits: int) -> None:
    for _ in range(3):
        builder.commit([builder.data_file(ROWS)])
    table = open_table(builder.path)
    before = table.snapshot()
    proof = table.fingerprint(1)
    shutil.rmtree(builder.path)
    other = DeltaBuilder(builder.path).create(pa.schema([("b", pa.string())]))
    for _ in range(commits):
        other.commit([other.data_file(pa.table({"b": ["x"]}))])
    assert table.head() == commits
    after = table.snapshot()
    assert after.table_id != before.table_id
    assert after.files.paths.to_pylist() == sorted(other.live)
    assert table.fingerprint(1) != proof


def test_a_fingerprint_carries_the_table_id_in_force(builder: DeltaBuilder) -> None:
    first = builder.metadata["id"]
    builder.commit([builder.data_file(ROWS)])
    builder.commit([{"metaData": builder.metadata_action(SCHEMA, table_id="other")}])
    builder.commit([builder.data_file(ROWS)])
    for order in ([0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1]):
        table = open_table(builder.path)
        ids = {v: table.fingerprint(v) for v in order}
        assert [getattr(ids[v], "table_id", None) for v in range(4)] == [first, first, "other", "other"]
    assert open_table(builder.path).fingerprint(9) is None


def test_stray_files_in_the_log_are_ignored(builder: DeltaBuilder) -> None:
    builder.commit([builder.data_file(ROWS, "x.parquet")])
    log = builder.log
    (log / "_staged_commits").mkdir()
    (log / "_staged_commits" / f"{2:020d}.{'0' * 36}.json").write_text("{")
    (log / f"{1:020d}.crc").write_text("{")
    (log / f"{0:020d}.{1:020d}.compacted.json").write_text("{")
    (log / "_last_checkpoint").write_text("not json")
    (log / f".{2:020d}.json.tmp").write_text("{")
    table = open_table(builder.path)
    assert table.head() == 1
    assert table.snapshot().files.paths.to_pylist() == ["x.parquet"]


def test_explicit_nulls_mean_absent(builder: DeltaBuilder) -> None:
    add = builder.data_file(ROWS, "x.parquet", stats=False)["add"]
    add |= {"deletionVector": None, "tags": None, "stats": None, "partitionValues": None}
    builder.write_commit(1, json.dumps({"add": add, "remove": None}).encode())
    (slice_,) = open_table(builder.path).snapshot().files
    assert (slice_.hidden, slice_.stats, slice_.rows, slice_.partition) == (None, None, None, {})


def test_reading_new_commits_never_needs_a_snapshot(builder: DeltaBuilder) -> None:
    builder.commit([builder.data_file(ROWS, f"{i}.parquet") for i in range(5)])
    table = open_table(builder.path)
    table.fingerprint(1)
    builder.commit([builder.data_file(ROWS, "new.parquet")])
    head = table.head()
    for version in (0, 1):
        (builder.log / f"{version:020d}.json").unlink()
    assert [c.path for c in table.changes(2, head).slices] == ["new.parquet"]
    assert table.fingerprint(2) is not None


def appended(path: str, times: int) -> None:
    for _ in range(times):
        write_deltalake(path, pa.table({"k": [1]}), mode="append")


def remove_commits(path: str, *versions: int) -> None:
    for version in versions:
        os.remove(f"{path}/_delta_log/{version:020}.json")


def test_a_log_that_was_cleaned_up_since_it_was_listed_is_listed_anew(table_path: str) -> None:
    appended(table_path, 4)
    table = open_table(table_path)
    assert table.head() == 3
    appended(table_path, 3)
    assert table.head() == 6
    DeltaTable(table_path).create_checkpoint()
    remove_commits(table_path, *range(6))
    appended(table_path, 1)
    assert len(table.snapshot(table.head()).files) == 8


def test_a_log_with_a_hole_stays_refused(table_path: str) -> None:
    appended(table_path, 4)
    table = open_table(table_path)
    assert table.head() == 3
    remove_commits(table_path, 1)
    with pytest.raises(CommitGapError, match="commit 1 is missing"):
        table.snapshot(3)


@pytest.mark.parametrize("seed", range(40))
def test_commits_are_found_as_in_a_dictionary(seed: int) -> None:
    rng = random.Random(seed)
    plain = {rng.randrange(30): rng.randrange(1000) for _ in range(rng.randint(0, 25))}
    found = CommitTimes.of(plain)
    for _ in range(rng.randint(0, 10)):
        version, time = rng.choice([rng.randrange(35), found.latest + 1]), rng.randrange(1000)
        plain[version] = time
        found.add(version, time)
    assert (len(found), found.latest) == (len(plain), max(plain, default=-1))
    assert [found.time(v) for v in range(40)] == [plain.get(v) for v in range(40)]
    assert [v in found for v in range(40)] == [v in plain for v in range(40)]
    for first in range(36):
        for last in range(first - 1, 36):
            absent = [v for v in range(first, last + 1) if v not in plain]
            assert found.missing(first, last) == (absent[0] if absent else None)
    oldest = found.latest
    while oldest - 1 in plain:
        oldest -= 1
    assert found.since == max(oldest, 0)


def test_a_commit_takes_sixteen_bytes() -> None:
    found = CommitTimes.of({})
    for version in range(100_000):
        found.add(version, 1_700_000_000_000 + version)
    held = sum(numbers.buffer_info()[1] * numbers.itemsize for numbers in (found.versions, found.times))
    assert held == 16 * 100_000


def test_a_version_of_more_than_64_bits_is_named() -> None:
    name = commit_name(10**20 - 1).rpartition("/")[2]
    with pytest.raises(MalformedLogError, match="64 bits"):
        Listing.of([Entry(name, 1, 1)])
