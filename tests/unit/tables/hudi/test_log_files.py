"""Log files are read block by block; what is torn or damaged is an error that names file and offset."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tailbit
from support.drive import Drive
from support.hudi import packed_names, unpack
from support.hudi_logs import (
    BASE_INSTANT,
    HFILE,
    INSTANT,
    PARTIAL,
    POSITIONS,
    avro_block,
    delete_block,
    log_block,
    parquet_block,
    positions,
    rollback_block,
)
from support.hudi_made import GROUP, Made, deletions, updates
from tailbit.errors import LogBlockError, UnsupportedFeatureError
from tailbit.tables.hudi.log_files import blocks
from tailbit.tables.hudi.log_files.blocks import BlockType, LogBlock, list_blocks
from tailbit.tables.hudi.log_files.keys import Deletion, read_deletions
from tailbit.tables.hudi.log_files.records import read_pieces
from tailbit.tables.storage import Storage, open_storage

LOG = ".f1-0_20260101000000000.log.1_0-1-1"
FIRST, SECOND = "20260101000000000", "20260102000000000"
DAY = {"type": "int", "logicalType": "date"}
MOMENT = {"type": "long", "logicalType": "timestamp-micros"}
PRICE = {"type": "fixed", "name": "price", "size": 5, "logicalType": "decimal", "precision": 10, "scale": 2}


def schema(**columns: Any) -> dict[str, Any]:
    fields = [{"name": name, "type": ["null", type_]} for name, type_ in columns.items()]
    return {"type": "record", "name": "row", "fields": fields}


PLAIN = schema(k="string", n="int", x="double", day=DAY, at=MOMENT, price=PRICE)
NESTED = schema(k="string", words={"type": "array", "items": ["null", "string"]}, at={**MOMENT})
ROW: dict[str, Any] = {"k": "a", "n": 1, "x": 0.5, "day": 3, "at": 5, "price": None}


def written(folder: Path, *content: bytes) -> tuple[Storage, tuple[LogBlock, ...]]:
    (folder / LOG).write_bytes(b"".join(content))
    storage = open_storage(str(folder))
    return storage, list_blocks(storage, LOG)


def test_blocks_are_listed_with_their_instants_and_flags(tmp_path: Path) -> None:
    more = {PARTIAL: "true", BASE_INSTANT: FIRST, POSITIONS: positions([2, 5])}
    _, found = written(
        tmp_path,
        avro_block(FIRST, PLAIN, [ROW], more),
        delete_block(SECOND, [("a", None)]),
        rollback_block(SECOND, FIRST),
    )
    assert [block.type for block in found] == [BlockType.AVRO, BlockType.DELETE, BlockType.COMMAND]
    assert [block.instant for block in found] == [FIRST, SECOND, SECOND]
    assert [block.number for block in found] == [0, 1, 2]
    assert [block.is_partial for block in found] == [True, False, False]
    assert found[2].undoes == FIRST
    assert written(tmp_path, b"")[1] == ()


@pytest.mark.parametrize("columns", [PLAIN, NESTED], ids=["plain", "nested"])
def test_rows_of_avro_are_those_that_were_written(columns: dict[str, Any], tmp_path: Path) -> None:
    names = [field["name"] for field in columns["fields"]]
    row = {**ROW, "words": ["x", None]}
    rows = [{name: row[name] for name in names}, dict.fromkeys(names)]
    storage, (block,) = written(tmp_path, avro_block(FIRST, columns, rows))
    found = pa.concat_tables(read_pieces(storage, LOG, block))
    numbered = found["at"].cast(pa.int64()).to_pylist()
    assert (found["k"].to_pylist(), numbered) == (["a", None], [5, None])
    if "words" in names:
        assert found["words"].to_pylist() == [["x", None], None]


@pytest.mark.parametrize("nested", [False, True])
def test_a_uuid_is_the_text_that_it_is_stored_as(nested: bool, tmp_path: Path) -> None:
    more = {"words": {"type": "array", "items": "string"}} if nested else {}
    texts = ["00000000-0000-0000-0000-00000000000A", "no uuid", None]
    columns = schema(u={"type": "string", "logicalType": "uuid"}, **more)
    storage, (block,) = written(tmp_path, avro_block(FIRST, columns, [{"u": text} for text in texts]))
    assert pa.concat_tables(read_pieces(storage, LOG, block))["u"].to_pylist() == texts


def test_rows_of_parquet_are_those_that_were_written(tmp_path: Path) -> None:
    rows = pa.table({"k": ["a", "b"]})
    storage, (block,) = written(tmp_path, parquet_block(FIRST, schema(k="string"), rows))
    assert pa.concat_tables(read_pieces(storage, LOG, block)).equals(rows)


def test_deletions_are_read_with_their_ordering_values(tmp_path: Path) -> None:
    storage, (block,) = written(tmp_path, delete_block(FIRST, [("a", None), ("ä", 2**40), ("", -1)]))
    found = read_deletions(storage, LOG, block)
    assert found == [Deletion("a", None), Deletion("ä", 2**40), Deletion("", -1)]


def test_blocks_of_forms_that_are_not_read_are_refused_by_name(tmp_path: Path) -> None:
    old, odd = delete_block(FIRST, [], version=2), log_block(HFILE, {INSTANT: FIRST})
    storage, (deletions, rows) = written(tmp_path, old, odd)
    with pytest.raises(UnsupportedFeatureError, match="delete blocks of version 2"):
        read_deletions(storage, LOG, deletions)
    with pytest.raises(UnsupportedFeatureError, match="HFILE"):
        pa.concat_tables(read_pieces(storage, LOG, rows))


@pytest.mark.parametrize("kept", [8, 20, 60, 200, -3])
def test_a_block_that_its_writer_did_not_finish_is_torn_and_the_next_one_is_found(
    kept: int, tmp_path: Path
) -> None:
    whole = avro_block(FIRST, PLAIN, [ROW] * 9)
    _, found = written(tmp_path, whole, whole[:kept], delete_block(SECOND, [("a", 1)]))
    assert [block.type for block in found] == [BlockType.AVRO, BlockType.TORN, BlockType.DELETE]
    assert found[1].offset == len(whole)
    assert found[1].instant == (FIRST if kept not in (8, 20) else "")
    assert found[2].instant == SECOND
    _, cut = written(tmp_path, whole, whole[:kept])
    assert [block.type for block in cut] == [BlockType.AVRO, BlockType.TORN]


def test_a_large_log_file_is_read_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = avro_block(FIRST, PLAIN, [ROW] * 900)
    parts = (whole, whole[:-5], delete_block(SECOND, [("a", 1)]), whole, whole[:999])
    _, at_once = written(tmp_path, *parts)
    monkeypatch.setattr(blocks, "WHOLE", 0)
    monkeypatch.setattr(blocks, "AHEAD", 100)
    (tmp_path / LOG).rename(tmp_path / f"{LOG}7")
    assert list_blocks(open_storage(str(tmp_path)), f"{LOG}7") == at_once
    types = [block.type for block in at_once]
    torn = BlockType.TORN
    assert types == [BlockType.AVRO, torn, BlockType.DELETE, BlockType.AVRO, torn]


def test_a_file_that_begins_with_something_else_is_no_log_file(tmp_path: Path) -> None:
    with pytest.raises(LogBlockError, match=r"log.1_0-1-1 at offset 0: no block begins here"):
        written(tmp_path, b"PAR1 and more")


def read_all(storage: Storage, path: str) -> list[object]:
    """Read all blocks of a log file and what is in them."""
    found: list[object] = []
    for block in list_blocks(storage, path):
        found.append((block.type, block.instant, block.undoes, block.is_partial))
        if block.type in (BlockType.AVRO, BlockType.PARQUET):
            rows = pa.concat_tables(read_pieces(storage, path, block))
            found.append(rows.to_pydict())
        elif block.type is BlockType.DELETE:
            found.append(read_deletions(storage, path, block))
    return found


def test_every_block_of_the_packed_tables_is_whole(tmp_path: Path) -> None:
    count = 0
    for name in sorted({*packed_names("mor")} - {"mor_v9_ordering_text"}):
        table = unpack(name, tmp_path / name)
        storage = open_storage(table.path)
        for file in sorted(Path(table.path).rglob(".*.log.*")):
            path = str(file.relative_to(table.path))
            if not path.startswith(".hoodie/"):
                assert all(block.instant and not block.damage for block in list_blocks(storage, path))
                count += len(read_all(storage, path)) > 0
    assert count > 100


@pytest.mark.supports_hudi("MERGE_ON_READ", "log files from before an upgrade from table version 6", "exact")
def test_log_files_from_before_an_upgrade_are_read_at_each_version(tmp_path: Path) -> None:
    made = Made(tmp_path)
    Drive(made.path, tmp_path / "index", ["city"]).drain()
    states = [
        (updates([0, 1], 6), 1, {"Lima": 2, "Oslo": 3}),
        (deletions(("1", 7)), 2, {"Lima": 1, "Oslo": 3}),
        (updates([0, 2], 8, "Pune"), 0, {"Pune": 2, "Oslo": 2}),
    ]
    names = []
    for written, number, cities in states:
        made.write(written, log=f".{GROUP}_{made.base.requested}.log.{number}_0-1-1" if number else "")
        Drive(made.path, tmp_path / "index", ["city"]).drain()
        answer = tailbit.open(made.path, tmp_path / "index").where()
        assert answer.facets("city") == cities
        names.append(answer.version_name)
    found = [tailbit.open(made.path).where(version=name).facets("city") for name in names]
    assert found == [cities for *_, cities in states]


@pytest.mark.parametrize("kept", [20, -9, None])
def test_what_a_task_that_was_run_again_left_before_an_upgrade_changes_no_row(
    kept: int | None, tmp_path: Path
) -> None:
    made = Made(tmp_path)
    log = made.write(updates([0], 6), log=f".{GROUP}_{made.base.requested}.log.1_0-1-1")
    whole = (Path(made.path) / log).read_bytes()
    (Path(made.path) / log.replace("_0-1-1", "_0-1-0")).write_bytes(whole[:kept])
    assert made.cities() == {0: "Lima", 1: "Oslo", 2: "Oslo", 3: "Oslo", 4: "Oslo"}


@pytest.mark.supports_hudi(
    "MERGE_ON_READ",
    "log files from before an upgrade that were written while a compaction was pending",
    "refused",
)
def test_log_files_of_an_instant_that_was_pending_when_they_were_written_are_refused(tmp_path: Path) -> None:
    made = Made(tmp_path)
    pending = made.builder.timeline.request("deltacommit")
    made.write(updates([0], 6), log=f".{GROUP}_{pending}.log.1_0-1-1")
    made._complete(pending, [])
    with pytest.raises(UnsupportedFeatureError, match="an instant that was pending") as refused:
        made.cities()
    assert "CALL run_compaction" in refused.value.hint
