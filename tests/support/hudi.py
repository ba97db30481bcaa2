"""Real Hudi tables, packed when they were made, and Spark's rows right after each of their instants."""

from __future__ import annotations

import json
import os
import tarfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

PACKED = Path(__file__).parents[1] / "hudi_tables" / "packed"


@dataclass(frozen=True)
class HudiInstant:
    """A completed instant of a packed table, in the order of completion."""

    requested: str
    completed: str | None
    """17 digits; table version 6 does not write them down: there the completed file's mtime tells."""
    action: str
    rows_file: str | None
    readable_at_end: bool
    """Whether neither the cleaner took its files nor a rollback or a restore took it back."""


@dataclass(frozen=True)
class HudiTable:
    """A packed table that lies unpacked in a folder."""

    name: str
    kind: str
    """`cow` or `mor`."""
    version: int
    """The version of Hudi's table format."""
    instants: tuple[HudiInstant, ...]
    notes: str
    folder: Path

    @property
    def path(self) -> str:
        """The table's root: the folder that holds .hoodie."""
        return str(self.folder / "table")

    def rows(self, instant: HudiInstant) -> pa.Table:
        """Read the rows that Spark read right after an instant had completed, with Hudi's own columns."""
        assert instant.rows_file is not None, f"{self.name} at {instant.requested}: Spark read no rows"
        return pq.read_table(self.folder / "truth" / instant.rows_file)

    @property
    def readable(self) -> tuple[HudiInstant, ...]:
        """The instants that can still be read."""
        return tuple(instant for instant in self.instants if instant.readable_at_end)


def packed_names(kind: str = "") -> list[str]:
    return sorted(pack.name.removesuffix(".tar.gz") for pack in PACKED.glob(f"{kind}*.tar.gz"))


@cache
def manifest(name: str) -> dict[str, Any]:
    """Read what a pack says of its table, without unpacking the table."""
    with tarfile.open(PACKED / f"{name}.tar.gz") as archive:
        content = archive.extractfile("truth/manifest.json")
        assert content is not None
        described: dict[str, Any] = json.load(content)
        return described


def unpack(name: str, folder: Path) -> HudiTable:
    """Unpack a table below a folder; each file changed when it did, to the nanosecond."""
    with tarfile.open(PACKED / f"{name}.tar.gz") as archive:
        for entry in archive:
            content = archive.extractfile(entry)
            assert content is not None, f"{name}: {entry.name} is no file"
            target = folder / entry.name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content.read())
            seconds, _, rest = entry.pax_headers["mtime"].partition(".")
            changed = int(seconds) * 1_000_000_000 + int(rest or 0)
            os.utime(target, ns=(changed, changed))
    described = manifest(name)
    instants = tuple(
        HudiInstant(i["requested"], i["completed"], i["action"], i["rows"], i["readable_at_end"])
        for i in described["instants"]
    )
    return HudiTable(
        name, described["kind"], described["table_version"], instants, described["notes"], folder
    )
