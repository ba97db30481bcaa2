"""What a parser made of a table's bytes beside another reading of the same bytes."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from typing import Any

from pyroaring import BitMap, BitMap64

from tailbit.tables.delta.checkpoint import CheckpointState
from tailbit.tables.delta.deletion_vectors import DeletionVector
from tailbit.tables.delta.paths import file_path
from tailbit.tables.model import FileSlice
from tailbit.tables.positions import PORTABLE_MAGIC


def json_actions(data: bytes) -> Iterator[tuple[str, Any]]:
    for line in data.split(b"\n"):
        line = line.removeprefix(b"\xef\xbb\xbf")
        if line.strip():
            yield from ((name, body) for name, body in json.loads(line).items() if isinstance(body, dict))


def decoded(path: str) -> str:
    """The path of a file by its URI; Spark and deltalake judge which URIs are one file, in other tests."""
    return file_path(path, "commit")


def logical_file(body: dict[str, Any]) -> str:
    """The path of a file action, with the unique id of its deletion vector behind a NUL."""
    vector = body.get("deletionVector") or {}
    if not vector.get("storageType"):
        return decoded(body["path"])
    offset = "" if vector.get("offset") is None else f"@{vector['offset']}"
    return f"{decoded(body['path'])}\0{vector['storageType']}{vector['pathOrInlineDv']}{offset}"


def same_add(slice_: FileSlice, body: dict[str, Any]) -> None:
    assert slice_.size == max(0, body.get("size") or 0)
    assert slice_.mtime == (body.get("modificationTime") or 0)
    assert slice_.path
    values = (body.get("partitionValues") or {}).items()
    texts = {k: v if v is None or isinstance(v, str) else json.dumps(v) for k, v in values}
    assert dict(slice_.partition) == texts
    vector = body.get("deletionVector") or {}
    told = vector.get("storageType") or None
    assert slice_.hidden is None or isinstance(slice_.hidden, DeletionVector)
    assert (slice_.hidden.storage_type if slice_.hidden else None) == told
    if slice_.hidden is not None:
        kept = (slice_.hidden.path_or_inline, slice_.hidden.offset, slice_.hidden.cardinality)
        assert kept == (vector["pathOrInlineDv"], vector.get("offset"), vector["cardinality"])


def same_files(state: CheckpointState, rows: list[dict[str, Any]]) -> None:
    """The files of a state are the add actions of rows: path, size, time, partition and hidden rows."""
    told = [row["add"] for row in rows if (row.get("add") or {}).get("path") is not None]
    found = state.files.to_pylist()
    assert len(found) == len(told)
    for slice_, add in zip(
        sorted(found, key=lambda f: f["path"]), sorted(told, key=lambda a: decoded(a["path"])), strict=True
    ):
        assert slice_["path"] == decoded(add["path"])
        assert slice_["size"] == max(0, add.get("size") or 0)
        assert slice_["mtime"] == (add.get("modificationTime") or 0)
        assert dict(slice_["partition"] or ()) == dict(add.get("partitionValues") or ())
        vector = add.get("deletionVector") or {}
        told_vector = vector.get("pathOrInlineDv") if vector.get("storageType") else None
        assert (slice_["hidden"] or {}).get("pathOrInlineDv") == told_vector


def same_rows(rows: BitMap, payload: bytes, count: int) -> None:
    assert len(rows) == count
    if struct.unpack_from("<i", payload) == (PORTABLE_MAGIC,):
        assert list(rows) == list(BitMap64.deserialize(payload[4:]))
    else:
        (size,) = struct.unpack_from("<i", payload, 8) if count else (0,)
        assert not count or list(rows) == list(BitMap.deserialize(payload[12 : 12 + size]))
