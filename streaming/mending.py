"""A damaged file of the index is mended while the stream goes on, and the batch that met it is retried.

An error names a file. The file is read once more before it is removed from the index, since a folder that
vanished for a moment, or a process out of file handles, looks like damage too.
"""

from __future__ import annotations

from tailbit.base.errors import CorruptIndexError, IndexLogError
from tailbit.base.wording import Tell, tell_nobody
from tailbit.index.maintenance.create import start_over
from tailbit.index.maintenance.repair import damage_named, is_of_records, mend, why_damaged
from tailbit.index.store.table import MetadataTable
from tailbit.tables import open_table
from tailbit.tables.table import Table


class Mender:
    """The removal of damaged files from one index, for the thread that commits to it; `mended` counts them.

    `tell`: shows the lines of notice.
    """

    def __init__(self, table: Table, index: MetadataTable, tell: Tell = tell_nobody) -> None:
        self.table, self.index, self.tell = table, index, tell
        self._noted: dict[str, CorruptIndexError] = {}
        self.mended = 0

    def of_another_thread(self) -> Mender:
        """Return a mender of the same index with handles of its own, for another thread.

        If both commit at once, the second one starts again.
        """
        index = MetadataTable.open(self.index.path, options=self.index.storage.options)
        return Mender(open_table(self.table.root, self.table.storage.options), index, self.tell)

    def note(self, error: CorruptIndexError) -> None:
        """Record damage that another thread met, of each file once; `mend_noted` mends it."""
        self._noted[str(error.fields["file"])] = error.with_traceback(None)

    def mend_noted(self) -> None:
        """Mend the damage that other threads noted, and report what was mended in the log meanwhile."""
        for line in self.index.take_mended():
            self.tell(f"mended: {line}")
        while self._noted:
            self.mend(self._noted.popitem()[1])

    def mend(self, error: CorruptIndexError) -> None:
        """Remove the files that an error names from the index, unless they can be read after all.

        The caller tries again; the planner finds by itself which files need postings again.

        Raises:
            StorageError: the store refuses for a reason that has nothing to do with the file.
            IndexLogError: the index's own log cannot be read: a writer may be in the middle of a commit.
            TailbitError: the index cannot be mended: its log cannot be written.
        """
        try:
            self.index.refresh()
            if not isinstance(error, IndexLogError):
                # A log that could not be read has no file to remove: `refresh` has read it by now.
                self._mend(error)
        except IndexLogError:
            raise
        except CorruptIndexError as records:
            if not is_of_records(records):
                # Another file was damaged, or found to be, in the meantime.
                self._mend(records)
            elif self._why_damaged(str(records.fields["file"])) is not None:
                # The file records themselves are damaged: neither this process nor the index has them whole.
                self._start_over(records)

    def _mend(self, error: CorruptIndexError) -> None:
        damage = damage_named(error)
        reason = str(error.fields.get("reason"))
        for path in damage.files:
            if path not in self.index.state.files:
                return
            why = self._why_damaged(path)
            if why is None:
                return
            reason = f"index file {path}: {why}"
        done = mend(self.index, self.table, damage, reason)
        self.mended += 1
        self.tell(f"mended: {reason}; {_what_follows(done.to_post, done.to_count)}")

    def _why_damaged(self, path: str) -> str | None:
        return why_damaged(self.index.storage, path, self.index.kinds)

    def _start_over(self, error: CorruptIndexError) -> None:
        known = self.index.state.settings.definitions
        start_over(self.index.path, lambda: known, self.index.storage.options, self.index.kinds)
        self.index.refresh()
        self.mended += 1
        self.tell(f"mended: {error}; the index is built again")


def _what_follows(to_post: int, to_count: int) -> str:
    if not to_post and not to_count:
        return "nothing is lost"
    posted = f"{to_post} data files are scanned until they are posted again" if to_post else ""
    counted = f"{to_count} data files are counted again" if to_count else ""
    return ", ".join(filter(None, (posted, counted)))
