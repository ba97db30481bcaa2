"""Index statements as values, made from text by `parser` or by whoever calls an engine; `str` gives SQL.

Kinds of an index have the names by which Hudi and Hive call them, too. Nothing here is bound to a schema. A
term keeps its text, and its place in the statement if it came from one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field
from typing import Literal, NoReturn

from tailbit.base.dataclass import dataclass
from tailbit.base.errors import PredicateError, UnknownColumnError
from tailbit.base.wording import did_you_mean, quoted
from tailbit.index.kinds.schemas import DEFINABLE
from tailbit.index.sql.ddl.refusals import refuse_statement
from tailbit.index.sql.refusals import placed, refuse
from tailbit.index.sql.syntax.parser import parse_predicate
from tailbit.index.sql.syntax.tokens import tokens_of
from tailbit.index.sql.syntax.tree import Tree

DEFAULT = "bitmap"
"""The kind where a statement names none: Hudi makes a secondary index then."""

_HIVE = "org.apache.hadoop.hive.ql.index."
_NAMES = {name: kind for kind, rules in DEFINABLE.items() for name in (kind, *rules.other_names)}
"""Kind by each name in lower case."""
_OF_A_WRITER = "It is how a Hudi writer finds rows to update; a question is served by USING bitmap (...)."
_REFUSED = {
    "partition_stats": (
        "partition_stats is no index of its own: it is derived from column_stats",
        "Write USING column_stats (...).",
    ),
    "files": ("the list of files is part of every index", "Leave the statement out."),
    **dict.fromkeys(
        ("aggregate", f"{_HIVE}aggregateindexhandler"),
        ("the counts by value are part of an index of kind bitmap", "Write USING bitmap (...)."),
    ),
    **{
        name: (f"{name} is no index of a table", _OF_A_WRITER)
        for name in ("simple", "global_simple", "bloom", "global_bloom", "bucket", "hbase", "inmemory")
    },
    "flink_state": ("flink_state is no index of a table", _OF_A_WRITER),
}
"""Why a kind of Hudi or Hive is not made, and what serves instead, by its name in lower case."""


class WrongKind(ValueError):
    """A kind or an option that is not made here; carries what to write instead."""

    def __init__(self, reason: str, hint: str) -> None:
        super().__init__(reason)
        self.hint = hint


def kind_named(name: str) -> str:
    """Return the kind of index that has a name, in any case.

    Raises:
        WrongKind: there is no such kind, or it is not made here; the error says what serves instead.

    >>> kind_named("BITMAP"), kind_named("Column_Stats"), kind_named("secondary_index")
    ('bitmap', 'column_stats', 'bitmap')
    """
    lower = name.lower()
    if lower in _NAMES:
        return _NAMES[lower]
    if lower in _REFUSED:
        raise WrongKind(*_REFUSED[lower])
    meant = did_you_mean(name, (*_NAMES, *_REFUSED))
    raise WrongKind(f"there is no kind of index {name}", f"Kinds: {', '.join(DEFINABLE)}.{meant}")


def check_option(kind: str, key: str, value: str) -> None:
    """Raise WrongKind, with what the kind takes, unless it takes an option with a value, in any case."""
    options = DEFINABLE[kind].options
    if key not in options:
        listed = f"Options of {kind}: {', '.join(options)}." if options else f"{kind} takes none."
        meant = did_you_mean(key, options)
        applied = " OPTIONS (expr = 'lower') applies a function to a column."
        raise WrongKind(f"{kind} takes no option {key}", f"{listed}{meant}{applied}")
    if value.lower() not in options[key]:
        raise WrongKind(f"{key} is not {value!r}", f"Values of {key}: {', '.join(options[key])}.")


RESERVED = frozenset("AS FROM IF IN ON OPTIONS PARTITION REBUILD TABLE USING WHERE WITH".split())
"""Words that are a name in backticks only."""
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


SEVERAL = "Give each term by itself: --on carrier --on dest; in Python on=['carrier', 'dest']."

EVERY = "*"
"""The term that stands for all columns."""


@dataclass(frozen=True)
class WrittenExpression:
    """A term of an index, or a condition on its partitions, as written; its text is one expression.

    `source` and `place`: the statement, and where the expression begins in it, from 0; "" and 0 without one.

    Raises:
        PredicateError: the text is not an expression of the predicate language.
    """

    text: str
    source: str = field(default="", compare=False, repr=False)
    place: int = field(default=0, compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.text.strip() == EVERY:
            object.__setattr__(self, "text", EVERY)
            return
        parse_predicate(self.text)
        tokens = tokens_of(self.text)
        # Without comments and blanks around, so that the text can stand in a list.
        object.__setattr__(self, "text", self.text[tokens[0].start : tokens[-2].end])

    @classmethod
    def term(cls, text: str) -> WrittenExpression:
        """Return a term that stands by itself, outside of a statement.

        Raises:
            PredicateError: the text is no expression; for several terms, the error says how to give them.
        """
        try:
            return cls(text)
        except PredicateError as wrong:
            index = wrong.fields.get("at")
            ahead = text[:index]
            if index is None or text[index : index + 1] != "," or ahead.count("(") != ahead.count(")"):
                raise
            refuse(text, wrong.fields["bare"], index, SEVERAL)

    @property
    def tree(self) -> Tree:
        """Return the parsed text, whose places are those of `text`."""
        return parse_predicate(self.text)

    @property
    def column(self) -> tuple[str, ...]:
        """Return the names of a column and of fields in it; empty for any other expression."""
        return self.tree.names if self.text != EVERY and self.tree.kind == "column" else ()

    def refuse(self, reason: str, hint: str | None = None, index: int = 0) -> NoReturn:
        """Raise a StatementError that points at the expression, or at a character of its text, from 0."""
        # OPTIONS (expr = ...) make a text that does not stand in the statement.
        is_as_written = self.source.startswith(self.text, self.place)
        place = self.place + index if is_as_written or not self.source else self.place
        refuse_statement(self.source or self.text, reason, place, hint)

    @contextmanager
    def placed(self) -> Iterator[None]:
        """Convert errors of binding the expression, so that they point at places in the whole statement.

        Raises:
            StatementError: in place of a PredicateError, which is raised as it is without a statement.
            UnknownColumnError: with its place in the statement.
        """
        try:
            yield
        except PredicateError as wrong:
            if not self.source:
                raise
            self.refuse(wrong.fields["bare"], wrong.hint, wrong.fields["at"])
        except UnknownColumnError as unknown:
            is_as_written = self.source.startswith(self.text, self.place)
            if not self.source or "at" not in unknown.fields or not is_as_written:
                raise
            place = placed(self.source, self.place + unknown.fields["at"])
            raise UnknownColumnError(**{**unknown.fields, "place": place, "hint": unknown.hint}) from None

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class TableReference:
    """The table of a statement: the path of its folder, or one to three names of a catalog.

    `format`: what is written before a path.

    >>> str(TableReference("path", ("/data/t",))), str(TableReference("name", ("db", "my table")))
    ('delta.`/data/t`', 'db.`my table`')
    """

    kind: Literal["path", "name"]
    parts: tuple[str, ...]
    place: int = field(default=0, compare=False, repr=False)
    format: str = field(default="delta", compare=False, repr=False)

    @property
    def text(self) -> str:
        """Return the path, or the names with dots between."""
        return self.parts[0] if self.kind == "path" else ".".join(map(name_text, self.parts))

    def __str__(self) -> str:
        if self.kind == "name":
            return self.text
        # Only a string has escapes, which what Spark takes for a variable needs.
        return string_text(self.text) if "${" in self.text else f"{self.format}.{quoted(self.text)}"


@dataclass(frozen=True)
class CreateIndex:
    """Creation of an index, at once or, if `deferred`, by its first rebuild.

    `kind`, `options`: of `DEFINABLE`. `only`: the condition on partition columns that covered files meet;
    None covers all files. `properties`: notes, kept and shown with the index, as IDXPROPERTIES of Hive.

    Raises:
        StatementError: there are too many terms, a term stands twice, or a kind or option does not exist.
    """

    name: str
    table: TableReference
    terms: tuple[WrittenExpression, ...]
    kind: str = DEFAULT
    options: Mapping[str, str] = field(default_factory=dict)
    only: WrittenExpression | None = None
    deferred: bool = False
    if_not_exists: bool = False
    properties: Mapping[str, str] = field(default_factory=dict)
    comment: str = ""

    def __post_init__(self) -> None:
        if not self.name.strip():
            refuse_statement(str(self), "the name of the index is empty", hint="Name it, such as by_place.")
        if self.name.encode(errors="replace").decode() != self.name:
            reason = "the name of the index holds half of a character, a surrogate"
            refuse_statement(str(self), reason, hint="Write whole characters.")
        if not self.terms:
            refuse_statement(str(self), "the index has no term", hint="Name a column or an expression.")
        try:
            object.__setattr__(self, "kind", kind_named(self.kind))
            for key, value in self.options.items():
                check_option(self.kind, key, value)
            object.__setattr__(self, "options", {key: value.lower() for key, value in self.options.items()})
        except WrongKind as wrong:
            refuse_statement(str(self), str(wrong), hint=wrong.hint)
        self._check_terms()

    def _check_terms(self) -> None:
        most = DEFINABLE[self.kind].most_terms
        every = next((term for term in self.terms if term.text == EVERY), None)
        if every is not None and most is not None:
            every.refuse(f"an index of kind {self.kind} is not of all columns at once", "Name its columns.")
        if every is not None and len(self.terms) > 1:
            every.refuse("* is all columns, and no further term stands beside it", "Make two indexes.")
        if most is not None and len(self.terms) > most:
            reason = f"an index of kind {self.kind} has {most} terms at most, not {len(self.terms)}"
            self.terms[most].refuse(reason, "Make two indexes: a question uses both.")
        # Names of columns are the same in any case, a text in quotes is not.
        written = [tuple(name.lower() for name in term.column) or term.text for term in self.terms]
        for number, term in enumerate(written):
            if term in written[:number]:
                self.terms[number].refuse(f"the term {self.terms[number]} stands twice", "Leave one out.")

    def __str__(self) -> str:
        absent = "IF NOT EXISTS " * self.if_not_exists
        options = f" OPTIONS ({_pairs(self.options)})" if self.options else ""
        deferred = " WITH DEFERRED REBUILD" * self.deferred
        properties = f" IDXPROPERTIES ({_pairs(self.properties)})" if self.properties else ""
        comment = f" COMMENT {string_text(self.comment)}" if self.comment else ""
        return (
            f"CREATE INDEX {absent}{name_text(self.name)} ON {self.table} USING {self.kind} "
            f"({', '.join(map(str, self.terms))}){options}{deferred}{properties}{comment}{_where(self.only)}"
        )


@dataclass(frozen=True)
class DropIndex:
    """Removal of an index; with `if_exists`, an index that does not exist is no error."""

    name: str
    table: TableReference
    if_exists: bool = False

    def __str__(self) -> str:
        return f"DROP INDEX {'IF EXISTS ' * self.if_exists}{name_text(self.name)} ON {self.table}"


@dataclass(frozen=True)
class RebuildIndex:
    """Rebuild of an index, or build of its missing files; `only`: in the partitions that meet a condition."""

    name: str
    table: TableReference
    only: WrittenExpression | None = None

    def __str__(self) -> str:
        return f"ALTER INDEX {name_text(self.name)} ON {self.table} REBUILD{_where(self.only)}"


@dataclass(frozen=True)
class ShowIndexes:
    """List of the indexes of a table; `formatted`: for people, in full."""

    table: TableReference
    formatted: bool = False

    def __str__(self) -> str:
        return f"SHOW {'FORMATTED ' * self.formatted}INDEXES FROM {self.table}"


@dataclass(frozen=True)
class DescribeIndex:
    """Description of one index; `formatted`: for people, in full."""

    name: str
    table: TableReference
    formatted: bool = False

    def __str__(self) -> str:
        return f"DESCRIBE INDEX {'FORMATTED ' * self.formatted}{name_text(self.name)} ON {self.table}"


Statement = CreateIndex | DropIndex | RebuildIndex | ShowIndexes | DescribeIndex


def name_text(name: str) -> str:
    """Return a name as SQL text, in backticks where it needs them.

    >>> name_text("by_day"), name_text("my index"), name_text("on")
    ('by_day', '`my index`', '`on`')
    """
    return name if _PLAIN.fullmatch(name) and name.upper() not in RESERVED else quoted(name)


def string_text(value: str) -> str:
    r"""Return a string as SQL text.

    >>> print(string_text("it's"))
    'it\'s'
    """
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    # Spark takes the two signs together for a variable, in quotes too.
    return "'" + escaped.replace("${", "\\u0024{") + "'"


def _pairs(values: Mapping[str, str]) -> str:
    return ", ".join(f"{string_text(key)} = {string_text(value)}" for key, value in values.items())


def _where(condition: WrittenExpression | None) -> str:
    return f" WHERE {condition}" if condition else ""
