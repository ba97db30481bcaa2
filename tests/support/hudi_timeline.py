"""The timeline of a hand-made Hudi table: files of instants as Hudi writes them, its history, its properties.

Avro schemas are those that Hudi wrote into the packed tables.
"""

from __future__ import annotations

import io
import json
import os
import random
import tarfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from functools import cache
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

from support.hudi import PACKED

Metadata = Mapping[str, Any]
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
START = datetime(2025, 1, 1, tzinfo=timezone.utc)
SAMPLES = {
    "commit": "cow_v9",
    "deltacommit": "mor_v9",
    "replacecommit": "cow_v9",
    "clean": "cow_v9_cleaned",
    "rollback": "cow_v9_rolled_back",
    "restore": "cow_v8_restored",
    "savepoint": "cow_v8_restored",
}
HISTORY = pa.schema(
    [
        ("instantTime", pa.string()),
        ("completionTime", pa.string()),
        ("action", pa.string()),
        ("metadata", pa.binary()),
        ("plan", pa.binary()),
        pa.field("version", pa.int32(), nullable=False),
    ]
)


@cache
def written_schema(action: str) -> Any:
    """Return the Avro schema by which Hudi wrote the completed instants of an action."""
    with tarfile.open(PACKED / f"{SAMPLES[action]}.tar.gz") as archive:
        [name, *_] = [n for n in archive.getnames() if "_" in Path(n).name and n.endswith(f".{action}")]
        content = archive.extractfile(name)
        assert content is not None
        return fastavro.reader(io.BytesIO(content.read())).writer_schema


def in_avro(action: str, metadata: Metadata) -> bytes:
    """Encode the metadata of an instant as an Avro container."""
    out = io.BytesIO()
    fastavro.writer(out, written_schema(action), [metadata])
    return out.getvalue()


@dataclass(frozen=True)
class Instant:
    """A completed instant. `changed_ns`: when its completed file changed, in nanoseconds since 1970."""

    requested: str
    completed: str
    action: str
    metadata: bytes
    plan: bytes
    changed_ns: int


class HudiTimeline:
    """The folder .hoodie of a table of version 6, 8 or 9, and the clock of its writers: it always rises."""

    def __init__(self, root: Path, version: int, rng: random.Random, name: str = "t") -> None:
        self.root, self.version, self.rng, self.name = root, version, rng, name
        self.hoodie = root / ".hoodie"
        self.active = self.hoodie / "timeline" if version >= 8 else self.hoodie
        self.history = self.active / "history"
        self.instants: list[Instant] = []
        self.archived: list[Instant] = []
        self._now, self._runs, self._manifest = START, list[str](), 0
        self.active.mkdir(parents=True)

    def properties(self, **more: str) -> None:
        """Write hoodie.properties, escaped as Java does."""
        known = {
            "hoodie.table.name": self.name,
            "hoodie.table.type": "COPY_ON_WRITE",
            "hoodie.table.version": str(self.version),
            "hoodie.timeline.layout.version": "2" if self.version >= 8 else "1",
            "hoodie.table.base.file.format": "PARQUET",
            "hoodie.table.timeline.timezone": "UTC",
            "hoodie.populate.meta.fields": "true",
            "hoodie.datasource.write.drop.partition.columns": "false",
            "hoodie.table.checksum": str(zlib.crc32(f".{self.name}".encode())),
        } | more
        escaped = (f"{key}={value.replace(':', chr(92) + ':')}" for key, value in known.items())
        text = "\n".join(["#Properties saved on 2025-01-01T00:00:00Z", *escaped, ""])
        (self.hoodie / "hoodie.properties").write_text(text)

    def tick(self) -> str:
        """Let time go on; return the moment as Hudi writes it."""
        self._now += timedelta(milliseconds=self.rng.randint(1, 5000))
        return f"{self._now:%Y%m%d%H%M%S}{self._now.microsecond // 1000:03d}"

    @property
    def now_ms(self) -> int:
        return (self._now - EPOCH) // timedelta(milliseconds=1)

    def request(self, action: str = "commit", plan: bytes = b"") -> str:
        """Request an instant and begin it: from here it is pending."""
        requested = self.tick()
        (self.active / f"{requested}.{action}.requested").write_bytes(plan)
        (self.active / self._inflight(requested, action)).write_bytes(b"")
        return requested

    def _inflight(self, requested: str, action: str) -> str:
        return f"{requested}.inflight" if action == "commit" else f"{requested}.{action}.inflight"

    def complete(self, requested: str, action: str, metadata: Metadata, plan: bytes = b"") -> Instant:
        completed = self.tick()
        as_json = self.version < 8 and action in ("commit", "deltacommit", "replacecommit")
        body = json.dumps(metadata, indent=1).encode() if as_json else in_avro(action, metadata)
        changed_ns = self.now_ms * 1_000_000 + self.rng.randrange(1_000_000)
        instant = Instant(requested, completed, action, body, plan, changed_ns)
        file = self.active / self.file_of(instant)
        file.write_bytes(body)
        os.utime(file, ns=(changed_ns, changed_ns))
        self.instants.append(instant)
        return instant

    def file_of(self, instant: Instant) -> str:
        """Name the completed file of an instant."""
        times = f"{instant.requested}_{instant.completed}" if self.version >= 8 else instant.requested
        return f"{times}.{instant.action}"

    def at_once(self, action: str, metadata: Metadata, plan: bytes = b"") -> Instant:
        """Request and complete an instant of a table service."""
        return self.complete(self.request(action, plan), action, metadata, plan)

    def forget(self, instant: Instant) -> None:
        """Delete the files of a completed instant, as a rollback does."""
        self.instants.remove(instant)
        self._delete(instant)

    def drop_pending(self, requested: str, action: str = "commit") -> None:
        """Delete the files of an instant that never completed."""
        for name in (f"{requested}.{action}.requested", self._inflight(requested, action)):
            (self.active / name).unlink(missing_ok=True)

    def _delete(self, instant: Instant) -> None:
        (self.active / self.file_of(instant)).unlink()
        self.drop_pending(instant.requested, instant.action)

    def archive(self, instants: Sequence[Instant]) -> None:
        """Move instants to the history: a run of level 0; of four runs one of level 1 is made."""
        assert self.version >= 8, "the archive of version 6 is a log file, which is not written here"
        self._write_run(sorted(instants, key=lambda instant: instant.requested), 0)
        for instant in instants:
            self.instants.remove(instant)
            self.archived.append(instant)
            self._delete(instant)
        if len(self._runs) >= 4:
            everything = sorted(self.archived, key=lambda instant: instant.requested)
            self._runs = []
            self._write_run(everything, 1)

    def _write_run(self, instants: Sequence[Instant], level: int) -> None:
        self.history.mkdir(exist_ok=True)
        name = f"{instants[0].requested}_{instants[-1].requested}_{level}.parquet"
        columns = [
            [instant.requested for instant in instants],
            [instant.completed for instant in instants],
            [instant.action for instant in instants],
            [instant.metadata for instant in instants],
            [instant.plan for instant in instants],
            [1] * len(instants),
        ]
        pq.write_table(pa.table(columns, schema=HISTORY), self.history / name)
        self._runs.append(name)
        self._manifest += 1
        files = [{"fileName": run, "fileLen": (self.history / run).stat().st_size} for run in self._runs]
        (self.history / f"manifest_{self._manifest}").write_text(json.dumps({"files": files}, indent=2))
        (self.history / "_version_").write_text(str(self._manifest))
