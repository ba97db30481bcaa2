"""The records of the index as frozen values: files, the ledger, settings, and the index's own files.

Nothing here reads or writes. The commit that makes a record visible sets its `seq`; of two records of one
path, the one with the higher `seq` counts.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import field, replace
from enum import Enum
from typing import NamedTuple

from tailbit.base.dataclass import dataclass
from tailbit.base.errors import ColumnTypeError
from tailbit.index.keys import key_type_of, posting_type_of
from tailbit.tables.model import Column, FileSlice, Fingerprint, Version

ROWS_PER_SPACE = 1 << 26
"""Most rows that a task or a merge puts into one row space; a larger file has a row space of its own."""


def key_type_of_column(column: Column) -> str:
    """Return the key type of a column's values.

    Raises:
        ColumnTypeError: values of the column's type have no keys; the error names the column.
    """
    try:
        return key_type_of(column.type)
    except ColumnTypeError as plain:
        raise ColumnTypeError(
            column=column.label, type=column.type.sql, reason=plain.fields["reason"]
        ) from plain


def posting_type_of_column(column: Column) -> str:
    """Return the key type of the postings that a column would have.

    Raises:
        ColumnTypeError: neither the values nor an array's elements have keys; the error names the column.
    """
    try:
        return posting_type_of(column.type)
    except ColumnTypeError as plain:
        if column.type.name == "array":
            element = column.type.fields[0].type
            reason = f"its elements are of type {element.sql}, which cannot be compared and indexed"
            raise ColumnTypeError(column=column.label, type=column.type.sql, reason=reason) from plain
        raise ColumnTypeError(
            column=column.label, type=column.type.sql, reason=plain.fields["reason"]
        ) from plain


class IndexFile(NamedTuple):
    """A Parquet file of the index, written and flushed but visible only once a commit names it.

    `path`: relative to the index, `kind=<kind>/...`. `size`: bytes. `rows`: rows of the Parquet file.
    """

    path: str
    size: int
    rows: int


BITMAP, RECORD_KEY = "bitmap", "record_key"
"""The kinds of definitions that have postings: of any values, and of keys that are nearly unique.

Postings of record keys lie in small pages, so that a key is found without decoding all its neighbours."""

COUNTS, COUNTS_REASON = "counts", "counts.reason"
"""Options of a bitmap: whether its values are counted, "on" (the default) or "off"; and why they are not."""


KEYS, HASH = "keys", "hash"
"""Option of a record key: with the value `hash` its postings are those of a hash of the columns' values."""


DEFERRED = "deferred"
"""Option, with the value `true`, of a definition that no file is indexed for until the option is removed."""

REPLACES = "replaces"
"""Option of a definition that will replace another of the same name; the value is the other's id."""

RAISED_TYPE, RAISED_KEY = "boolean", b"\x01"
"""Key type and the only key of the postings of rows for which an expression raises an error."""


TERM = "#"
"""The first character of the ids that `new_id` returns."""


def new_id() -> str:
    """Return a new id for a definition of an expression, tuples or statistics; no column has such an id."""
    return f"{TERM}{uuid.uuid4().hex[:8]}"


def is_of_term(id_: str) -> bool:
    """Return whether an id came from `new_id`: it is a definition's own id, and no column's."""
    return id_.startswith(TERM)


def raised_id(id_: str) -> str:
    """Return the id of the postings of the rows for which a definition's expression raises an error."""
    return f"{id_}#raised"


@dataclass(frozen=True, slots=True)
class TermColumn:
    """A column that a term reads, as it was when the term was defined: its SQL label, id and type."""

    label: str
    id: str
    type: str


@dataclass(frozen=True, slots=True)
class Term:
    """An expression over the columns of a row, whose values an index keeps; a column is the plainest.

    `text`: canonical SQL, with the labels in `columns`. `key_type`: the key type of its postings. `type`: its
    logical type. `zone`: the session time zone that the text is bound with.
    """

    text: str
    columns: tuple[TermColumn, ...]
    key_type: str
    type: str
    zone: str = "UTC"

    @property
    def is_column(self) -> bool:
        """Whether the term is a column and no other expression."""
        return len(self.columns) == 1 and self.text == self.columns[0].label


@dataclass(frozen=True, slots=True)
class Definition:
    """One index of a table: its id, name, kind, terms and options.

    `id`: names its postings, counts and codes, and stands in the record of each file that has them. A bitmap
    of one column has the column's id (physical path), any other definition an id that no column has. `only`:
    a condition on partition columns; files elsewhere are not indexed. Empty: all files are. `only_columns`:
    the columns that the condition reads, as they were when it was written.
    """

    id: str
    name: str
    kind: str
    terms: tuple[Term, ...]
    options: Mapping[str, str] = field(default_factory=dict)
    only: str = ""
    only_columns: tuple[TermColumn, ...] = ()

    @classmethod
    def of_column(cls, column: Column) -> Definition:
        """Return the definition of a bitmap of one column; of an array column the elements are indexed."""
        return cls.plain(column.label, column.id, posting_type_of_column(column), str(column.type))

    @classmethod
    def plain(cls, label: str, id_: str, key_type: str, type_: str) -> Definition:
        """Return the definition of a bitmap of one column, which is named as the column is."""
        term = Term(label, (TermColumn(label, id_, type_),), key_type, type_)
        return cls(id_, label, BITMAP, (term,))

    @property
    def label(self) -> str:
        """The terms as SQL text; `*` for all columns."""
        return ", ".join(term.text for term in self.terms) or "*"

    @property
    def is_deferred(self) -> bool:
        """Whether no file is built for the definition before its first rebuild."""
        return self.options.get(DEFERRED) == "true"

    def without(self, option: str) -> Definition:
        """Return the definition without an option."""
        return replace(self, options={key: value for key, value in self.options.items() if key != option})

    @property
    def expression_ids(self) -> dict[str, Term]:
        """Map ids to the terms that are not columns; an id ends with the term's number, counted from 1."""
        numbered = enumerate(self.terms, 1)
        return {f"{self.id}.{number}": term for number, term in numbered if not term.is_column}

    @property
    def has_postings(self) -> bool:
        """Whether the index keeps postings of the definition's values."""
        return self.kind in (BITMAP, RECORD_KEY)

    @property
    def is_paged(self) -> bool:
        """Whether the postings lie in small pages, each of which is read by itself."""
        return self.kind == RECORD_KEY

    @property
    def is_hashed(self) -> bool:
        """Whether the postings are those of a hash of the values, so that they have false positives."""
        return self.kind == RECORD_KEY and self.options.get(KEYS) == HASH

    @property
    def has_counts(self) -> bool:
        """Whether the index keeps the number of visible rows of each of the definition's values."""
        return self.kind == BITMAP and self.options.get(COUNTS) != "off"

    @property
    def key_type(self) -> str:
        """The key type of the postings."""
        types = [term.key_type for term in self.terms]
        return types[0] if len(types) == 1 else f"tuple({','.join(types)})"

    @property
    def is_of_column(self) -> bool:
        """Whether the definition has the postings of one column, under the column's own id."""
        return self.has_postings and [c.id for term in self.terms for c in term.columns] == [self.id]

    @property
    def is_plain(self) -> bool:
        """Whether the definition is a bitmap of one column for all files, with its name and no options."""
        named = self.kind == BITMAP and self.name == self.label
        return named and self.is_of_column and not self.options and not self.only


@dataclass(frozen=True, slots=True)
class FileRecord:
    """The index's record of one data file.

    `path`, `size`, `mtime`, `rows` (physical), `partition`: as in the source; `footer`: hash of its footer,
    empty if the footer was never read. `space`, `base`: the file's claim, its range `[base, base + rows)` of
    positions in a row space; None without postings. `built`: ids of the definitions that this file has been
    indexed for. `counted`: whether its visible rows are in the value counts of exactly those definitions;
    `hidden`: identity of the hidden rows that the counts leave out, empty for none. `lineage`: number of the
    history of the source log (see `Ledger`) in which the file was last seen. `entered`, `left`: versions of
    the source that added and removed the file; `left` is None while it is live. `error`: why the file could
    not be read.
    """

    path: str
    size: int
    mtime: int
    rows: int
    footer: str
    partition: Mapping[str, str | None]
    space: str | None
    base: int | None
    built: tuple[str, ...]
    counted: bool
    hidden: str
    lineage: int
    entered: Version
    left: Version | None
    error: str | None = None
    seq: int = 0

    def is_of(self, slice_: FileSlice) -> bool:
        """Return whether the record is of this file, judged by size, time and partition values in the log."""
        same_values = _without_null(self.partition) == _without_null(slice_.partition)
        return same_values and self.is_as_written(slice_)

    def is_as_written(self, slice_: FileSlice) -> bool:
        """Return whether no other file has replaced the one at this path, judged by size and time."""
        return (self.size, self.mtime) == (slice_.size, slice_.mtime)

    def is_reachable(self, earliest: Version | None) -> bool:
        """Return whether a source version from `earliest` on (None: any) holds the file."""
        return earliest is None or self.left is None or self.left > earliest


def _without_null(partition: Mapping[str, str | None]) -> dict[str, str]:
    return {name: text for name, text in partition.items() if text is not None}


class NewClaim(NamedTuple):
    """A file's claim (range in a row space), and the new claim; None if its postings are removed."""

    path: str
    space: str
    base: int
    new_space: str | None
    new_base: int | None


class LedgerState(str, Enum):
    """Whether the snapshot that a round starts with is indexed; the words are stored in the index."""

    BUILDING = "building"
    COMPLETE = "complete"


class Standing(str, Enum):
    """The state of an index compared with its table; the words are those of `status`.

    `ABSENT`: there is no index. `DAMAGED`: the index cannot be read. `OLDER_FORMAT`: an older release wrote
    the index, and `run` rebuilds it. `EMPTY`: nothing is recorded yet. `BUILDING`: the first snapshot is
    being indexed. `COMPLETE`: a version is covered as a whole. `OTHER_HISTORY`: the source log is not the one
    that was indexed.
    """

    ABSENT = "absent"
    DAMAGED = "damaged"
    OLDER_FORMAT = "of an older format"
    EMPTY = "empty"
    BUILDING = "building"
    COMPLETE = "complete"
    OTHER_HISTORY = "other history"


@dataclass(frozen=True, slots=True)
class Ledger:
    """The progress of the index, written in the same commit as the postings and counts that it records.

    `round` counts fresh starts: a round reads a snapshot file by file, then the log after it. `lineage`
    counts the rounds that began because the source log was no longer the one that was indexed. `version`:
    target of the last batch. `state`: `BUILDING` while a round's first snapshot is indexed, then `COMPLETE`.
    `covered`: the version of which everything is recorded, None before the first. `fingerprint`: of the
    commit `version`. `uncounted`: live files whose rows are in no value count. `held`: hash of the set of
    index files at that time, empty if an older release wrote it (`store.own_files`).
    """

    round: int
    lineage: int
    version: Version
    state: LedgerState
    covered: Version | None
    fingerprint: Fingerprint | None
    uncounted: int
    settings_version: int
    query_id: str
    batch_id: int
    committed_at: int
    seq: int = 0
    held: str = ""


@dataclass(frozen=True, slots=True)
class Settings:
    """The configuration of the index: its identity, format, definitions and options. Versioned.

    `dropped`: ids of definitions that were dropped. Their old postings may still lie in row spaces, so if
    such an id is indexed again, its postings go into new row spaces.
    """

    version: int
    index_id: str
    format: int
    definitions: tuple[Definition, ...]
    options: Mapping[str, str] = field(default_factory=dict)
    dropped: tuple[str, ...] = ()

    @property
    def columns(self) -> tuple[Definition, ...]:
        """The bitmaps of single columns, which are added and dropped by the columns' names."""
        return tuple(definition for definition in self.definitions if definition.is_of_column)

    def definition(self, id_: str) -> Definition:
        """Return the definition of an id."""
        return next(definition for definition in self.definitions if definition.id == id_)
