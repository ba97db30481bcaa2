"""The last index of a table is dropped: the stream goes on, questions scan, and an index may come again."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import tailbit
from support.drive import Drive
from tailbit.errors import UnknownIndexError
from tailbit.streaming.settings import StreamSettings
from tailbit.upkeep.status import status_of


def write(path: str, first: int) -> None:
    keys = list(range(first, first + 10))
    write_deltalake(path, pa.table({"k": keys, "s": [f"S{k % 3}" for k in keys]}), mode="append")


@pytest.mark.parametrize(
    ("on", "kind"), [("s", "bitmap"), ("lower(s)", "bitmap"), (["s", "k"], "bitmap"), ("k", "column_stats")]
)
def test_the_last_index_is_dropped_the_stream_goes_on_and_another_is_made(
    tmp_path: Path, on: str | list[str], kind: str
) -> None:
    path = str(tmp_path / "t")
    for first in (0, 10):
        write(path, first)
    table = tailbit.open(path)
    table.create_index("i", on, kind)
    assert table.drop_index("i")
    assert (table.indexes(), tailbit.sql(f"SHOW INDEXES ON delta.`{path}`")) == ([], [])
    assert (table.where("s = 'S1'").count(), table.where().count()) == (7, 20)
    assert table.where().facets("s") == {"S0": 7, "S1": 7, "S2": 6}

    drive = Drive(path, f"{path}/_tailbit", None, StreamSettings())
    write(path, 20)
    DeltaTable(path).delete("k = 1")
    drive.drain()
    answer = table.where("s = 'S1'")
    assert (answer.count(), answer.covered_version) == (9, 3)
    status = status_of(path)
    assert (status["columns"], status["state"], status["files_to_post"]) == ([], "complete", {})
    assert table.verify(derive=10).problems == []
    table.compact()
    table.vacuum()
    assert table.where("s = 'S1'").count() == 9
    with pytest.raises(UnknownIndexError) as refused:
        table.drop_index("i")
    assert refused.value.hint == "It has: none."

    assert table.create_index("i", "upper(s)").state == "complete"
    answer = table.where("upper(s) = 'S1'")
    assert (answer.count(), answer.files_scanned) == (9, 0)
    assert table.verify(derive=10).problems == []


def test_an_index_without_definitions_that_is_damaged_is_made_anew_without_definitions(
    tmp_path: Path,
) -> None:
    path = str(tmp_path / "t")
    write(path, 0)
    table = tailbit.open(path)
    table.create_index("s", "s")
    table.drop_index("s")
    for file in Path(path, "_tailbit", "kind=files").iterdir():
        file.write_bytes(b"PAR1" + bytes(100) + b"PAR1")
    assert tailbit.open(path).where("s = 'S1'").count() == 3
    tailbit.open(path).repair()
    assert (table.indexes(), tailbit.open(path).verify().problems) == ([], [])
    assert tailbit.open(path).where("s = 'S1'").count() == 3
