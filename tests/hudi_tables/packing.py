"""Packs of tables: small archives that keep the time at which each file changed, to the nanosecond."""

from __future__ import annotations

import gzip
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
