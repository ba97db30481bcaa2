"""The parsers of a Hudi table's bytes as functions of bytes: properties, timeline, log blocks.

Seeds are the bytes of real tables. Where a parser accepts bytes, its answer is compared with another reading
of them: lines of text, plain `json`, pyarrow's rows, fastavro's records.
"""

from __future__ import annotations

import io
import itertools
import json
import random
import re
import struct
import tarfile
from dataclasses import dataclass, field
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

from support.byte_edits import edited
from support.hudi import PACKED
from support.hudi_logs import avro_block, log_block
from tailbit.tables.hudi.archive import list_archive, list_history
from tailbit.tables.hudi.files import read_commit
from tailbit.tables.hudi.instants import list_active
from tailbit.tables.hudi.log_files.blocks import BlockType, LogBlock, list_blocks, read_span
from tailbit.tables.hudi.log_files.keys import read_deletions
from tailbit.tables.hudi.log_files.records import is_plain, read_pieces, schema_of
from tailbit.tables.hudi.properties import FILE, parse_properties, read_properties
from tailbit.tables.hudi.timeline import TimelineReader
from tailbit.tables.storage import Entry, LocalStorage

TEXTS = ("string", "long", "int", "boolean")
"""Types of Avro whose values are the same however they are decoded."""
SMALL = 16_000
PROPERTIES = {"hoodie.table.name": "t", "hoodie.table.type": "COPY_ON_WRITE", "hoodie.table.version": "9"}
REQUESTED, LATER = "20250101000000000", "20250101000009000"


def packed_files(pack: str, part: str, most: int = 3) -> list[bytes]:
    """Return some small files of a packed table whose names hold a text, smallest first."""
    found = []
    with tarfile.open(PACKED / f"{pack}.tar.gz") as archive:
        for entry in archive:
            content = archive.extractfile(entry) if part in entry.name and entry.size < SMALL else None
            if content is not None and "/metadata/" not in entry.name and (data := content.read()):
                found.append(data)
    return sorted(found, key=len)[:most]


@dataclass
class HudiBytes:
    """A folder for the files that parsers read; no name is used twice, since states of files are cached."""

    storage: LocalStorage
    number: Any = field(default_factory=itertools.count)

    def properties(self, data: bytes) -> bool:
        """Properties without escapes are what a reading line by line finds."""
        found = parse_properties(data)
        if b"\\" not in data:
            lines = (line.strip(" \t\f") for line in data.decode("latin-1").replace("\r", "\n").split("\n"))
            kept = [line for line in lines if line and line[0] not in "#!"]
            assert len(found) <= len(kept)
            assert all(any(line.startswith(name) for line in kept) for name in found)
        self._put(FILE, data)
        return read_properties(self.storage).version in (6, 8, 9)

    def instant(self, data: bytes) -> bool:
        """The files that a commit wrote are those that plain JSON finds."""
        folder = f".hoodie/timeline{next(self.number)}"
        named = {**PROPERTIES, "hoodie.timeline.path": folder.rpartition("/")[2]}
        self._put(FILE, "\n".join(f"{name}={value}" for name, value in named.items()).encode())
        self._put(f"{folder}/{REQUESTED}_{REQUESTED}.commit", data)
        self._put(f"{folder}/{LATER}_{LATER}.commit", b"{}")
        timeline = TimelineReader(self.storage).look()
        commit = read_commit(timeline, timeline.completed[0])
        if data[:1] == b"{" and isinstance(stats := json.loads(data).get("partitionToWriteStats"), dict):
            paths = {each.get("path") for own in stats.values() for each in own or ()}
            assert {file.path for file in commit.written} | {log.path for log in commit.logs} <= paths
        return True

    def timeline(self, data: bytes) -> bool:
        """Every completed instant is one of the names of a folder, and none is listed twice."""
        names = data.decode("latin-1").split("\n")
        entries = [Entry(name, 1, 1) for name in dict.fromkeys(names)]
        found = list_active(entries, "f", True, "root")
        assert {instant.file.removeprefix("f/") for instant in found.completed} <= set(names)
        assert [i.completed for i in found.completed] == sorted(i.completed for i in found.completed)
        assert found.deleting <= found.pending
        return bool(found.completed)

    def history(self, data: bytes) -> bool:
        """The instants of a run are the rows that pyarrow reads."""
        folder = f"history{next(self.number)}"
        self._put(f"{folder}/_version_", b"1")
        self._put(f"{folder}/manifest_1", b'{"files": [{"fileName": "a_b_0.parquet"}]}')
        self._put(f"{folder}/a_b_0.parquet", data)
        found = list_history(self.storage, folder)
        names = ["instantTime", "completionTime", "action"]
        rows = pq.read_table(pa.BufferReader(data), columns=names).to_pylist()
        told = [tuple(row[name] for name in names) for row in rows]
        assert sorted((i.requested, i.completed, i.action) for i in found) == sorted(told)
        return True

    def manifest(self, data: bytes) -> bool:
        """A manifest names files of its own folder alone: those that plain JSON finds."""
        folder = f"history{next(self.number)}"
        self._put(f"{folder}/_version_", b"1")
        self._put(f"{folder}/manifest_1", data)
        for name in set(re.findall(rb"[0-9A-Za-z_.-]{1,80}\.parquet", data)):
            self._put(f"{folder}/{name.decode()}", small_run())
        found = list_history(self.storage, folder)
        assert len(found) == len(json.loads(data)["files"])
        return True

    def archive(self, data: bytes) -> bool:
        """Completed instants of an archive have times and actions."""
        folder = f"archive{next(self.number)}"
        self._put(f"{folder}/.commits_.archive.1_1-0-1", data)
        for instant in list_archive(self.storage, folder):
            assert instant.requested in data.decode("latin-1")
        return True

    def log(self, data: bytes) -> bool:
        """Blocks follow one another; rows and deletions are those that fastavro decodes."""
        name = f".log{next(self.number)}"
        self._put(name, data)
        blocks = list_blocks(self.storage, name)
        assert [block.number for block in blocks] == [*range(len(blocks))]
        for block in blocks:
            # The writer may have died within the first bytes of the last one.
            assert b"#HUDI#".startswith(data[block.offset : block.offset + 6])
            if block.type is BlockType.DELETE:
                assert all(deletion.key is not None for deletion in read_deletions(self.storage, name, block))
            elif block.type in (BlockType.AVRO, BlockType.PARQUET):
                self._compare(name, block, pa.concat_tables(read_pieces(self.storage, name, block)))
        return bool(blocks)

    def _compare(self, name: str, block: LogBlock, rows: pa.Table) -> None:
        """Compare the rows of a block of Avro with fastavro's reading of each record."""
        root = json.loads(schema_of(self.storage, name, block)) if block.type is BlockType.AVRO else None
        if root is None or not is_plain(root):
            return
        content = read_span(self.storage, name, block.content, block.offset)
        schema, at = fastavro.parse_schema(root), 8
        told: list[Any] = []
        while at < len(content):
            (size,) = struct.unpack_from(">i", content, at)
            told.append(fastavro.schemaless_reader(io.BytesIO(content[at + 4 : at + 4 + size]), schema, None))
            at += 4 + size
        assert rows.num_rows == len(told)
        for column in root["fields"]:
            kinds = [kind for kind in column["type"] if kind != "null"]
            if isinstance(column["type"], list) and len(kinds) == 1 and kinds[0] in TEXTS:
                assert rows[column["name"]].to_pylist() == [row[column["name"]] for row in told]

    def _put(self, name: str, data: bytes) -> None:
        path = self.storage.resolve(name)
        LocalStorage(path.rpartition("/")[0]).make_root()
        with open(path, "wb") as file:
            file.write(data)


def edited_log(data: bytes, draw: random.Random) -> bytes:
    """Bytes of a log file after edits; in most cases those of a block's content, whose lengths then fit."""
    starts = [at for at in range(len(data)) if data.startswith(b"#HUDI#", at)]
    if not starts or draw.random() < 0.4:
        return edited(data, draw)
    at = draw.choice(starts)
    try:
        (size,) = struct.unpack_from(">q", data, at + 6)
        _, kind, count = struct.unpack_from(">iii", data, at + 14)
        headers, place = {}, at + 26
        for _ in range(count):
            key, length = struct.unpack_from(">ii", data, place)
            headers[key] = data[place + 8 : place + 8 + length]
            place += 8 + length
        (length,) = struct.unpack_from(">q", data, place)
    except struct.error:
        return edited(data, draw)
    content = data[place + 8 : place + 8 + length]
    if headers and draw.random() < 0.3:
        key = draw.choice(list(headers))
        headers[key] = edited(headers[key], draw)
    else:
        content = edited(content, draw)
    return data[:at] + log_block(kind, headers, content) + data[at + 14 + size :]


def log_seeds() -> list[bytes]:
    """Log files of real tables: rows in Avro and Parquet, deletions, commands, partial updates."""
    packs = (
        "mor_v9",
        "mor_v6_restored",
        "mor_v9_parquet_logs",
        "mor_v9_sql",
        "mor_v8_event_time",
        "mor_v9_types",
    )
    return [data for pack in packs for data in packed_files(pack, ".log.", 2)]


def instant_seeds() -> list[bytes]:
    """Commits in Avro and in JSON, of both types of table."""
    names = (
        ("cow_v9", ".commit"),
        ("cow_v6_parts", ".commit"),
        ("cow_v9_clustered", ".replacecommit"),
        ("mor_v9", ".deltacommit"),
    )
    return [data for pack, ending in names for data in packed_files(pack, ending, 2)]


def timeline_seeds() -> list[bytes]:
    """The names in the folder of a timeline."""
    names = []
    for pack in ("mor_v9_rolled_back", "cow_v9_clustered"):
        with tarfile.open(PACKED / f"{pack}.tar.gz") as archive:
            listed = [name for name in archive.getnames() if "/.hoodie/timeline/" in name]
        names.append("\n".join(name.rpartition("/")[2] for name in listed).encode())
    return names


def history_seeds() -> list[bytes]:
    """Runs of the history of a real table, and one of a single instant."""
    return [small_run(), *packed_files("cow_v9_archived", "/history/2", 2)]


def small_run() -> bytes:
    """A run of the history of one instant."""
    small = pa.table({"instantTime": [REQUESTED], "completionTime": [LATER], "action": ["commit"]})
    sink = io.BytesIO()
    pq.write_table(small, sink)
    return sink.getvalue()


def archive_seeds() -> list[bytes]:
    """An archive of table version 6 with a completed instant and one that is not; another of two blocks."""
    names = ("commitTime", "actionType", "actionState", "stateTransitionTime")
    fields = [{"name": name, "type": ["null", "string"], "default": None} for name in names]
    schema = {"type": "record", "name": "HoodieArchivedMetaEntry", "fields": fields}
    states = [
        dict(zip(names, (REQUESTED, "commit", state, LATER), strict=True))
        for state in ("COMPLETED", "REQUESTED")
    ]
    block = avro_block(REQUESTED, schema, states)
    return [block, block + avro_block(LATER, schema, states[:1])]
