"""An indexer whose index is in an object store dies in a commit: the index equals one built without it.

The process is killed by SIGKILL while its conditional put is on the way: before the store saw it, and after
the store did it and before the reply. The stream runs without Spark, as in `test_kill_points.py`.
"""

from __future__ import annotations

import random
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import tailbit
from support.contents import contents_of
from support.differential import assert_answers_agree
from support.faulty_proxy import Fault, Proxy, Request
from support.forked import Forked, forked
from support.histories import DeltalakeHistory
from support.oracle import duckdb_positions
from support.predicates import INDEXED, random_predicates
from tailbit.index.store.table import MetadataTable


@pytest.fixture
def start(
    tmp_path: Path, s3_root: str, s3_options: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> Callable[[], subprocess.Popen[str]]:
    """Starts the indexer of a table on disk with its index in the store; credentials in the environment."""
    for name, value in s3_options.items():
        if name.startswith("AWS_"):
            monkeypatch.setenv(name, value)
    history = DeltalakeHistory(str(tmp_path / "table"), random.Random(3))
    for _ in range(6):
        history.step()
    words = ["-m", "support.drive_process", str(tmp_path / "table"), s3_root]
    words += [",".join(INDEXED), str(tmp_path / "offsets")]

    def started() -> subprocess.Popen[str]:
        return Forked(words, stderr=subprocess.PIPE, text=True, start_new_session=True)

    return started


@pytest.mark.parametrize("fault", [Fault.RESET, Fault.REPLY_LOST])
def test_killed_while_a_commit_is_on_its_way_the_index_equals_one_built_in_one_go(
    start: Callable[[], subprocess.Popen[str]],
    tmp_path: Path,
    s3: Proxy,
    s3_root: str,
    fault: Fault,
) -> None:
    table, version = str(tmp_path / "table"), 3
    process = start()

    def dies(request: Request) -> bool:
        if request.method != "PUT" or not request.path.endswith(f"_delta_log/{version:020}.json"):
            return False
        process.kill()
        return True

    with s3.failing(fault, 1, dies) as met:
        process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert len(met) == 1
    assert MetadataTable.open(s3_root).version == version - (fault is Fault.RESET)
    again = start()
    _, error = again.communicate()
    assert again.returncode == 0, error
    sound = str(tmp_path / "sound")
    forked("-m", "support.drive_process", table, sound, ",".join(INDEXED), check=True)
    assert contents_of(s3_root) == contents_of(sound)
    assert tailbit.open(table, index=s3_root).verify().problems == []
    head = tailbit.open(table).where().version
    predicates = random_predicates(random.Random(4), 6)
    expected = duckdb_positions(table, head, predicates)
    assert_answers_agree(table, head, predicates, expected, "killed", s3_root)
