"""An index of an older release is derived data: `run` makes it anew; until then `status` says what it is."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

import tailbit
from support.forked import command
from support.golden import PLAIN, unpack
from support.tables import index_of
from tailbit.checkpoints.claim import Claim
from tailbit.errors import IndexerRunningError, SettingsError
from tailbit.streaming.query.launch import prepare
from tailbit.tables.storage import open_storage

TOOL = Path(sys.executable).with_name("tailbit")


@pytest.fixture(params=[1, 2])
def old(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return unpack(request.param, tmp_path)


def test_status_of_an_older_format_shows_the_columns_and_that_nothing_is_covered(old: str) -> None:
    done = command("status", old, "--json", check=True)
    told = json.loads(done.stdout)
    assert (told["columns"], told["state"], told["covered_version"]) == ([*PLAIN], "of an older format", None)
    assert told["lag"]["files"] == len(tailbit.open(old).where("TRUE").files())
    assert told["lag"]["versions"] == told["head"] + 1
    assert told["lag"]["seconds"] > 0
    assert told["lag"]["bytes"] > 0
    assert "run makes it anew" in told["remedy"]
    assert "damaged" not in done.stdout


@pytest.mark.parametrize("columns", [None, [*PLAIN]])
def test_a_run_makes_an_index_of_an_older_format_anew_with_its_columns_and_says_so(
    old: str, columns: list[str] | None
) -> None:
    told: list[str] = []
    prepared = prepare(old, columns, None, None, "1 second", tell=told.append)
    assert prepared is not None
    assert [column.label for column in prepared.index.state.settings.columns] == [*PLAIN]
    assert len(told) == 1
    assert re.search("format [12]", told[0])
    assert "made anew with its columns" in told[0]
    assert tailbit.open(old).state == "empty"


def test_an_index_of_an_older_format_is_left_alone_where_its_columns_are_not_those_asked_for(
    old: str,
) -> None:
    with pytest.raises(SettingsError):
        prepare(old, ["k"], None, None, "1 second")
    assert tailbit.open(old).state == "of an older format"


def test_an_index_of_an_older_format_is_left_alone_while_another_indexer_is_at_work(old: str) -> None:
    heartbeat = Claim(open_storage(f"{old}/_tailbit"))
    heartbeat.acquire()
    with pytest.raises(IndexerRunningError):
        prepare(old, None, None, None, "1 second")
    heartbeat.release()
    assert tailbit.open(old).state == "of an older format"


def test_a_table_replaced_at_its_place_lags_by_all_that_it_holds(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    write_deltalake(path, pa.table({"v": ["a", "b"]}))
    index_of(path, ["v"])
    (tmp_path / "t" / "_tailbit").rename(tmp_path / "i")
    (tmp_path / "t").rename(tmp_path / "before")
    for _ in range(3):
        write_deltalake(path, pa.table({"v": ["c"]}), mode="append")
    told = json.loads(command("status", path, "--index", tmp_path / "i", "--json", check=True).stdout)
    assert (told["state"], told["covered_version"]) == ("other history", None)
    assert (told["lag"]["versions"], told["lag"]["files"]) == (3, 3)
    assert told["lag"]["seconds"] > 0
