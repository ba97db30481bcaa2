"""The packed Iceberg tables: unpacked, and the rows that their writer's engine read at every state."""

from __future__ import annotations

import json
import tarfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

PACKED = Path(__file__).parents[1] / "iceberg_tables" / "packed"


def packs() -> list[str]:
    """The names of the packed tables."""
    return sorted(file.name.removesuffix(".tar.gz") for file in PACKED.glob("*.tar.gz"))


@dataclass(frozen=True)
class Unpacked:
    """A table with its recorded states: `head`, branches and tags by name, snapshots by id."""

    path: Path
    name: str

    @property
    def table(self) -> str:
        """What to open: the folder, or the metadata file of a table of a catalog."""
        given = self.path / "truth" / "open.txt"
        return str(self.path / given.read_text().strip()) if given.exists() else str(self.path)

    @property
    def states(self) -> list[str]:
        """The names of the recorded states."""
        names: list[str] = json.loads((self.path / "truth" / "names.json").read_text())
        return names

    def rows(self, state: str) -> pa.Table:
        return pq.read_table(self.path / "truth" / f"{self.states.index(state)}.parquet")


def unpack(name: str, folder: Path) -> Unpacked:
    """Unpack a table below a folder."""
    target = folder / name
    with tarfile.open(PACKED / f"{name}.tar.gz") as archive:
        archive.extractall(target, filter="data")
    return Unpacked(target, name)


def counted(rows: pa.Table) -> Counter[str]:
    """Count equal rows; a value is told by its text, so that NaN is equal to NaN."""
    return Counter(repr(sorted(_ordered(row).items())) for row in rows.to_pylist())


def _ordered(value: Any) -> Any:
    """Return a value in which the parts of variants, whose order writers choose, are in one order."""
    if isinstance(value, list):
        return [*map(_ordered, value)]
    if not isinstance(value, dict):
        return value
    items = sorted(value.items()) if value.keys() == {"metadata", "value"} else value.items()
    return {name: _ordered(inner) for name, inner in items}
