"""The parsers of a table's bytes as functions of bytes, for the fuzzer and for the tests.

A target passes bytes to one parser. A TailbitError ends it in peace; any other exception is a finding. Where
the parser accepts the bytes, its answer is compared with another reading of the same bytes: plain `json`,
pyarrow's rows as Python objects, Roaring treemaps, `datetime`.
"""

from __future__ import annotations

import json
import random
import struct
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from support.byte_answers import json_actions, logical_file, same_add, same_files, same_rows
from support.byte_edits import edited, edited_parquet, edited_vector
from support.byte_readings import adds_of_parquet, column_of_parquet, partition_reading, z85_reading
from support.byte_seeds import Seeds
from support.byte_targets_hudi import (
    HudiBytes,
    archive_seeds,
    edited_log,
    history_seeds,
    instant_seeds,
    log_seeds,
    packed_files,
    timeline_seeds,
)
from support.vectors import encode_z85
from tailbit.errors import TailbitError
from tailbit.tables import open_table
from tailbit.tables.delta.actions import parse_actions
from tailbit.tables.delta.checkpoint import CheckpointState, read_checkpoint
from tailbit.tables.delta.deletion_vectors import DeletionVector
from tailbit.tables.delta.log import LogCheckpoint
from tailbit.tables.delta.schema import parse_schema
from tailbit.tables.delta.statistics import DeltaStatistics
from tailbit.tables.delta.words import LOG
from tailbit.tables.model import Column, DataType
from tailbit.tables.parquet.data_file import open_data_file, read_columns
from tailbit.tables.partition_values import partition_array
from tailbit.tables.storage import LocalStorage

Edit = Callable[[bytes, random.Random], bytes]
PARTITION_TYPES = tuple(
    DataType(name) if name != "decimal" else DataType(name, 20, 3)
    for name in (
        "string binary boolean byte short integer long float double decimal date timestamp timestamp_ntz"
    ).split()
)
BOUNDED = ("long", "double", "decimal", "string", "date", "timestamp")
DATA_COLUMNS = (
    Column(("a",), ("a",), DataType("long")),
    Column(("s",), ("s",), DataType("string")),
    Column(("n", "x"), ("n", "x"), DataType("date")),
)
VECTOR = uuid.UUID(int=7)
HEAD = struct.Struct("<III")


@dataclass(frozen=True)
class Target:
    """One parser under the fuzzer. `run` raises where a promise is broken; `seeds` are whole inputs."""

    name: str
    run: Callable[[bytes], bool]
    seeds: Callable[[], list[bytes]]
    edit: Edit = edited


@dataclass
class Ground:
    """A folder for the files that parsers read; every target writes its input over the last one."""

    folder: Path
    seeds: Seeds = field(init=False)

    def __post_init__(self) -> None:
        self.seeds = Seeds(self.folder)
        (self.folder / "free" / LOG / "_sidecars").mkdir(parents=True, exist_ok=True)
        self.storage = LocalStorage(str(self.folder / "free"))

    def put(self, name: str, data: bytes) -> None:
        (self.folder / "free" / name).write_bytes(data)

    def targets(self) -> dict[str, Target]:
        seeds = self.seeds
        found = [
            Target("commit", self.commit, seeds.commits),
            Target("hint", self.hint, seeds.hints),
            Target("checkpoint", self.checkpoint, seeds.checkpoints, edited_parquet),
            Target("manifest", self.manifest, seeds.manifests),
            Target("sidecar", self.sidecar, seeds.sidecars, edited_parquet),
            Target("vector_file", self.vector_file, seeds.vector_files, edited_vector),
            Target("vector_inline", self.vector_inline, seeds.vectors_inline),
            Target("partition_value", self.partition_value, seeds.partition_values),
            Target("schema", self.schema, seeds.schemas),
            Target("statistics", self.statistics, seeds.statistics),
            Target("data_file", self.data_file, seeds.data_files, edited_parquet),
        ]
        return {target.name: target for target in (*found, *self._of_hudi())}

    def _of_hudi(self) -> list[Target]:
        hudi = HudiBytes(self.storage)
        return [
            Target(
                "hudi_properties", peaceful(hudi.properties), lambda: packed_files("cow_v9", ".properties")
            ),
            Target("hudi_instant", peaceful(hudi.instant), instant_seeds),
            Target("hudi_timeline", peaceful(hudi.timeline), timeline_seeds),
            Target("hudi_history", peaceful(hudi.history), history_seeds, edited_parquet),
            Target(
                "hudi_manifest",
                peaceful(hudi.manifest),
                lambda: packed_files("cow_v9_archived", "/manifest_"),
            ),
            Target(
                "hudi_archive",
                peaceful(hudi.archive),
                archive_seeds,
            ),
            Target("hudi_log", peaceful(hudi.log), log_seeds, edited_log),
        ]

    def commit(self, data: bytes) -> bool:
        """The actions of a commit are those that plain JSON finds."""
        with _Peace() as peace:
            found = parse_actions(data, "commit")
        if peace.refused:
            return False
        adds, removes = {}, set()
        for name, body in json_actions(data):
            if name == "add":
                adds[logical_file(body)] = body
            elif name == "remove":
                removes.add(logical_file(body))
        assert found.adds.keys() == adds.keys(), "adds"
        assert found.removes.keys() == removes, "removes"
        for key, slice_ in found.adds.items():
            same_add(slice_, adds[key])
        return True

    def hint(self, data: bytes) -> bool:
        """Whatever `_last_checkpoint`, a `.crc` or a compaction holds, the table stays as it is."""
        path, expected = self.seeds.table()
        for name in ("_last_checkpoint", f"{2:020d}.crc", f"{1:020d}.{2:020d}.compacted.json"):
            (Path(path) / LOG / name).write_bytes(data)
        assert open_table(path).snapshot().files.paths.to_pylist() == expected
        return True

    def checkpoint(self, data: bytes) -> bool:
        """The files of a Parquet checkpoint are those that pyarrow's rows name."""
        name = f"{LOG}/checkpoint.parquet"
        self.put(name, data)
        state = self._state(name)
        if state is not None:
            same_files(state, adds_of_parquet(data))
        return state is not None

    def sidecar(self, data: bytes) -> bool:
        """The same of a sidecar, read by way of its manifest."""
        self.put(f"{LOG}/_sidecars/s.parquet", data)
        self.put(f"{LOG}/manifest.json", self.seeds.manifests()[0])
        state = self._state(f"{LOG}/manifest.json")
        if state is not None:
            same_files(state, adds_of_parquet(data))
        return state is not None

    def manifest(self, data: bytes) -> bool:
        """The files of a JSON manifest are its own and those of the sidecars that it names."""
        side = self.seeds.sidecars()[0]
        self.put(f"{LOG}/_sidecars/s.parquet", side)
        self.put(f"{LOG}/manifest.json", data)
        state = self._state(f"{LOG}/manifest.json")
        if state is None:
            return False
        actions = list(json_actions(data))
        rows = [{"add": body} for name, body in actions if name == "add"]
        count = sum(name == "sidecar" for name, _ in actions)
        own = {row["add"]["path"]: row for row in rows}
        same_files(state, [*own.values(), *(adds_of_parquet(side) * count)])
        return True

    def _state(self, name: str) -> CheckpointState | None:
        with _Peace() as peace:
            state = read_checkpoint(self.storage, LogCheckpoint(2, (name,)))
            stats = state.late_stats() if state.late_stats else None
            late = len(state.files) - state.files["origin"].null_count
            assert late == (0 if stats is None else len(stats))
        return None if peace.refused else state

    def vector_file(self, data: bytes) -> bool:
        """A stored vector hides what a Roaring treemap of its bytes holds. Offset, size and count lead."""
        if len(data) < HEAD.size:
            return False
        offset, size, count = HEAD.unpack_from(data)
        name = encode_z85(VECTOR.bytes)
        self.put(f"deletion_vector_{VECTOR}.bin", data[HEAD.size :])
        with _Peace() as peace:
            rows = DeletionVector("u", name, offset, size, count).read(self.storage)
        if not peace.refused:
            start = HEAD.size + offset + 4
            same_rows(rows, data[start : start + size], count)
        return not peace.refused

    def vector_inline(self, data: bytes) -> bool:
        """The same of an inline vector; size and count lead its text."""
        if len(data) < 8:
            return False
        size, count = struct.unpack_from("<II", data)
        text = data[8:].decode("latin-1")
        with _Peace() as peace:
            rows = DeletionVector("i", text, None, size, count).read(self.storage)
        if not peace.refused:
            same_rows(rows, z85_reading(text)[:size], count)
        return not peace.refused

    def partition_value(self, data: bytes) -> bool:
        """A partition value is what Python's own readers make of its text; the first byte is its type."""
        type_ = PARTITION_TYPES[(data or b"\0")[0] % len(PARTITION_TYPES)]
        text = data[1:].decode(errors="replace")
        with _Peace() as peace:
            found = partition_array(Column(("p",), ("p",), type_, partition=True), text, 2)
        if not peace.refused:
            assert len(found) == 2
            partition_reading(type_, text, found[0])
        return not peace.refused

    def schema(self, data: bytes) -> bool:
        """The columns of a schema are the fields that plain JSON finds, in every mapping mode."""
        text = data.decode(errors="replace")
        accepted = [self._schema(text, mode) for mode in ("none", "name", "id")]
        return any(accepted)

    def _schema(self, text: str, mode: str) -> bool:
        with _Peace() as peace:
            found = parse_schema(text, (), {"delta.columnMapping.mode": mode}, "schema")
        if peace.refused:
            return False
        assert [c.name[0] for c in found.columns] == [f["name"] for f in json.loads(text)["fields"]]
        for leaf in found.leaves():
            assert len(leaf.name) == len(leaf.physical) > 0
        with _Peace():
            assert len(found.arrow()) == len(found.columns)
        return True

    def statistics(self, data: bytes) -> bool:
        """Bounds are never tighter than what plain JSON finds."""
        text = data.decode(errors="replace")
        accepted = [self._bounds(text, DataType(name, 20, 3)) for name in BOUNDED]
        return any(accepted)

    def _bounds(self, text: str, type_: DataType) -> bool:
        with _Peace() as peace:
            found = DeltaStatistics(text).bounds(Column(("a",), ("a",), type_))
        if peace.refused or found is None:
            return False
        stats = json.loads(text)
        assert found.null_count is None or found.null_count == stats["nullCount"]["a"]
        assert found.num_records is None or found.num_records == stats["numRecords"]
        if type_.name in ("long", "string"):
            assert found.min is None or found.min <= stats["minValues"]["a"]
            assert found.max is None or found.max >= stats["maxValues"]["a"]
        if type_.name == "double":
            assert found.min is None or found.min <= float(stats["minValues"]["a"])
        return True

    def data_file(self, data: bytes) -> bool:
        """The columns of a data file are those that pyarrow's rows hold."""
        self.put("data.parquet", data)
        with _Peace() as peace:
            file = open_data_file(self.storage, "data.parquet")
            table = read_columns(file, DATA_COLUMNS)
        if peace.refused:
            return False
        for column in ("a", "s"):
            told = column_of_parquet(data, column)
            found = table[column].cast(pa.binary()) if column == "s" else table[column]
            assert told is None or found.to_pylist() == told, column
        return True


def peaceful(run: Callable[[bytes], bool]) -> Callable[[bytes], bool]:
    """A target that a TailbitError may end."""

    def peacefully(data: bytes) -> bool:
        accepted = False
        with _Peace():
            accepted = run(data)
        return accepted

    return peacefully


class _Peace:
    """A block that a TailbitError may end: then `refused` is true."""

    refused = False

    def __enter__(self) -> _Peace:
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> bool:
        self.refused = isinstance(error, TailbitError)
        if self.refused:
            assert getattr(error, "hint", "")
            assert str(error)
        return self.refused
