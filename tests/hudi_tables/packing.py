"""Packs of tables: small archives that keep the time at which each file changed, to the nanosecond."""

from __future__ import annotations

import gzip
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path

LEFT_OUT = (".temp", ".aux", "_SUCCESS")


def pack(folder: Path, target: Path) -> None:
    """Pack what is below a folder; checksum files of the local file system are no part of a table."""
    with (
        target.open("wb") as raw,
        gzip.GzipFile("", "wb", 9, raw, mtime=0) as stream,
        tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for file in kept(folder):
            entry = tarfile.TarInfo(file.relative_to(folder).as_posix())
            changed = file.stat()
            entry.size, entry.mode = changed.st_size, 0o644
            seconds, rest = divmod(changed.st_mtime_ns, 1_000_000_000)
            entry.mtime, entry.pax_headers = seconds, {"mtime": f"{seconds}.{rest:09d}"}
            with file.open("rb") as content:
                archive.addfile(entry, content)


def kept(folder: Path) -> Iterator[Path]:
    """List the files that a pack holds."""
    for file in sorted(folder.rglob("*")):
        parts = file.relative_to(folder).parts
        if file.is_file() and not file.name.endswith(".crc") and not any(part in LEFT_OUT for part in parts):
            yield file


def kinds_of(pack_file: Path) -> list[tuple[str, bool]]:
    """Return the action of each instant of a packed table, and whether it could be read at the end."""
    with tarfile.open(pack_file) as archive:
        content = archive.extractfile("truth/manifest.json")
        assert content is not None
        instants = json.load(content)["instants"]
    return [(instant["action"], instant["readable_at_end"]) for instant in instants]
