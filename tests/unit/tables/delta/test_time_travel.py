"""Times of commits, and the version that a time means."""

from __future__ import annotations

import datetime
import os

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from support.delta_builder import DeltaBuilder
from tailbit.errors import VersionNotFoundError
from tailbit.tables import open_table
from tailbit.tables.storage import Entry, LocalStorage

SCHEMA = pa.schema([("a", pa.int64())])


def with_times(builder: DeltaBuilder, seconds: list[float]) -> None:
    """Empty commits whose files have these modification times."""
    for version, second in enumerate(seconds):
        if version:
            builder.commit([])
        os.utime(builder.log / f"{version:020d}.json", (second, second))


def test_a_time_means_the_last_commit_at_or_before_it(table_path: str) -> None:
    with_times(DeltaBuilder(table_path).create(SCHEMA), [100, 200, 300])
    table = open_table(table_path)
    assert [table.version_at(ms) for ms in (100_000, 199_999, 200_000, 299_999, 300_000)] == [0, 0, 1, 1, 2]


@pytest.mark.supports("Log", "as of a time outside the log", "refused")
@pytest.mark.parametrize(("ms", "reason"), [(99_999, "before the first"), (300_001, "after the last")])
def test_a_time_outside_the_log_is_refused(table_path: str, ms: int, reason: str) -> None:
    with_times(DeltaBuilder(table_path).create(SCHEMA), [100, 200, 300])
    with pytest.raises(VersionNotFoundError, match=f"{reason}.*1970-01-01T00:01:40"):
        open_table(table_path).version_at(ms)


def test_file_times_that_go_back_are_raised_by_a_millisecond(table_path: str) -> None:
    with_times(DeltaBuilder(table_path).create(SCHEMA), [100, 50, 100, 300])
    table = open_table(table_path)
    assert [table.commit_timestamp(v) for v in range(4)] == [100_000, 100_001, 100_002, 300_000]
    assert table.version_at(100_001) == 1
    assert table.snapshot(2).timestamp_ms == 100_002


def test_commits_found_later_continue_the_raised_times(table_path: str) -> None:
    builder = DeltaBuilder(table_path).create(SCHEMA)
    with_times(builder, [100, 50])
    table = open_table(table_path)
    assert table.commit_timestamp(1) == 100_001
    builder.commit([])
    os.utime(builder.log / f"{2:020d}.json", (60, 60))
    assert table.commit_timestamp(2) == 100_002


def test_a_commit_that_a_listing_missed_has_its_time(
    table_path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A listing of a folder that changes meanwhile may hold a commit and not the one before it."""
    with_times(DeltaBuilder(table_path).create(SCHEMA), [100, 200, 300])
    hidden, listing = [f"{1:020d}.json"], LocalStorage.list

    def with_a_hole(storage: LocalStorage, folder: str = "") -> list[Entry]:
        name = hidden.pop() if hidden else None
        return [entry for entry in listing(storage, folder) if entry.name != name]

    monkeypatch.setattr(LocalStorage, "list", with_a_hole)
    table = open_table(table_path)
    assert not hidden
    [commit] = table.changes(1, 1).commits
    assert (commit.version, commit.timestamp_ms) == (1, 200_000)
    assert [table.version_at(ms) for ms in (100_000, 200_000, 300_000)] == [0, 1, 2]


def test_in_commit_timestamps_win_over_file_times(table_path: str) -> None:
    settings = {
        "delta.enableInCommitTimestamps": "true",
        "delta.inCommitTimestampEnablementVersion": "2",
        "delta.inCommitTimestampEnablementTimestamp": "500000",
    }
    builder = DeltaBuilder(table_path).create(SCHEMA)
    with_times(builder, [100, 200])
    for stamp in (500_000, 600_000, 700_000):
        body = (
            [{"metaData": builder.metadata_action(SCHEMA, configuration=settings)}]
            if stamp == 500_000
            else []
        )
        builder.commit(body, info={"inCommitTimestamp": stamp})
        os.utime(builder.log / f"{builder.version:020d}.json", (1, 1))
    table = open_table(table_path)
    assert [table.commit_timestamp(v) for v in range(5)] == [100_000, 200_000, 500_000, 600_000, 700_000]
    assert [table.version_at(ms) for ms in (150_000, 499_999, 500_000, 699_999, 700_000)] == [0, 1, 2, 3, 4]


def test_a_cleaned_up_log_starts_at_its_oldest_readable_commit(table_path: str) -> None:
    builder = DeltaBuilder(table_path).create(SCHEMA)
    with_times(builder, [100, 200, 300])
    builder.checkpoint()
    builder.commit([])
    os.utime(builder.log / f"{3:020d}.json", (400, 400))
    (builder.log / f"{0:020d}.json").unlink()
    table = open_table(table_path)
    assert table.version_at(399_000) == 2
    with pytest.raises(VersionNotFoundError):
        table.version_at(250_000)


def test_deltalake_agrees_on_the_version_of_a_time(table_path: str) -> None:
    with_times(DeltaBuilder(table_path).create(SCHEMA), [1_700_000_100, 1_700_000_200, 1_700_000_300])
    other, table = DeltaTable(table_path), open_table(table_path)
    for second in (1_700_000_100, 1_700_000_250, 1_700_000_299):
        other.load_as_version(datetime.datetime.fromtimestamp(second, datetime.timezone.utc))
        assert table.version_at(second * 1000) == other.version()


def test_the_time_of_a_commit_is_read_without_its_actions(table_path: str) -> None:
    builder = DeltaBuilder(table_path).create(SCHEMA)
    stamp = {"inCommitTimestamp": 1234}
    builder.commit([builder.data_file(pa.table({"a": [1]}))], info=stamp)
    path = builder.log / f"{1:020d}.json"
    path.write_bytes(path.read_bytes() + b"no JSON")
    assert open_table(table_path).commit_timestamp(1) == 1234
