"""Small indexes made by hand: records, ledgers, settings, and segments over made-up files."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from tailbit.index.index_files import write_index_file
from tailbit.index.kinds.hidden_rows import HIDDEN_ROWS
from tailbit.index.kinds.settings import FORMAT
from tailbit.index.kinds.value_counts import VALUE_COUNTS
from tailbit.index.model import Definition, FileRecord, IndexFile, Ledger, LedgerState, Settings
from tailbit.index.postings.gaps import none
from tailbit.index.postings.layout import NAME, SCHEMA
from tailbit.index.postings.postings import Postings, write_row_groups, write_segment
from tailbit.index.store.table import MetadataTable
from tailbit.tables.model import Fingerprint
from tailbit.tables.storage import NO_OPTIONS, LocalStorage, Storage, StorageOptions

Values = Sequence[bytes | None]


def settings(*columns: str, version: int = 1) -> Settings:
    indexed = tuple(Definition.plain(name, name, "binary", "binary") for name in columns or ("c",))
    return Settings(
        version=version, index_id=uuid.uuid4().hex, format=FORMAT, definitions=indexed, options={"a": "b"}
    )


def ledger(version: int = 0, state: str = "complete", **fields: Any) -> Ledger:
    values: dict[str, Any] = {
        "seq": 0,
        "round": 1,
        "lineage": 1,
        "version": version,
        "state": LedgerState(state),
        "covered": version if state == "complete" else None,
        "fingerprint": Fingerprint(version, "ab" * 32, "table"),
        "uncounted": 0,
        "settings_version": 1,
        "query_id": "q",
        "batch_id": version,
        "committed_at": 1_700_000_000_000,
    }
    return Ledger(**{**values, **fields})


def record(path: str, rows: int = 10, **fields: Any) -> FileRecord:
    values: dict[str, Any] = {
        "path": path,
        "size": 100,
        "mtime": 1,
        "rows": rows,
        "footer": "f" * 32,
        "partition": {"p": "1"},
        "space": None,
        "base": None,
        "built": (),
        "counted": True,
        "hidden": "",
        "lineage": 1,
        "entered": 0,
        "left": None,
        "error": None,
        "seq": 0,
    }
    return FileRecord(**{**values, **fields})


def new_index(path: str, *columns: str, options: StorageOptions = NO_OPTIONS) -> MetadataTable:
    return MetadataTable.create(path, settings(*columns), options=options)


def segment(index: MetadataTable, space: str, columns: Mapping[str, Values]) -> IndexFile:
    """A segment over the values of one row space, position by position."""
    postings = []
    for column, values in sorted(columns.items()):
        at: dict[bytes | None, list[int]] = {}
        for position, value in enumerate(values):
            at.setdefault(value, []).append(position)
        keys = sorted(at, key=lambda key: (key is not None, key or b""))
        bitmaps = [BitMap(at[key]) for key in keys]
        postings.append(
            Postings(
                column,
                "binary",
                pa.array(keys, pa.binary()),
                np.array([len(b) for b in bitmaps], dtype=np.int64),
                pa.array([b.serialize() for b in bitmaps], pa.binary()),
            )
        )
    rows = max(map(len, columns.values()))
    return write_segment(index.storage, space, rows, postings)


def counts(index: MetadataTable, column: str, deltas: Mapping[bytes | None, int]) -> IndexFile:
    keys = sorted(deltas, key=lambda key: (key is not None, key or b""))
    table = pa.table(
        {
            "column": [column] * len(keys),
            "key_type": ["binary"] * len(keys),
            "key": pa.array(keys, pa.binary()),
            "delta": [deltas[key] for key in keys],
        }
    )
    return VALUE_COUNTS.write(index.storage, table)


def hidden(index: MetadataTable, rows: Mapping[str, Iterable[int]]) -> IndexFile:
    bitmaps = {identity: BitMap(rows[identity]) for identity in sorted(rows)}
    table = pa.table(
        {
            "id": list(bitmaps),
            "cardinality": [len(b) for b in bitmaps.values()],
            "bitmap": pa.array([b.serialize() for b in bitmaps.values()], pa.binary()),
        }
    )
    return HIDDEN_ROWS.write(index.storage, table)


def storage(path: str) -> Storage:
    return LocalStorage(path)


def unchecked_segment(storage: Storage, space: str, rows: int, *parts: Postings) -> IndexFile:
    """A segment as it is given, of sound or broken bitmaps: what a release without the check has left."""
    schema = SCHEMA.with_metadata({"tailbit.rows": str(rows)})

    def table(part: Postings) -> pa.Table:
        texts = [pa.array([text] * len(part.keys)) for text in (space, part.column, part.key_type)]
        sparse = part.sparse or none(len(part.keys))
        rows = [part.keys, pa.array(part.cardinality), part.bitmaps, *sparse.columns]
        return pa.table([*texts, *rows], schema=schema)

    groups = [table(part) for part in parts]
    return write_index_file(storage, NAME, space, lambda to: write_row_groups(to, schema, groups))
