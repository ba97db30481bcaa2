"""The pointer of an Iceberg table: which of its metadata files is the current one.

Tables of a Hadoop catalog number their metadata files. The hint is written after the commit and may stay
behind, so files with greater numbers are looked for by name. A table of another catalog has metadata files
with a uuid in their names, of which only the catalog knows the current one. Source: Iceberg specification,
File System Tables; HadoopTableOperations.
"""

from __future__ import annotations

import re

from tailbit.base.errors import NotATableError
from tailbit.tables.iceberg.metadata import TableMetadata, parse_metadata
from tailbit.tables.iceberg.words import LOG, WORDS
from tailbit.tables.storage import SMALL, Stat, Storage

HINT = f"{LOG}/version-hint.text"
_NUMBERED = re.compile(r"v([0-9]{1,18})(?:\.gz\.metadata\.json|\.metadata\.json(?:\.gz)?)")
_SUFFIXES = (".metadata.json", ".gz.metadata.json", ".metadata.json.gz")
_OF_CATALOG = "it is a table of a catalog, and only the catalog knows which metadata file is the current one"
_GIVE_FILE = "Give the path of its current metadata file ({example}) for a look at that state."
_FOLLOWED = 1_000_000


def is_metadata_file(path: str) -> bool:
    """Return whether a path is that of a metadata file."""
    return path.endswith((".metadata.json", ".metadata.json.gz"))


class Pointer:
    """The current metadata file of a table, parsed again only if it is another file.

    `fixed`: the name of the metadata file that was given in place of the table's folder; it stays current.
    """

    def __init__(self, storage: Storage, fixed: str = "") -> None:
        self._storage, self._fixed = storage, fixed
        self._newest_look: tuple[Stat | None, TableMetadata] | None = None

    def look(self) -> TableMetadata:
        """Return the metadata that is current now. Cost: a few stats if nothing has changed.

        Raises:
            NotATableError: there is no metadata file, or a catalog would have to say which is current.
            MalformedLogError, UnsupportedFeatureError: as `parse_metadata` does.
        """
        last_look = self._newest_look
        if last_look is not None:
            stat = self._storage.stat(last_look[1].file)
            newer = None if self._fixed or stat is None else self._newer(last_look[1].file)
            if stat == last_look[0] and stat is not None and newer is None:
                return last_look[1]
            name = newer if stat is not None and newer is not None else self._find()
        else:
            name = self._find()
        while True:
            try:
                data, stat = self._storage.read_stated(name)
                break
            except FileNotFoundError:
                # A commit may delete old metadata files, so a file that is gone has successors.
                listed = self._listed()
                if listed is None or listed == name:
                    raise self._none("its metadata file is gone", "") from None
                name = listed
        metadata = parse_metadata(data, name, self._storage.root)
        self._newest_look = (stat, metadata)
        return metadata

    def _find(self) -> str:
        """Return the name of the current metadata file."""
        if self._fixed:
            if self._storage.stat(self._fixed) is None:
                raise self._none(f"there is no file {self._fixed}", "Give the path of a metadata file.")
            return self._fixed
        try:
            hint = self._storage.read(HINT, SMALL).decode("utf-8", "replace").strip()
        except FileNotFoundError:
            hint = ""
        name = self._named(hint) if hint else None
        name = self._listed() if name is None else name
        if name is None:
            raise self._without()
        return self._newest(name)

    def _named(self, hint: str) -> str | None:
        """Return the metadata file that a hint names, by its number or its name; None if there is none."""
        if "/" in hint or hint.startswith("."):
            return None
        if hint.isdecimal():
            return self._numbered(int(hint))
        name = f"{LOG}/{hint if is_metadata_file(hint) else f'{hint}.metadata.json'}"
        return None if self._storage.stat(name) is None else name

    def _newest(self, name: str) -> str:
        """Return the name of the last metadata file of those that follow a name without a gap."""
        for _ in range(_FOLLOWED):
            newer = self._newer(name)
            if newer is None:
                break
            name = newer
        return name

    def _newer(self, name: str) -> str | None:
        match = _NUMBERED.fullmatch(name.rpartition("/")[2])
        following = None if match is None else self._numbered(int(match[1]) + 1)
        return None if following is None else self._newest(following)

    def _numbered(self, number: int) -> str | None:
        """Return the metadata file of a number; None if there is none. Cost: at most three stats."""
        names = [f"{LOG}/v{number}{suffix}" for suffix in _SUFFIXES]
        self._storage.look_at(names)
        return next((name for name in names if self._storage.stat(name) is not None), None)

    def _listed(self) -> str | None:
        """Return the metadata file with the greatest number. Cost: a listing."""
        matches = [m for e in self._storage.list(LOG) if (m := _NUMBERED.fullmatch(e.name))]
        newest = max(matches, key=lambda match: int(match[1]), default=None)
        return None if newest is None else f"{LOG}/{newest[0]}"

    def _without(self) -> NotATableError:
        names = [entry.name for entry in self._storage.list(LOG) if is_metadata_file(entry.name)]
        if not names:
            return self._none(f"it has no {HINT} and no numbered metadata file", "")
        example = f"{self._storage.root}/{LOG}/{names[-1]}"
        return self._none(_OF_CATALOG, _GIVE_FILE.format(example=example), is_there=True)

    def _none(self, reason: str, hint: str, is_there: bool = False) -> NotATableError:
        """Return the error for a folder without a table; `is_there`: with one that cannot be read so."""
        is_there = is_there or bool(self._fixed)
        return NotATableError(
            path=self._storage.root, reason=reason, kind=WORDS.kind, log=LOG, hint=hint, is_there=is_there
        )
