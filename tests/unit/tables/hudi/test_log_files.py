"""Log files are read block by block; what is torn or damaged is an error that names file and offset."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

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
