"""The statements of each index, kept beside the lease: what is lost with the folder of an index is known.

An application makes an index that is gone anew from its configuration, which may say less than the index had.
Cost: a read when a table is opened, and a write when its indexes have changed.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from contextlib import suppress

from tailbit.base.dataclass import dataclass
from tailbit.base.errors import StatementError, TailbitError
from tailbit.index.maintenance.definitions import find, statements_of
from tailbit.index.model import Settings
from tailbit.index.sql.ddl.parser import Scripted, parse_script, script_of
from tailbit.index.sql.ddl.statements import TableReference
from tailbit.tables.storage import SMALL, Storage
from tailbit.tables.table import Table

FOLDER = "indexes"
"""The folder of the files with statements, below that of the lease."""

_INDEX, _LOST = "-- index ", "-- lost with an earlier index:"


@dataclass(frozen=True)
class Memory:
    """What is remembered of the indexes of a table: the id of the index, its statements, and what is lost."""

    index_id: str = ""
    known: tuple[Scripted, ...] = ()
    lost: tuple[Scripted, ...] = ()

    def now(self, settings: Settings, known: Sequence[Scripted]) -> Memory:
        """Return the memory of an index with these settings and statements.

        What the same index no longer has was dropped; what another one in its place lacks is lost, until it
        has an index of that name again.
        """
        before = self.lost if self.index_id in ("", settings.index_id) else (*self.known, *self.lost)
        lost = tuple(s for s in before if find(settings.definitions, s.statement.name) is None)
        return Memory(settings.index_id, tuple(known), lost)

    @property
    def lost_names(self) -> tuple[str, ...]:
        """Return the names of the indexes that are lost."""
        return tuple(dict.fromkeys(scripted.statement.name for scripted in self.lost))

    def text(self) -> str:
        """Return the memory as a script, which creates all of it again."""
        lost = f"{_LOST}\n{script_of(self.lost)}" if self.lost else ""
        # The first part ends in UTC, in which each part begins.
        return f"{_INDEX}{self.index_id}\n{script_of(self.known)}SET TIME ZONE 'UTC';\n{lost}"

    @classmethod
    def of(cls, text: str) -> Memory:
        """Parse what `text` returned."""
        first, _, rest = text.partition("\n")
        statements, _, lost = rest.partition(f"{_LOST}\n")
        scripts = (tuple(parse_script(script)) for script in (statements, lost))
        return cls(first.removeprefix(_INDEX), *scripts)


class IndexMemory:
    """The memory of the indexes of one table, in a file that the application writes and people can use."""

    def __init__(self, place: Storage, id_: str, table: Table) -> None:
        """Read what an earlier run wrote; a file that is none of ours is replaced."""
        self._place, self._name, self._table = place, f"{FOLDER}/{id_}.sql", table
        self._memory, self._written = Memory(), ""
        self._seen: tuple[str, int] | None = None
        with suppress(OSError, TailbitError, StatementError, UnicodeDecodeError):
            self._written = place.read(self._name, SMALL).decode("utf-8")
            self._memory = Memory.of(self._written)

    @property
    def lost(self) -> tuple[str, ...]:
        """Return the names of the indexes that were lost with an earlier index, and are not there again."""
        return self._memory.lost_names

    @property
    def file(self) -> str:
        """Return the path or URL of the file."""
        return f"{self._place.root}/{self._name}"

    def note(self, settings: Settings) -> None:
        """Remember the indexes of a table as they are now, if they have changed.

        A file that cannot be written is tried again at the next change: it is no part of an index.
        """
        seen = settings.index_id, settings.version
        if seen == self._seen:
            return
        self._seen = seen
        table = TableReference("path", (self._table.address,), format=self._table.words.sql_name)
        statements = statements_of(settings.definitions, self._table.snapshot().schema, table)
        self._memory = self._memory.now(settings, statements)
        text = self._memory.text()
        if text != self._written:
            with suppress(OSError, TailbitError):
                self._place.put(self._name, text.encode())
                self._written = text

    @property
    def told(self) -> str:
        """Return what is lost and how it comes back; empty if nothing is."""
        if not self.lost:
            return ""
        lost = ", ".join(self.lost)
        return (
            f"its index was gone and is made anew from the configuration, which lacks {lost}. {self.remedy}"
        )

    @property
    def remedy(self) -> str:
        """Return how what is remembered comes back; empty if nothing is."""
        if not self._written:
            return ""
        again = shlex.join(["tailbit", "index", "create", self._table.address, "--from", self.file])
        return f"To have again what it had: {again}; to forget it, delete that file."
