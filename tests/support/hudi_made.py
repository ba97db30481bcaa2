"""A small MERGE_ON_READ table of Hudi, made by hand: one base file, to which log files are added."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

import tailbit
from support.hudi_builder import META, BaseFile, HudiBuilder, avro_fields
from support.hudi_logs import Headers, Written, avro_block, delete_block

GROUP = "11111111-1111-4111-8111-111111111111-0"
SCHEMA = pa.schema([("key", pa.int64()), ("ts", pa.int64()), ("city", pa.string())])
Blocks = Callable[[str], Sequence[bytes]]
"""Makes the blocks of a log file from the requested time of their instant."""


class Made:
    """A table with one base file of the keys 0 to 4, all as of 5, in a folder."""

    def __init__(self, folder: Path, version: int = 9, **properties: str) -> None:
        said = {"hoodie.table.type": "MERGE_ON_READ", "hoodie.table.ordering.fields": "ts"}
        said |= {"hoodie.record.merge.mode": "EVENT_TIME_ORDERING", **properties}
        self.path, self.count = str(folder / "table"), 0
        self.builder = HudiBuilder(self.path, version, random.Random(1), **said)
        requested = self.builder.timeline.request("deltacommit")
        self.base: BaseFile = self.builder.data_file(rows(range(5), 5), requested, GROUP, "")[0]
        self._complete(requested, [self.base.name])

    def write(
        self, blocks: Blocks, *, completes: bool = True, log: str = "", named: Sequence[str] | None = None
    ) -> str:
        """Write a log file for a new instant; return its path. `named`: the files that the instant names."""
        requested = self.builder.timeline.request("deltacommit")
        self.count += 1
        instant = requested if self.builder.timeline.version >= 8 else self.base.requested
        name = log or f".{GROUP}_{instant}.log.{self.count}_0-{self.count}-1"
        (Path(self.path) / name).write_bytes(b"".join(blocks(requested)))
        if completes:
            self._complete(requested, [name] if named is None else named)
        return name

    def _complete(self, requested: str, names: Sequence[str]) -> None:
        stats = [{"fileId": GROUP, "path": name, "fileSizeInBytes": 9} for name in names]
        fields = avro_fields(SCHEMA, "hoodie.t.t_record")
        schema = {"type": "record", "name": "t_record", "fields": fields}
        metadata: dict[str, Any] = {
            "partitionToWriteStats": {"": stats},
            "compacted": False,
            "extraMetadata": {"schema": json.dumps(schema)},
            "operationType": "UPSERT",
        }
        self.builder.timeline.complete(requested, "deltacommit", metadata)

    def cities(self) -> dict[int, str]:
        """Return what a new reader finds, by key."""
        found = tailbit.open(self.path).where().read(["key", "city"]).to_pylist()
        assert len({row["key"] for row in found}) == len(found)
        return {row["key"]: row["city"] for row in found}


def rows(keys: Sequence[int], ts: int | None, city: str = "Oslo") -> pa.Table:
    """Return rows of keys as of one ordering value, with Hudi's column of the key."""
    count = len(keys)
    columns = [[str(key) for key in keys], list(keys), [ts] * count, [city] * count]
    return pa.table(columns, schema=pa.schema([(META[2], pa.string()), *SCHEMA]))


def updates(keys: Sequence[int], ts: int | None, city: str = "Lima", more: Headers | None = None) -> Blocks:
    """Return a maker of one block of rows."""
    table = rows(keys, ts, city)
    fields = avro_fields([pa.field(META[2], pa.string())], "t") + avro_fields(SCHEMA, "t")
    schema = {"type": "record", "name": "t_record", "fields": fields}
    return lambda instant: [avro_block(instant, schema, table.to_pylist(), more)]


def deletions(*pairs: tuple[str, Written | None], version: int = 3) -> Blocks:
    """Return a maker of one delete block."""
    return lambda instant: [delete_block(instant, pairs, version=version)]
