"""Random questions of every kind that counts by key answer, about one version of a table of the fuzzer."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from support.fuzzer.asks import EVERYTHING, new_predicate
from support.fuzzer.columns import DATE, TIMESTAMP, WIDENED
from support.fuzzer.model import Shape, State
from support.predicates import Asked, Predicate

ZONES = ("UTC", "UTC", "UTC", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe")
PARTS = ("year", "quarter", "month", "week", "day", "hour", "minute", "second")
BINS = (1, 2, 3, 7, 10)


@dataclass(frozen=True)
class Question:
    """A question about the rows of `state` where `where` is TRUE. `more`: what else its kind takes.

    `more` is the n of `top`, edges or a number of bins, a part and a time zone, or the version that
    transitions lead to.
    """

    kind: str
    state: State
    where: Predicate
    columns: tuple[Asked, ...]
    more: Any = None

    def __str__(self) -> str:
        columns = ", ".join(column.spark for column in self.columns)
        more = self.more.version if isinstance(self.more, State) else self.more
        return f"{self.kind}({columns}; {more}) WHERE {self.where.spark}"

    @property
    def types(self) -> list[pa.DataType]:
        """The types of its columns; of transitions the wider of both versions' types."""
        if self.kind == "transitions":
            return [type_ for type_ in [common_type(self)] if type_ is not None]
        return [type_of(self.state, column) for column in self.columns]


def later(question: Question) -> State:
    """The later of the versions that are asked about."""
    if isinstance(question.more, State) and question.more.version > question.state.version:
        return question.more
    return question.state


def random_question(rng: random.Random, state: State, others: Sequence[State]) -> Question:
    """A question of a random kind, over columns of a random type that it takes."""
    where = EVERYTHING if rng.random() < 0.25 else new_predicate(rng, state)
    kind = rng.choice(KINDS)
    if kind == "transitions":
        return _moved(rng, state, rng.choice(others))
    able = [column for column in state.asked if _FITS.get(kind, _any)(type_of(state, column))]
    if not able:
        kind, able = "facets", list(state.asked)
    width = min(len(able), 2 if kind in ("crosstab", "measures") else _WIDTHS.get(kind, _one)(rng))
    columns = tuple(rng.sample(able, width))
    if kind in ("crosstab", "measures") and width == 1:
        columns *= 2
    question = Question(kind, state, where, columns)
    return replace(question, more=_MORE[kind](rng, question)) if kind in _MORE else question


def type_of(state: State, column: Asked) -> pa.DataType:
    return state.shape.leaves()[column.parts].type


def physical_parts(shape: Shape, parts: Sequence[str]) -> tuple[str, ...]:
    """The names that data files know a column by."""
    fields, out = shape.fields, []
    for part in parts:
        (field,) = (f for f in fields if f.name == part)
        out.append(field.physical)
        fields = field.fields
    return tuple(out)


def same_column(question: Question, state: State) -> tuple[str, ...] | None:
    """The name parts that the question's column has at a version; None where there is none."""
    wanted = physical_parts(later(question).shape, question.columns[0].parts)
    for parts in state.shape.leaves():
        if physical_parts(state.shape, parts) == wanted:
            return parts
    return None


def _moved(rng: random.Random, state: State, other: State) -> Question:
    """What moved between two versions in a column of which one type is the wider one."""
    newest = max(state, other, key=lambda s: s.version)
    columns = rng.sample(newest.asked, len(newest.asked))
    if rng.random() < 0.5:  # Of values that the log gives, and of other types, much depends on the versions.
        columns.sort(key=lambda column: _stays(state, other, column))
    for column in columns:
        question = Question("transitions", state, EVERYTHING, (column,), other)
        if common_type(question) is not None:
            return question
    return Question("facets", state, EVERYTHING, (rng.choice(state.asked),))


def _stays(state: State, other: State, column: Asked) -> bool:
    """Whether a column is in neither version a partition column, and of one type in both."""
    types = [version.shape.leaves().get(column.parts) for version in (state, other)]
    parted = column.parts[0] in (*state.shape.partitions, *other.shape.partitions)
    return not parted and len({str(field.type) for field in types if field is not None}) == 1


def common_type(question: Question) -> pa.DataType | None:
    """The wider of the types that the column has in both versions; other tables had other types."""
    newest = later(question)
    types = [type_of(newest, question.columns[0])]
    for state in (question.state, question.more):
        parts = same_column(question, state)
        if parts is not None:
            types.append(state.shape.leaves()[parts].type)
    return next((wide for wide in types if all(t == wide or wide in _wider(t) for t in types)), None)


def _wider(type_: pa.DataType) -> list[pa.DataType]:
    direct = WIDENED.get(type_, ())
    return [*direct, *(further for one in direct for further in _wider(one))]


def _any(type_: pa.DataType) -> bool:
    return True


def is_number(type_: pa.DataType) -> bool:
    """Whether it can be summed."""
    kinds = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
    return any(kind(type_) for kind in kinds)


def _is_time(type_: pa.DataType) -> bool:
    return bool(type_ == DATE or pa.types.is_timestamp(type_))


def _one(rng: random.Random) -> int:
    return 1


def _few(rng: random.Random) -> int:
    return rng.choice((1, 1, 2, 2, 3))


def _some_edges(rng: random.Random, question: Question) -> list[Any]:
    """Two to six values of the column that rise; 0.0 and -0.0 are one."""
    able = sorted({value for value in question.columns[0].pool if value == value})
    count = min(len(able), rng.randint(2, 6))
    return sorted(rng.sample(able, count))


def _part_and_zone(rng: random.Random, question: Question) -> tuple[str, str]:
    (type_,) = question.types
    part = rng.choice(PARTS[:5] if type_ == DATE else PARTS)
    return part, rng.choice(ZONES) if type_ == TIMESTAMP else "UTC"


KINDS = (
    *("facets", "facets", "facets", "facet_table", "top", "distinct", "count_distinct", "min", "max"),
    *("sum", "avg", "summary", "histogram", "even_histogram", "date_histogram", "date_histogram"),
    *("crosstab", "transitions", "transitions", "measures", "measures", "measures"),
)
"""Each as often as it stands here."""

_FITS: Mapping[str, Callable[[pa.DataType], bool]] = {
    "sum": is_number,
    "avg": is_number,
    "even_histogram": is_number,
    "histogram": lambda type_: type_ != pa.bool_(),
    "date_histogram": _is_time,
}
_WIDTHS: Mapping[str, Callable[[random.Random], int]] = {
    "facets": _few,
    "facet_table": _few,
    "count_distinct": _few,
}
_MORE: Mapping[str, Callable[[random.Random, Question], Any]] = {
    "top": lambda rng, question: rng.randint(0, 6),
    "histogram": _some_edges,
    "even_histogram": lambda rng, question: rng.choice(BINS),
    "date_histogram": _part_and_zone,
    "measures": lambda rng, question: is_number(question.types[-1]),
}
