"""What tailbit answers to a question, in a spelling in which it can be compared with the judge's."""

from __future__ import annotations

import datetime
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np

import tailbit
from support.analytics.questions import Question
from support.fuzzer.asks import EVERYTHING
from tailbit.answer import Answer
from tailbit.errors import AggregateError
from tailbit.index.grouping import grouping
from tailbit.index.grouping.choice import Choice, CountingWay, choose

REFUSED = "refused: beyond its type"
"""In place of a sum or an average that Spark's ANSI mode refuses as well."""

_MICRO = datetime.timedelta(microseconds=1)
_EPOCH = datetime.datetime.fromisoformat("1970-01-01")


def plain(value: Any) -> str:
    """A value as text: NaN is one value, zeros have signs, decimals their digits, instants are in UTC."""
    if isinstance(value, datetime.datetime):
        return value.replace(tzinfo=None).isoformat()
    return repr(value)


def micros(value: Any) -> Any:
    """A date or time, or text of one beyond Python's calendar, as a number; None as it is."""
    if isinstance(value, datetime.datetime):
        return (value.replace(tzinfo=None) - _EPOCH) // _MICRO
    if isinstance(value, str):
        return int(np.datetime64(value.rstrip("Z").replace(" ", "T"), "us").astype(np.int64))
    return None if value is None else (value - _EPOCH.date()).days


def answered(opened: tailbit.IndexedTable, question: Question, rng: random.Random) -> Any:
    """The answer by any of the ways that an answer can be found; an error as text."""
    try:
        with _any_way(rng):
            return _found(opened, question, rng)
    except AggregateError:
        return REFUSED
    except Exception as error:  # Whatever else is raised is a finding.
        return f"{type(error).__name__}: {error}"


def _found(opened: tailbit.IndexedTable, question: Question, rng: random.Random) -> Any:
    names = [column.spark for column in question.columns]
    if question.kind == "transitions":
        moved = opened.transitions(names[0], question.state.version, question.more.version)
        return [(plain(value), *counts) for value, counts in moved.items()]
    whole = question.where is EVERYTHING and rng.random() < 0.5
    answer = opened.where(None if whole else question.where.spark, version=question.state.version)
    if rng.random() < 0.3:
        answer.count() if rng.random() < 0.5 else answer.positions()
    return _ASK[question.kind](answer, names, question.more)


@contextmanager
def _any_way(rng: random.Random) -> Iterator[None]:
    """Rows are grouped in a random way, since estimates for small tables would choose one alone.

    Each way must give the same: the choice is of time, never of the answer.
    """

    def drawn(choice: Choice) -> Choice:
        able = [way for way in choice.estimates if way is not CountingWay.RECORDED]
        return replace(choice, method=rng.choice(able)) if able and rng.random() < 0.8 else choice

    with patch.object(grouping, "choose", lambda *given: drawn(choose(*given))):
        yield


def _facets(answer: Answer, names: list[str], more: Any) -> list[Any]:
    return _rows(answer.facets(*names), len(names))


def _rows(counts: Mapping[Any, int], width: int) -> list[Any]:
    values = [(value,) if width == 1 else value for value in counts]
    pairs = zip(values, counts.values(), strict=True)
    return [(*map(plain, value), count) for value, count in pairs]


def _facet_table(answer: Answer, names: list[str], more: Any) -> list[Any]:
    table = answer.facet_table(*names)
    columns = [column.to_pylist() for column in table.columns]
    types = [str(field.type) for field in table.schema][:-1]
    return [types, [(*map(plain, row[:-1]), row[-1]) for row in zip(*columns, strict=True)]]


def _summary(answer: Answer, names: list[str], more: Any) -> list[Any]:
    found = answer.summary(*names)
    numbers = [found.rows, found.nulls, found.distinct]
    return [*numbers, *map(plain, (found.min, found.max, found.sum, found.avg))]


def _measures(answer: Answer, names: list[str], more: Any) -> list[Any]:
    """The last column is measured by the others: its extremes, and its sums where it is a number."""
    *by, measured = names
    functions = ("min", "max", "sum", "avg") if more else ("min", "max")
    found = answer.facets(*by, **dict.fromkeys(functions, measured))
    keys = [(value,) if len(by) == 1 else value for value in found]
    pairs = zip(keys, found.values(), strict=True)
    in_turn = [
        "count",
        *(f"{name}({answer._selection.schema.resolve(measured).label})" for name in functions),
    ]
    return [(*map(plain, key), *(plain(record[name]) for name in in_turn)) for key, record in pairs]


def _bins(answer: Answer, names: list[str], more: Any) -> list[Any]:
    return [(bin_.low, bin_.high, bin_.count) for bin_ in answer.histogram(names[0], more)]


def _crosstab(answer: Answer, names: list[str], more: Any) -> list[Any]:
    found = answer.crosstab(*names)
    return [[*map(plain, found.rows)], [*map(plain, found.columns)], found.counts.tolist()]


def _date_histogram(answer: Answer, names: list[str], more: Any) -> list[Any]:
    return [(micros(value), count) for value, count in answer.date_histogram(names[0], *more).items()]


_ASK: Mapping[str, Callable[[Answer, list[str], Any], Any]] = {
    "facets": _facets,
    "facet_table": _facet_table,
    "top": lambda answer, names, more: _rows(answer.top(names[0], more), 1),
    "distinct": lambda answer, names, more: [*map(plain, answer.distinct(*names))],
    "count_distinct": lambda answer, names, more: answer.count_distinct(*names),
    "min": lambda answer, names, more: plain(answer.min(*names)),
    "max": lambda answer, names, more: plain(answer.max(*names)),
    "sum": lambda answer, names, more: plain(answer.sum(*names)),
    "avg": lambda answer, names, more: plain(answer.avg(*names)),
    "summary": _summary,
    "measures": _measures,
    "histogram": _bins,
    "even_histogram": _bins,
    "date_histogram": _date_histogram,
    "crosstab": _crosstab,
}
