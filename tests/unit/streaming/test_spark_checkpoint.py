"""A Spark checkpoint is a cache of progress: what cannot be used of it is reset, what can be is judged."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import orjson
import pyarrow as pa
import pytest
from deltalake import write_deltalake

import tailbit
from support.drive import Drive
from tailbit.checkpoints.offset import Offset
from tailbit.checkpoints.signs import NAME
from tailbit.errors import StorageError, UsageError
from tailbit.streaming.spark_checkpoint import blames_checkpoint, make_way, reset, why_unusable

CONF = {"batchWatermarkMs": 0, "conf": {"spark.sql.shuffle.partitions": "2"}}


def write(folder: Path, ends: list[Offset], committed: int) -> Path:
    """A checkpoint as Spark writes it: the ends of the batches, some of them committed."""
    for name in ("offsets", "commits", "sources"):
        (folder / name).mkdir(parents=True)
    (folder / "metadata").write_bytes(b'{"id":"4bbfc6b2-9855-452b-91c6-3434b2ce093b"}')
    for number, end in enumerate(ends):
        lines = [b"v1", orjson.dumps(CONF), orjson.dumps(end.to_json())]
        (folder / "offsets" / str(number)).write_bytes(b"\n".join(lines))
    for number in range(committed):
        (folder / "commits" / str(number)).write_bytes(b'v1\n{"nextBatchWatermarkMs":0}')
    return folder


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    return write(tmp_path / "whole", [Offset(1, n, None, "95d1183bcc14cc1d") for n in range(1, 4)], 3)


def test_a_checkpoint_that_cannot_be_taken_away_is_named_and_told_as_reset_by_nobody(
    whole: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(shutil, "rmtree", refuse)
    monkeypatch.setattr(Path, "unlink", lambda path, missing_ok: refuse(path))
    told: list[str] = []
    with pytest.raises(StorageError, match="Read-only file system"):
        reset(str(whole), "its metadata is torn", told.append)
    assert told == []
    make_way(str(whole), str(whole.parent))
    assert whole.is_dir()


def test_what_spark_made_in_the_place_of_a_folder_that_vanished_makes_way_for_it(tmp_path: Path) -> None:
    table = tmp_path / "t"
    checkpoint = write(table / "in" / "_tailbit" / "_checkpoint", [Offset(1, 0, None, "f")], 1)
    for name in (NAME, f".{NAME}.0123abcd.tmp"):
        (table / "in" / "_tailbit" / name).write_text("beaten into the folder that Spark made")
    make_way(str(checkpoint), str(table / "in" / "_tailbit"), str(table))
    make_way(str(checkpoint), str(table / "in" / "_tailbit"), str(table))
    assert list(tmp_path.iterdir()) == []


def test_a_heartbeat_that_beat_on_after_a_checkpoint_made_way_goes_too(tmp_path: Path) -> None:
    index = tmp_path / "t" / "_tailbit"
    index.mkdir(parents=True)
    (index / NAME).write_text("beaten after the checkpoint had gone")
    make_way(str(index / "_checkpoint"), str(index), str(tmp_path / "t"))
    assert list(tmp_path.iterdir()) == []


def test_an_empty_folder_in_which_spark_made_nothing_stays(tmp_path: Path) -> None:
    table, index = tmp_path / "t", tmp_path / "t" / "_tailbit"
    make_way(str(index / "_checkpoint"), str(index), str(table))
    table.mkdir()
    make_way(str(index / "_checkpoint"), str(index), str(table))
    assert [entry.name for entry in tmp_path.iterdir()] == ["t"]


def test_a_folder_that_holds_anything_else_stays_where_a_checkpoint_makes_way(tmp_path: Path) -> None:
    table = tmp_path / "t"
    checkpoint = write(table / "_tailbit" / "_checkpoint", [Offset(1, 0, None, "f")], 1)
    (table / "mine").write_text("x")
    (table / NAME).write_text("no heartbeat of an index")
    make_way(str(checkpoint), str(table / "_tailbit"), str(table))
    make_way("s3://bucket/checkpoint", str(table))
    assert sorted(entry.name for entry in table.iterdir()) == [NAME, "mine"]


def test_a_checkpoint_elsewhere_leaves_the_folders_of_table_and_index_alone(tmp_path: Path) -> None:
    checkpoint = write(tmp_path / "elsewhere" / "c", [Offset(1, 0, None, "f")], 1)
    (tmp_path / "t").mkdir()
    make_way(str(checkpoint), str(tmp_path / "t" / "_tailbit"), str(tmp_path / "t"))
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["elsewhere", "t"]
    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.mark.parametrize(("ends", "committed"), [(0, 0), (1, 0), (1, 1), (3, 2), (3, 3)])
def test_a_checkpoint_that_spark_left_is_used(tmp_path: Path, ends: int, committed: int) -> None:
    folder = write(tmp_path / "c", [Offset(1, n, None, "f") for n in range(ends)], committed)
    assert why_unusable(str(folder)) is None
    assert why_unusable(str(tmp_path / "nothing there")) is None


@pytest.mark.parametrize("name", ["metadata", "offsets/2", "offsets/1", "commits/2"])
def test_a_checkpoint_torn_at_any_byte_is_found_unusable_and_reset(whole: Path, name: str) -> None:
    data, told = (whole / name).read_bytes(), list[str]()
    for length in range(len(data)):
        (whole / name).write_bytes(data[:length])
        assert why_unusable(str(whole)) is not None, (name, length)
    reason = why_unusable(str(whole))
    assert reason is not None
    (whole / "mine").write_text("not Spark's")
    assert reset(str(whole), reason, told.append)
    assert [entry.name for entry in whole.iterdir()] == ["mine"]
    assert why_unusable(str(whole)) is None
    assert len(told) == 1
    assert reason in told[0]


@pytest.mark.parametrize("gone", ["metadata", "offsets", "offsets/1", "offsets/2"])
def test_a_checkpoint_that_lacks_a_part_is_found_unusable(whole: Path, gone: str) -> None:
    path = whole / gone
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert why_unusable(str(whole)) is not None


def test_commits_that_are_lost_alone_are_replayed_by_spark_or_reset(whole: Path) -> None:
    (whole / "commits" / "2").unlink()
    assert why_unusable(str(whole)) is None
    (whole / "commits" / "1").unlink()
    assert why_unusable(str(whole)) is not None


def test_what_spark_says_of_other_troubles_is_not_put_on_the_checkpoint() -> None:
    assert blames_checkpoint("java.lang.IllegalStateException: Incomplete log file in the offset log")
    assert blames_checkpoint("[CONCURRENT_STREAM_LOG_UPDATE] Concurrent update to the log.")
    gone = "No such file or directory"
    assert blames_checkpoint(f"chmod: cannot access '/t/_checkpoint/commits/.1.a5b7f2c8.tmp': {gone}")
    assert blames_checkpoint(f"chmod: cannot access '/t/c/commits/..0.c3a98082-7770-4b3c.tmp.crc': {gone}")
    assert blames_checkpoint(f"java.io.FileNotFoundException: /t/c/.metadata.a5b7f2c8.tmp ({gone})")
    # Deleted in the moment in which Spark looks for the folder and makes the next file in it.
    assert blames_checkpoint("java.io.IOException: Mkdirs failed to create file:/t/_checkpoint/offsets")
    assert not blames_checkpoint("java.io.IOException: Mkdirs failed to create file:/tmp/blockmgr-1/0c")
    assert not blames_checkpoint("java.io.IOException: No space left on device")
    assert not blames_checkpoint("[STREAM_FAILED] Broken pipe")


def test_a_whole_checkpoint_of_another_table_or_of_yesterday_loses_nothing(tmp_path: Path) -> None:
    drives = {}
    for name in ("mine", "other"):
        for number in range(4 if name == "mine" else 9):
            write_deltalake(tmp_path / name, pa.table({"v": [name, str(number)]}), mode="append")
            drives[name] = Drive(tmp_path / name, tmp_path / f"{name}_index", ["v"])
            drives[name].drain()
    logged = {name: drive.table.head() for name, drive in drives.items()}
    foreign = Offset(1, logged["other"] + 1, None, "0123456789abcdef")
    yesterday = Offset(1, 1, None, "0123456789abcdef")
    for number, remembered in enumerate((foreign, yesterday, Offset(7, 0, 3, ""))):
        write_deltalake(tmp_path / "mine", pa.table({"v": ["new"]}), mode="append")
        Drive(tmp_path / "mine", tmp_path / "mine_index", ends=[remembered]).drain()
        opened = tailbit.open(tmp_path / "mine", index=tmp_path / "mine_index")
        answer = opened.where("v = 'new'")
        assert (answer.count(), answer.files_scanned) == (number + 1, 0)
        assert opened.verify().problems == []


def test_a_folder_that_is_no_checkpoint_of_ours_is_refused_by_name_and_nothing_of_it_is_deleted(
    tmp_path: Path,
) -> None:
    kept = b"precious"
    (tmp_path / "mine" / "metadata").mkdir(parents=True)
    stateful = write(tmp_path / "stateful", [Offset(1, 1, None, "")], 0)
    other = write(tmp_path / "other", [Offset(1, 1, None, "")], 0)
    precious = [tmp_path / "mine/metadata/x.json", stateful / "state" / "0", other / "metadata"]
    (stateful / "state").mkdir()
    (stateful / "offsets" / "0").write_bytes(b"")
    (other / "offsets" / "0").write_bytes(b'v1\n{"batchWatermarkMs":0}\n{"sourceVersion":1,"index":5}')
    torn = write(tmp_path / "torn", [Offset(1, 1, None, "")] * 2, 0)
    (torn / "offsets" / "0").write_bytes(b'v1\n{"batchWatermarkMs":0}\n-')
    (torn / "offsets" / "1").write_bytes(b"v1")
    (tmp_path / "alone").mkdir()
    precious += [torn / "offsets" / "0", tmp_path / "alone" / "metadata"]
    of_torn = precious[-2].read_bytes()
    for file in precious[:3] + precious[4:]:
        file.write_bytes(kept)
    for folder in (tmp_path / "mine", stateful, other, torn, tmp_path / "alone"):
        told: list[str] = []
        with pytest.raises(UsageError, match=f"{folder.name} is no Spark checkpoint of tailbit"):
            reset(str(folder), str(why_unusable(str(folder))), told.append)
        make_way(str(folder), str(folder))
        assert told == []
    assert [file.read_bytes() for file in precious] == [kept, kept, kept, of_torn, kept]


@pytest.mark.parametrize("damaged", ["metadata", "offsets/2"])
def test_a_part_of_ours_that_holds_other_bytes_is_reset(whole: Path, damaged: str) -> None:
    (whole / damaged).write_bytes(b"\0" * 40)
    reason = why_unusable(str(whole))
    assert reason is not None
    assert reset(str(whole), reason, lambda _: None)
    assert list(whole.iterdir()) == []
