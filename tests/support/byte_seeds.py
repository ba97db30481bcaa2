"""Whole inputs of every parser, small, from which the fuzzer starts."""

from __future__ import annotations

import datetime
import io
import json
import struct
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from support.delta_builder import DeltaBuilder
from support.vectors import encode_z85, framed, native, portable

SCHEMA = pa.schema([("a", pa.int64()), ("p", pa.string())])
_SETS: tuple[list[int], ...] = ([], [1, 5, 6], list(range(300)), [0, 70_000, 4_294_967_294])
_STATS = (
    {"numRecords": 3},
    {"numRecords": 3, "minValues": {"a": 1}, "maxValues": {"a": 9}, "nullCount": {"a": 0}},
    {"numRecords": 3, "minValues": {"a": 1.5}, "maxValues": {"a": 2.5}, "nullCount": {"a": 1}},
    {"minValues": {"a": "x"}, "maxValues": {"a": "y"}, "tightBounds": False, "nullCount": {"a": 1}},
    {"minValues": {"a": "2024-02-29"}, "maxValues": {"a": "2024-02-29T01:02:03.456Z"}},
)
_TEXTS = (
    *"x 7 -1 1.5 1e3 NaN -Infinity true 2024-02-29 10000-01-01 0001-01-01".split(),
    "2024-02-29 01:02:03.456789",
    "2024-02-29T01:02:03+05:30",
    "",
)


@dataclass(eq=False)
class Seeds:
    """Seeds by target; one lives as long as its process. Files are made once, below `folder`."""

    folder: Path
    _builder: DeltaBuilder | None = field(default=None, repr=False)

    def builder(self) -> DeltaBuilder:
        """A small table: partitions, an escape in a name, an inline and a stored vector."""
        if self._builder is None:
            made = DeltaBuilder(str(self.folder / "seed"))
            made.create(SCHEMA, ["p"], features=["deletionVectors", "v2Checkpoint"])
            made.log.joinpath("_sidecars").mkdir(exist_ok=True)
            rows = pa.table({"a": [1, 2, 3]})
            names = ("0.parquet", "1 é.parquet", "2.parquet")
            made.commit([made.data_file(rows, name, {"p": name[0]}) for name in names])
            stored = made.stored_vectors([2])[0]
            made.commit(made.hide("0.parquet", made.inline_vector([1])) + made.hide("2.parquet", stored))
            self._builder = made
        return self._builder

    def table(self) -> tuple[str, list[str]]:
        """A table's path and the paths of its files."""
        return self.builder().path, ["0.parquet", "1 é.parquet", "2.parquet"]

    def commits(self) -> list[bytes]:
        return [path.read_bytes() for path in sorted(self.builder().log.glob("*.json"))]

    def hints(self) -> list[bytes]:
        return [b'{"version":2,"size":5}', b"", b"{"]

    def _checkpoint(self, form: str, struct_stats: bool = False) -> list[Path]:
        return self.builder().checkpoint(form, 2, struct_stats)

    def checkpoints(self) -> list[bytes]:
        """With and without page checksums, statistics as text and parsed."""
        out = []
        for struct_stats in (False, True):
            (path,) = self._checkpoint("classic", struct_stats)
            out += _rewritten(path.read_bytes())
            path.unlink()
        return out

    @cache  # noqa: B019
    def sidecars(self) -> list[bytes]:
        (manifest,) = self._checkpoint("v2-json")
        manifest.unlink()
        found = [path.read_bytes() for path in self.builder().log.glob("_sidecars/*")]
        for path in self.builder().log.glob("_sidecars/*"):
            path.unlink()
        return _rewritten(max(found, key=len))

    @cache  # noqa: B019
    def manifests(self) -> list[bytes]:
        rows = [json.loads(line) for line in self.commits()[0].splitlines()]
        side = {"sidecar": {"path": "s.parquet", "sizeInBytes": 1, "modificationTime": 1}}
        return [b"\n".join(json.dumps(row).encode() for row in [*rows[1:], *more]) for more in ([side], [])]

    def vector_files(self) -> list[bytes]:
        """Offset, size and count, then the file."""
        out = []
        for rows in _SETS:
            for payload in (portable(rows), native(rows)):
                head = struct.pack("<III", 1, len(payload), len(rows))
                out.append(head + b"\x01" + framed(payload))
        return out

    def vectors_inline(self) -> list[bytes]:
        out = []
        for rows in _SETS[:3]:
            payload = portable(rows)
            out.append(struct.pack("<II", len(payload), len(rows)) + encode_z85(payload).encode())
        return out

    def partition_values(self) -> list[bytes]:
        return [bytes([kind]) + text.encode() for kind in range(13) for text in _TEXTS]

    def schemas(self) -> list[bytes]:
        inner = pa.struct([("x", pa.date32()), ("y", pa.list_(pa.decimal128(10, 2)))])
        wide = pa.schema([("a", pa.int64()), ("n", inner), ("m", pa.map_(pa.string(), inner))])
        texts = [self.builder().metadata_action(schema)["schemaString"] for schema in (SCHEMA, wide)]
        mapped = {"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": "col-1"}
        named = {"name": "a", "type": "string", "nullable": True, "metadata": mapped}
        return [text.encode() for text in (*texts, json.dumps({"type": "struct", "fields": [named]}))]

    def statistics(self) -> list[bytes]:
        return [json.dumps(stats).encode() for stats in _STATS]

    def data_files(self) -> list[bytes]:
        day = datetime.date(2024, 2, 29)
        rows = pa.table(
            {"a": [1, None, 3] * 4, "s": ["x", "y", None] * 4, "n": [{"x": day}, None, {"x": None}] * 4}
        )
        out = io.BytesIO()
        pq.write_table(rows, out, row_group_size=6)
        return _rewritten(out.getvalue(), 6)


def _rewritten(data: bytes, row_group_size: int | None = None) -> list[bytes]:
    """A Parquet file again: with page checksums, and with data pages v2 uncompressed."""
    table = pq.ParquetFile(pa.BufferReader(data)).read()
    out = []
    for options in ({"write_page_checksum": True}, {"data_page_version": "2.0", "compression": "none"}):
        sink = io.BytesIO()
        pq.write_table(table, sink, row_group_size=row_group_size, write_statistics=False, **options)
        out.append(sink.getvalue())
    return out
