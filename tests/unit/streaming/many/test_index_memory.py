"""What was lost with the folder of an index is known to the application, told, and can be had again."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import tailbit
from support.tables import index_of, three_commits
from support.waiting import wait_until
from tailbit.checkpoints.liveness import Liveness
from tailbit.index.sql.ddl.parser import parse_script
from tailbit.index.store.table import MetadataTable
from tailbit.streaming.config.model import TableEntry
from tailbit.streaming.many.followed_table import IndexMemory
from tailbit.streaming.many.member import Member, TableLife
from tailbit.streaming.watch.processes import sees_cpu_time
from tailbit.streaming.watch.thread_pool import Job
from tailbit.tables import open_table
from tailbit.tables.storage import Storage, open_storage


@pytest.fixture
def path(tmp_path: Path) -> str:
    table = three_commits(str(tmp_path / "t"))
    index_of(table, ["v"])
    return table


@pytest.fixture
def place(tmp_path: Path) -> Storage:
    lease = open_storage(str(tmp_path / "lease"))
    lease.make_root()
    return lease


def remembered(path: str, place: Storage) -> IndexMemory:
    """The memory after a look at the index, as of an application that has started anew."""
    memory = IndexMemory(place, "t", open_table(path))
    memory.note(MetadataTable.open(f"{path}/_tailbit").state.settings)
    return memory


def made_anew(path: str) -> None:
    """Delete the folder of the index, and make it from the columns alone."""
    shutil.rmtree(f"{path}/_tailbit")
    index_of(path, ["v"])


def test_an_index_made_anew_from_columns_tells_what_it_lacks_and_the_file_gives_it_back(
    path: str, place: Storage
) -> None:
    tailbit.sql(f"CREATE INDEX low ON '{path}' (lower(v))")
    assert remembered(path, place).told == ""
    made_anew(path)
    memory = remembered(path, place)
    assert memory.lost == ("low",)
    assert "low" in memory.told
    assert f"--from {memory.file}" in memory.told
    # An application that is started again still knows.
    assert remembered(path, place).lost == ("low",)
    tailbit.open(path)._created_by(parse_script(Path(memory.file).read_text()), None)
    assert remembered(path, place).lost == ()
    assert tailbit.open(path).where("lower(v) = 'x'").files_scanned == 0


def test_an_index_that_is_dropped_is_not_lost(path: str, place: Storage) -> None:
    tailbit.sql(f"CREATE INDEX low ON '{path}' (lower(v))")
    remembered(path, place)
    tailbit.sql(f"DROP INDEX low ON '{path}'")
    assert remembered(path, place).lost == ()
    made_anew(path)
    assert remembered(path, place).lost == ()


def test_what_was_lost_twice_is_told_as_a_whole(path: str, place: Storage) -> None:
    tailbit.sql(f"CREATE INDEX low ON '{path}' (lower(v))")
    remembered(path, place)
    made_anew(path)
    remembered(path, place)
    tailbit.sql(f"CREATE INDEX day ON '{path}' (upper(v))", zone="Asia/Tokyo")
    remembered(path, place)
    made_anew(path)
    assert set(remembered(path, place).lost) == {"low", "day"}


def test_a_column_that_alter_added_is_lost_too(path: str, place: Storage) -> None:
    other = next(c.label for c in open_table(path).snapshot().schema.columns if c.label != "v")
    tailbit.open(path).alter(add=[other])
    remembered(path, place)
    made_anew(path)
    assert remembered(path, place).lost == (other,)


def test_a_memory_that_is_deleted_or_damaged_is_forgotten(path: str, place: Storage) -> None:
    tailbit.sql(f"CREATE INDEX low ON '{path}' (lower(v))")
    file = Path(remembered(path, place).file)
    file.write_bytes(b"\xff\x00 no script")
    made_anew(path)
    assert remembered(path, place).lost == ()


def test_a_place_that_cannot_be_written_is_no_trouble_of_the_index(path: str, tmp_path: Path) -> None:
    (tmp_path / "lease").write_text("a file in place of the folder")
    assert remembered(path, open_storage(str(tmp_path / "lease"))).told == ""


pytestmark = pytest.mark.skipif(not sees_cpu_time(), reason="no /proc: the CPU time of processes is not seen")


@pytest.fixture
def member() -> Member:
    """A table whose work waits in a thread."""
    member = Member(TableEntry(path="/lake/orders", id="orders"), TableLife("orders", Liveness()))
    member.job, member.at_work = Job(lambda: None), True
    ended = threading.Event()
    thread = threading.Thread(target=ended.wait, daemon=True)
    thread.start()
    member.job.began, member.job.thread = time.monotonic(), thread.native_id or 0
    return member


def test_a_process_that_computes_for_a_table_is_a_sign_of_its_life(member: Member, tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as worker:
        (tmp_path / str(worker.pid)).touch()

        def signed() -> bool:
            member.sign_if_busy(str(tmp_path))
            return member.life.signed > 0.0

        wait_until(signed)
        worker.kill()


def test_a_process_that_waits_for_a_table_is_none(member: Member, tmp_path: Path) -> None:
    waits = subprocess.Popen([sys.executable, "-c", "print(flush=True); input()"], stdin=-1, stdout=-1)
    with waits as worker:
        assert worker.stdout is not None
        worker.stdout.readline()
        (tmp_path / str(worker.pid)).touch()
        member.cpu.is_busy(1e9)
        member.sign_if_busy(str(tmp_path))
        signed = member.life.signed
        for _ in range(20):
            member.sign_if_busy(str(tmp_path))
        assert member.life.signed == signed
        worker.kill()
