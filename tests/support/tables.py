"""Small tables with every kind of value, their indexes, and ways to damage an index or to tamper with it."""

from __future__ import annotations

import datetime
import shutil
from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from pyroaring import BitMap

import tailbit
from support.delta_builder import DeltaBuilder
from support.drive import Drive
from support.index_records import unchecked_segment
from tailbit.index.kinds.hidden_rows import HIDDEN_ROWS
from tailbit.index.kinds.kind import Kind
from tailbit.index.kinds.value_counts import VALUE_COUNTS
from tailbit.index.model import IndexFile
from tailbit.index.postings.postings import Postings, write_segment
from tailbit.index.postings.segment import Segment
from tailbit.index.store.table import MetadataTable
from tailbit.streaming.settings import StreamSettings

LONG = "x" * 300
UTC = datetime.timezone.utc
VECTORS: dict[str, Any] = {
    "features": ["deletionVectors"],
    "configuration": {"delta.enableDeletionVectors": "true"},
}
"""What makes a hand-made table one with deletion vectors."""

EVERY_TYPE = pa.table(
    {
        "id": pa.array(range(6), pa.int64()),
        "flag": [True, False, None, True, False, True],
        "small": pa.array([1, -1, None, 127, -128, 1], pa.int8()),
        "score": pa.array([0.5, float("nan"), None, -0.0, 0.0, float("nan")], pa.float32()),
        "amount": [1.5, float("nan"), None, float("inf"), float("-inf"), 1.5],
        "price": pa.array(
            [Decimal("9.99"), None, Decimal("0.00"), Decimal("-1.50"), None, Decimal("9.99")]
        ).cast(pa.decimal128(10, 2)),
        "name": ["a", "", None, LONG, LONG + "y", "ä\t\"'"],
        "raw": [b"\x00\xff", b"", None, b"a", b"a", LONG.encode()],
        "day": [datetime.date(2013, 1, 31), None, datetime.date(1, 1, 1), datetime.date(9999, 12, 31)]
        + [None] * 2,
        "moment": pa.array(
            [datetime.datetime(2013, 1, 1, 5, tzinfo=UTC), None, datetime.datetime(1969, 12, 31, tzinfo=UTC)]
            * 2,
            pa.timestamp("us", "UTC"),
        ),
        "local": pa.array([1_357_016_400_000_001, None, None] * 2, pa.timestamp("us")),
        "place": pa.array(
            [{"city": "Oslo", "at": {"x": 1}}, None, {"city": None, "at": None}] * 2,
            pa.struct([("city", pa.string()), ("at", pa.struct([("x", pa.int32())]))]),
        ),
        "tags": pa.array([["a", None], [], None] * 2, pa.list_(pa.string())),
        "counts": pa.array([[("k", 1)], [], None] * 2, pa.map_(pa.string(), pa.int32())),
    }
)

PLAIN_TYPES = ("id", "flag", "small", "score", "amount", "price", "name", "raw", "day", "moment", "local")
"""Columns of EVERY_TYPE that can be indexed."""


def rows(first: int, count: int = 10) -> pa.Table:
    """Rows whose k counts on from `first`, and v = k % 3 as text."""
    keys = list(range(first, first + count))
    return pa.table({"k": pa.array(keys, pa.int64()), "v": [f"v{k % 3}" for k in keys]})


def three_commits(path: str) -> str:
    """A table at `path` of three versions, ten rows each, k from 0 to 29; the path."""
    for first in (0, 10, 20):
        write_deltalake(path, rows(first), mode="append")
    return path


def append(path: str, count: int = 3) -> None:
    """Commit a file of equal rows of one column `v`; the first one makes the table."""
    write_deltalake(path, pa.table({"v": ["a"] * count}), mode="append")


def index_of(table: str | Path, columns: Sequence[str] | None = None, files: int = 2000) -> Drive:
    """The index of a table, brought up to date; call `drain` for more."""
    drive = Drive(table, f"{table}/_tailbit", columns, StreamSettings(files=files))
    drive.drain()
    return drive


def half_built(table: str | Path, columns: Sequence[str]) -> Drive:
    """An index whose first build has done one file."""
    drive = Drive(table, f"{table}/_tailbit", columns, StreamSettings(files=1))
    drive.step()
    return drive


def with_vectors(path: str, columns: Sequence[str] = ("v",), files: int = 2) -> DeltaBuilder:
    """A table of `files` files of ten rows, k counting on and v = k % 3, some rows hidden; and its index."""
    builder = DeltaBuilder(path).create(pa.schema([("k", pa.int64()), ("v", pa.string())]), **VECTORS)
    for n in range(files):
        builder.commit([builder.data_file(rows(10 * n), f"f{n}.parquet")])
    (vector,) = builder.stored_vectors([0, 4])
    builder.commit(builder.hide("f0.parquet", vector))
    index_of(path, columns)
    return builder


EIGHT_FLIGHTS = pa.table(
    {
        "flight": pa.array(range(1, 9), pa.int64()),
        "carrier": ["UA", "AA", "UA", None, "UA", "DL", "AA", "UA"],
        "dest": ["SFO", "LAX", "LAX", "ORD", "LAX", "SFO", "ORD", "SFO"],
        "dep_delay": pa.array([5, -2, 61, None, 0, 12, 95, -4], pa.int64()),
    }
)


def eight_flights(path: str) -> DeltaBuilder:
    """The table of the worked examples: a.parquet and b.parquet of four rows each; carriers are indexed."""
    builder = DeltaBuilder(path).create(EIGHT_FLIGHTS.schema, **VECTORS)
    builder.commit([builder.data_file(EIGHT_FLIGHTS.slice(0, 4), "a.parquet")])
    builder.commit([builder.data_file(EIGHT_FLIGHTS.slice(4), "b.parquet")])
    index_of(path, ["carrier"])
    return builder


def index_files(table: str | Path, kind: str | Kind[Any]) -> list[Path]:
    """The live files of one kind, or of the kind of a name, of a table's index."""
    index = MetadataTable.open(f"{table}/_tailbit")
    kind_ = index.kinds[kind] if isinstance(kind, str) else kind
    return [Path(index.path, file.path) for file in index.state.files_of(kind_)]


def gone(path: Path) -> None:
    path.unlink()


def truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def flipped_footer(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-20] ^= 0xFF
    path.write_bytes(data)


def flipped_pages(path: Path) -> None:
    """Every 32nd byte of the data pages altered; the footer as it was."""
    data = bytearray(path.read_bytes())
    footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    for at in range(8, footer, 32):
        data[at] ^= 0x55
    path.write_bytes(data)


DAMAGES = (gone, truncated, flipped_footer, flipped_pages)
"""What can happen to a file of an index."""

Change = Callable[[str, bytes | None, BitMap], BitMap]


def tamper(table: str | Path, change: Change) -> None:
    """Commit segments whose bits are changed: every checksum is right, the bits are not."""
    index = MetadataTable.open(f"{table}/_tailbit")
    segments = [s for found in index.state.spaces.values() for s in found]
    index.commit([], [_changed(index, s, change) for s in segments], None, removes=[s.path for s in segments])


def _changed(index: MetadataTable, segment: Segment, change: Change) -> IndexFile:
    parts = []
    for column, key_type in sorted(segment.columns.items()):
        for keys, bitmaps in segment.postings(column):
            named = zip(keys.to_pylist(), bitmaps, strict=True)
            new = [change(column, key, BitMap(bits)) for key, bits in named]
            data = pa.array([b.serialize() for b in new], pa.binary())
            parts.append(Postings(column, key_type, keys, np.array([len(b) for b in new], np.int64), data))
    return write_segment(index.storage, segment.space, segment.rows, parts)


def break_bitmaps(table: str | Path) -> None:
    """Commit segments whose bitmaps do not decode, though every checksum is right: so they were written."""
    index = MetadataTable.open(f"{table}/_tailbit")
    segments = [s for found in index.state.spaces.values() for s in found]
    index.commit([], [_broken(index, s) for s in segments], None, removes=[s.path for s in segments])


def _broken(index: MetadataTable, segment: Segment) -> IndexFile:
    parts = []
    for column, key_type in sorted(segment.columns.items()):
        for keys, bitmaps in segment.postings(column):
            data = pa.array([b.serialize()[:-1] for b in bitmaps], pa.binary())
            parts.append(Postings(column, key_type, keys, np.array([len(b) for b in bitmaps]), data))
    return unchecked_segment(index.storage, segment.space, segment.rows, *parts)


def checked(table: str, index: str) -> None:
    """Check that an index is sound, covers the head and answers as the data says, without a scan."""
    opened = tailbit.open(table, index=index)
    assert opened.verify().sound
    data = DeltaTable(table).to_pyarrow_table()
    for value in ("v0", "v1", "v2"):
        answer = opened.where(f"v = '{value}'")
        assert (answer.count(), answer.files_scanned) == (data["v"].to_pylist().count(value), 0)
    ledger = MetadataTable.open(index).state.ledger
    assert ledger is not None
    assert (ledger.state, ledger.covered) == ("complete", DeltaTable(table).version())


def rewrite(table: str | Path, kind: Kind[Any], change: Callable[[pa.Table], pa.Table]) -> None:
    """Commit the records of a kind changed, all in one file."""
    index = MetadataTable.open(f"{table}/_tailbit")
    paths = [file.path for file in index.state.files_of(kind)]
    rows = pa.concat_tables([kind.read(index.storage, path) for path in paths])
    index.commit([], [kind.write(index.storage, change(rows))], None, removes=paths)


def moved(column: str, key: bytes | None, bits: BitMap) -> BitMap:
    """Row 11 of `with_vectors` said to be v0, not v2: sums and disjointness stay, the value is wrong."""
    return {b"v0": bits | BitMap([11]), b"v2": bits - BitMap([11])}.get(key or b"", bits)


def _harmed(path: str, kind: str, harm: Callable[[Path], None]) -> None:
    harm(index_files(path, kind)[0])


def _doubled(rows: pa.Table) -> pa.Table:
    return rows.set_column(rows.column_names.index("delta"), "delta", pa.array([9] * len(rows), pa.int64()))


def _other_rows(rows: pa.Table) -> pa.Table:
    return rows.set_column(2, "bitmap", pa.array([BitMap([1, 2]).serialize()] * len(rows), pa.binary()))


WRONG: dict[str, Callable[[str], None]] = {
    **{
        f"{kind} {harm.__name__}": partial(_harmed, kind=kind, harm=harm)
        for kind in ("bitmap_index", "files", "value_counts", "hidden_rows", "ledger")
        for harm in (gone, flipped_pages)
    },
    "postings that overlap": lambda path: tamper(path, lambda c, key, bits: bits | BitMap([3])),
    "postings of other values": lambda path: tamper(path, lambda c, key, bits: BitMap([19])),
    "value counts of other rows": lambda path: rewrite(path, VALUE_COUNTS, _doubled),
    "hidden rows of others": lambda path: rewrite(path, HIDDEN_ROWS, _other_rows),
}
"""What makes the index of `with_vectors` wrong."""


def copied(path: str) -> str:
    """Copy a table without its index."""
    return str(shutil.copytree(path, f"{path} 2", ignore=shutil.ignore_patterns("_tailbit")))
