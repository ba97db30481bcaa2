"""DROP beside other processes: what is dropped stays dropped, and of two drops one finds none."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

import tailbit
from tailbit.errors import UnknownIndexError
from tailbit.index.maintenance.definitions import drop
from tailbit.index.maintenance.rebuild import rebuild
from tailbit.index.store.table import MetadataTable


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A table of one file with the indexes `k` and `by_city`."""
    path = str(tmp_path / "trips")
    write_deltalake(path, pa.table({"city": ["Rome", "rome", None], "k": [1, 2, 3]}))
    tailbit.open(path).create_index("k", "k")
    tailbit.open(path).create_index("by_city", "lower(city)")
    return path


def names(path: str) -> list[str]:
    return [index.name for index in tailbit.open(path).indexes()]


@pytest.mark.parametrize("ended", [False, True])
def test_an_index_that_another_process_rebuilds_meanwhile_stays_dropped(path: str, ended: bool) -> None:
    beside = MetadataTable.open(f"{path}/_tailbit")
    rebuild(MetadataTable.open(f"{path}/_tailbit"), "by_city", tailbit.open(path).where()._selection.schema)
    if ended:
        tailbit.open(path).repair()
    drop(beside, "by_city")
    tailbit.open(path).repair()
    assert names(path) == ["k"]
    assert (tailbit.open(path).where("lower(city) = 'rome'").count(), names(path)) == (2, ["k"])
    assert tailbit.open(path).verify().problems == []


def test_of_two_drops_at_once_the_second_is_told_that_there_is_none(path: str) -> None:
    beside = MetadataTable.open(f"{path}/_tailbit")
    assert tailbit.open(path).drop_index("by_city")
    with pytest.raises(UnknownIndexError):
        drop(beside, "by_city")
    assert not tailbit.open(path).drop_index("by_city", if_exists=True)
    assert names(path) == ["k"]
