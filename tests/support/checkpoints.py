"""Log checkpoints by hand: their schema as Spark lays it out, and actions as their rows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

_TEXT, _INT, _LONG, _FLAG = pa.string(), pa.int32(), pa.int64(), pa.bool_()
_TEXTS, _NAMES = pa.map_(_TEXT, _TEXT), pa.list_(_TEXT)


def _struct(**types: pa.DataType) -> pa.DataType:
    return pa.struct(list(types.items()))


_VECTOR = _struct(storageType=_TEXT, pathOrInlineDv=_TEXT, offset=_INT, sizeInBytes=_INT, cardinality=_LONG)
_FORMAT = _struct(provider=_TEXT, options=_TEXTS)
_ADD = {
    "path": _TEXT,
    "partitionValues": _TEXTS,
    "size": _LONG,
    "modificationTime": _LONG,
    "dataChange": _FLAG,
    "deletionVector": _VECTOR,
}
_OTHERS = {
    "remove": _struct(path=_TEXT, deletionTimestamp=_LONG, dataChange=_FLAG),
    "metaData": _struct(
        id=_TEXT,
        format=_FORMAT,
        schemaString=_TEXT,
        partitionColumns=_NAMES,
        configuration=_TEXTS,
        createdTime=_LONG,
    ),
    "protocol": _struct(
        minReaderVersion=_INT, minWriterVersion=_INT, readerFeatures=_NAMES, writerFeatures=_NAMES
    ),
    "sidecar": _struct(path=_TEXT, sizeInBytes=_LONG, modificationTime=_LONG),
    "checkpointMetadata": _struct(version=_LONG),
}


def checkpoint_schema(stats_as_struct: bool = False) -> pa.Schema:
    """The Arrow schema of a log checkpoint, as Spark lays it out."""
    statistics = {"stats_parsed": _struct(numRecords=_LONG)} if stats_as_struct else {"stats": _TEXT}
    actions = {"txn": _struct(appId=_TEXT, version=_LONG), "add": _struct(**_ADD, **statistics), **_OTHERS}
    return pa.schema(list(actions.items()))


def checkpoint_row(action: Mapping[str, Any], stats_as_struct: bool) -> dict[str, Any]:
    """An action as a checkpoint row: maps as pairs, statistics parsed where wanted."""
    ((name, body),) = action.items()
    body = dict(body)
    for key in ("partitionValues", "configuration"):
        if key in body:
            body[key] = list(body[key].items())
    if "format" in body:
        body["format"] = {"provider": "parquet", "options": []}
    if stats_as_struct and name == "add":
        body["stats_parsed"] = json.loads(body.pop("stats", "null"))
    return {name: body}
