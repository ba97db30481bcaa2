"""Every error of tailbit: what was found, where, what was expected, and what to do.

Refuse by name, never guess. A table feature, type, file or predicate that is not understood is a named error
with a remedy, or a file or column that is scanned; it is never skipped in silence.

All are raised with keyword fields that survive pickling, since they cross process boundaries
(Spark planner and workers). `retryable` says whether doing the same thing again can help.
"""

from __future__ import annotations

import warnings
from typing import Any, ClassVar

from tailbit.base.wording import visible, visible_fields

_PUBLIC = "tailbit.errors"
"""The module by which the errors are shown and pickled."""


class TailbitError(Exception):
    """The base of every named error; from Python 3.11 on, a traceback ends with the error's hint.

    `template` (the message) and `hint` (what to do) are formatted with the error's fields; fields named
    `hint` and `retryable` override the class's.
    """

    template: ClassVar[str] = "{reason}"
    hint: str = "Report this with its message."
    retryable: bool = False

    def __init_subclass__(cls) -> None:
        """Name a class of this module as users import it."""
        if cls.__module__ == __name__:
            cls.__module__ = _PUBLIC

    def __init__(self, **fields: Any) -> None:
        self.fields = fields
        self.retryable = bool(fields.get("retryable", type(self).retryable))
        shown = _Lenient(visible_fields(fields))
        self.hint = visible(str(fields.get("hint") or type(self).hint.format_map(shown)), lines=True)
        super().__init__(visible(self.template.format_map(shown), lines=True))
        self.__notes__ = [f"  {self.hint}"]

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by class and fields."""
        return _rebuild, (type(self), self.fields)

    def describe(self) -> str:
        """Return message and remedy in at most two lines."""
        return f"{type(self).__name__}: {self}\n  {self.hint}"


TailbitError.__module__ = _PUBLIC


class _Lenient(dict[str, Any]):
    """Format mapping that shows a missing field by name instead of raising inside an error."""

    def __missing__(self, key: str) -> str:
        return "{" + key + "}"


def _rebuild(cls: type[TailbitError], fields: dict[str, Any]) -> TailbitError:
    return cls(**fields)


class UsageError(TailbitError):
    """The caller asked for something that cannot be: exit code 2."""


class SourceError(TailbitError):
    """The source table, its log or its data files are not as they must be."""


class NotATableError(SourceError, UsageError):
    """The path holds no table of a format that tailbit reads."""

    template = "no {kind} at {path}: {reason}"
    hint = "Give the folder that holds {log}."


class TwoFormatsError(SourceError, UsageError):
    """A folder that holds the logs of two table formats: nothing tells which of them is meant."""

    template = "{path} holds {logs}: it may be {kinds}"
    hint = "Say which one is meant: --table-format {example}, or the storage option table_format={example}."


class VersionNotFoundError(SourceError, UsageError):
    """A version that is gone or not yet there."""

    template = "version {version} of {path} cannot be read: {reason} (readable: {earliest} to {latest})"
    hint = (
        "Ask for a version between {earliest} and {latest}; for the last one leave --version or --as-of out."
    )


class CommitGapError(SourceError):
    """A commit inside the wanted range is missing."""

    template = "commit {version} is missing from the log of {path} (found {found})"
    hint = "The log was cleaned up or damaged; the indexer starts a new round from the head of the log."


class MalformedLogError(SourceError):
    """A commit, log checkpoint or statistics cannot be parsed."""

    template = "malformed log file {file}: {reason}"
    hint = "Restore the file from a backup, or restore the table to a version before it."


class LiveTwiceError(SourceError):
    """A version of a Delta table in which a path is live twice, with different deletion vectors."""

    template = "{path} at version {version}: {file} is live twice, with different hidden rows"
    hint = (
        "A writer took the file away without naming its hidden rows, and other readers see rows of it twice: "
        "ask an earlier version, or restore the table to one."
    )


class TableInTransitionError(SourceError):
    """A table whose settings are being written at this moment, as an upgrade of its format does."""

    template = "{file} of {path} is being written, or its writer died"
    hint = "Try again; if it stays so, let the table's writer start once: it restores the file from its copy."
    retryable = True


class UnsupportedFeatureError(SourceError):
    """A table feature that is not understood; refused by name."""

    template = "table {path} at version {version} uses {feature}, which tailbit does not read"
    hint = "Have the table's writer drop the feature, or use a tailbit release that lists it."


class HiddenRowsError(SourceError):
    """A record of the hidden rows of a data file that cannot be read, or fails its checks."""

    template = "hidden rows {file} at offset {offset}: {reason}"
    hint = "The table itself is damaged: restore the file, or the table to an earlier version."


class DeletionVectorError(HiddenRowsError):
    """A deletion vector that cannot be read, or fails its checks."""

    template = "deletion vector {file} at offset {offset}: {reason}"


class DataFileError(SourceError):
    """A data file that is missing or is not Parquet."""

    template = "data file {file}: {reason}"
    hint = "Restore the file, or restore the table to a version before it."


class LogBlockError(DataFileError, HiddenRowsError):
    """A block of a log file that is torn or damaged although its instant has completed."""

    template = "log file {file} at offset {offset}: {reason}"


class VacuumedFileError(DataFileError):
    """A data file of an older version that has been deleted since the table ceased to name it."""

    template = (
        "data file {file} of version {version} is gone: from version {left} on the table does not name it,"
        " and {cleaner} deletes such files"
    )
    hint = "Ask for version {head}, the newest: its files are kept."


class LegacyCalendarError(DataFileError):
    """Dates or times that Spark wrote in its legacy calendar, from before it agrees with today's calendar."""

    template = "data file {file}: column {column} holds {type} values before {since} in the legacy calendar"
    hint = "Rewrite the file with a current Spark, or leave the column out."


class UnsafePathError(SourceError):
    """A path in the log that leads outside of the folders that the table may use."""

    template = "path {file} in the log of {path} is refused: {reason}"
    hint = "No reader needs such a path: see who writes the table's log."


class StorageError(TailbitError):
    """The storage refused: permissions, disk full, unknown scheme."""

    template = "storage at {path}: {reason}"
    hint = "Free space or fix the permissions, then start again: nothing half-written is visible."
    retryable = True


class UnusableStorageError(StorageError):
    """A path, its options or credentials by which no store can be used: a person must correct them."""

    retryable = False


class CatalogError(StorageError):
    """A catalog of Iceberg tables gives no answer, or pyiceberg's configuration does not describe it."""

    template = "the catalog of {path} cannot be asked: {reason}"
    hint = "See whether the catalog is up, and whether pyiceberg's configuration describes it."


class NoConditionalPutError(StorageError):
    """The object store has no conditional put: two concurrent writers could both believe to be first."""

    template = "storage at {path}: the store takes no notice of conditional puts (If-None-Match: *)"
    hint = "Two indexers could overwrite each other there: give another store by --index, or a newer release."
    retryable = False


class SchemaError(UsageError):
    """Columns or types that do not fit the request."""


class UnknownColumnError(SchemaError):
    """No such column."""

    template = "no column {column} in the table{nearest}{place}"
    hint = "Columns: {columns}."

    def __init__(self, **fields: Any) -> None:
        super().__init__(**{"place": "", **fields})


class ColumnTypeError(SchemaError):
    """A column of a type that cannot be indexed, or not compared as requested."""

    template = "column {column} is of type {type}: {reason}"
    hint = "Use a column of type BOOLEAN, INT, FLOAT, DOUBLE, DECIMAL, STRING, BINARY, DATE or TIMESTAMP."


class PredicateError(UsageError):
    """A predicate that does not parse, bind or fit."""

    template = "predicate {predicate!r}: {reason}"
    hint = (
        "A condition in Spark SQL: = <> < <= > >= <=> IN BETWEEN LIKE IS NULL AND OR NOT, arithmetic, CASE,"
        " CAST and the functions of docs/functions.md."
    )


class StatementError(UsageError):
    """A statement about indexes that does not parse, or asks for something that does not exist."""

    template = "statement {statement!r}: {reason}"
    hint = "Statements: CREATE INDEX, DROP INDEX, ALTER INDEX ... REBUILD, SHOW INDEXES and DESCRIBE INDEX."


class IndexNameTakenError(UsageError):
    """An index to be created has the name or the terms of an existing index."""

    template = "index {name} cannot be created: {reason}"
    hint = "Take another name, drop that index first, or write IF NOT EXISTS."


class UnknownIndexError(UsageError):
    """A statement names an index that the table does not have."""

    template = "the index at {path} has no index {name}"
    hint = "It has: {indexes}.{nearest}"


class AggregateError(UsageError):
    """A sum or an average is beyond its type; Spark raises ARITHMETIC_OVERFLOW or the like."""

    template = "{function} of column {column} overflows, as in Spark's ANSI mode: {reason}"
    hint = "Ask for the facets and add their products, or narrow the predicate."


class EvaluationError(UsageError):
    """A condition raises for a visible row whose answer depends on it, as it does in Spark."""

    template = "{condition} raises {error} where {values}, at row {position} of {file}"
    hint = "Exclude such rows by another condition, or write TRY_CAST, NULLIF(x, 0) or CASE."


class IndexStateError(TailbitError):
    """The index is absent, foreign or damaged."""


class StaleIndexError(IndexStateError):
    """The index does not cover the version that the caller demands."""

    template = "the index of {path} covers {covered}; asked for {wanted}"
    hint = "Wait with wait_for, see with `tailbit status` whether an indexer runs, or ask for less."
    retryable = True


class ViewExistsError(UsageError):
    """There is something where a view was to be written."""

    template = "there is something at {path} already"
    hint = "Give a path that does not exist: a view is written once, and never over something."


class NoIndexError(IndexStateError, UsageError):
    """There is no index at the path."""

    template = "no index at {path}"
    hint = (
        "Build one: tailbit run TABLE --columns a,b --once. A `tailbit run` or an application that has just"
        " begun to follow the table makes it by itself: then ask again."
    )


class ForeignIndexError(IndexStateError, UsageError):
    """The index path holds something that is no index of the table."""

    template = "{path} is not an index of this table: {reason}"
    hint = "Give another --index path, or empty this one."


class IndexFormatError(IndexStateError):
    """An index in a format that this release does not read."""

    template = "index {path} has format {found}; this tailbit reads {supported}"
    hint = "Use a tailbit release that reads it, or delete the index and build it again."

    @property
    def is_older(self) -> bool:
        """Return whether an older release wrote the index, so that it can be rebuilt with its columns."""
        return 1 <= int(self.fields["found"]) < int(self.fields["supported"])


class CorruptIndexError(IndexStateError):
    """A file of the index is truncated, altered, or was written broken."""

    template = "index file {file}: {reason}"
    hint = "Questions scan the data files instead. Build it again: tailbit repair TABLE."


class IndexLogError(CorruptIndexError):
    """The index's own log is damaged: what the index holds is not known."""

    template = "the log of the index {file} cannot be read: {reason}"
    hint = "Questions scan the data files instead. Make it anew, with its columns: tailbit repair TABLE."


class BrokenBitmapError(IndexStateError):
    """A bitmap built for the index fails its checks; nothing of its batch or merge was committed."""

    template = "bitmap {number} of column {column}, row space {space}, is broken before its write: {reason}"
    hint = "Nothing was committed. Report this; `tailbit alter TABLE --drop` of the column lets others go on."


class SettingsError(IndexStateError, UsageError):
    """Columns or options other than those remembered in the index."""

    template = "the index at {path} has columns {found}; asked for {asked}"
    hint = "Change the index with `tailbit alter TABLE --add A --drop B`, or ask for no columns."


class CommitConflictError(IndexStateError):
    """Another writer committed to the index first; nothing of this commit is visible."""

    template = "another writer committed version {version} of the index {path} first"
    hint = "Reload the recorded state and compute the difference anew."
    retryable = True


class IndexerRunningError(IndexStateError):
    """Another indexer has a fresh heartbeat on this index."""

    template = "another indexer ({owner}) works on {path}; its last sign of life is {age:.0f} s old"
    hint = "Stop it first, or wait until its heartbeat is {limit:.0f} s old."
    retryable = True


class ConfigError(UsageError):
    """A configuration of many tables that cannot be run; `problems` names each with its file and line."""

    template = "{problems}"
    hint = "Correct these lines; docs/operations.md names every key. Nothing was started or changed."


class RequirementError(UsageError):
    """Something the machine must have is missing or of another release: Java, pyspark, pandas."""

    template = "{reason}"
    hint = "{remedy}"


class StreamError(TailbitError):
    """The Spark query or its Java process ended for a reason that is not tailbit's own."""

    template = "the Spark query ended: {reason}"
    hint = "Start it again: it goes on where the index was. If it ends at once again, delete {checkpoint}."
    retryable = True


class HungError(TailbitError):
    """A run gave no sign of life for its limit: Java, the planner, a worker or the storage hangs."""

    template = "{table}: no sign of life since {since} ({seconds:.0f} s): {known}"
    hint = "Java and all workers were killed. Start it again; if it was at work, give it more --stall-limit."
    retryable = True


class NotDrainedError(TailbitError):
    """A run did not end in time after a signal, and was killed."""

    template = "{table}: not ended {seconds:.0f} s after the signal: {known}"
    hint = "Java and all workers of the run were killed. Started again, it goes on where the index was."
    retryable = True


class ClusterError(TailbitError):
    """The Spark cluster does not answer, or has ended the application."""

    template = "the Spark cluster at {master}: {reason}"
    hint = "See that the master and its workers (its web page lists them) can be reached; then start again."
    retryable = True


def __getattr__(name: str) -> Any:
    """Return an error by its former name, with a warning."""
    if name != "EnvironmentError_":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    warnings.warn("EnvironmentError_ is RequirementError now", DeprecationWarning, stacklevel=2)
    return RequirementError
