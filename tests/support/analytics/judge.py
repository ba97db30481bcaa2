"""DuckDB's answers to the same questions, over the rows that the maker of the table knows to be live.

Spark's semantics are asked for where DuckDB has others: -0.0 is made 0.0 before anything is counted, NULL is
first and NaN last in every order, combinations with NULL are not counted as distinct ones, and sums are those
of `sums`. Edges of bins of one width are tailbit's own choice: they must rise evenly from the least finite
value to the greatest, and each bin must hold what lies between its edges.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any

import duckdb
import pyarrow as pa

from support.analytics.answers import REFUSED, plain
from support.analytics.live import LiveRows, expressions
from support.analytics.moves import moved_rows
from support.analytics.questions import Question, is_number
from support.analytics.sums import average, is_near, total
from support.fuzzer.columns import DATE, in_duckdb


@dataclass(frozen=True)
class Answered:
    """A question, the state of the index that it met, and the answer."""

    question: Question
    moment: str
    found: Any


@dataclass(frozen=True)
class WrongAnswer:
    """An answer that is not the judge's."""

    given: Answered
    expected: Any

    def __str__(self) -> str:
        at = f"version {self.given.question.state.version}, index {self.given.moment}"
        return f"{self.given.question}\n  {at}\n  expected {self.expected}\n  found    {self.given.found}"


def judged(answers: Sequence[Answered]) -> list[WrongAnswer]:
    """Every answer that differs from DuckDB's."""
    wrong = []
    with duckdb.connect(config={"threads": 1}) as engine:
        live = LiveRows(engine)
        for given in answers:
            expected = _EXPECTED[given.question.kind](live, given.question, given.found)
            if expected != given.found:
                wrong.append(WrongAnswer(given, expected))
    return wrong


def _counted(live: LiveRows, question: Question, limit: str = "") -> list[Any]:
    """GROUP BY: the most frequent first, ties by the values, NULL first."""
    values = [f"{value} AS v{n}" for n, value in enumerate(expressions(question))]
    names = [f"v{n}" for n in range(len(values))]
    groups = f"SELECT {', '.join(values)}, count(*) AS n FROM {live.matching(question)} GROUP BY ALL"
    order = ", ".join(f"{name} ASC NULLS FIRST" for name in names)
    found = live.rows(f"SELECT * FROM ({groups}) ORDER BY n DESC, {order} {limit}")
    return [(*map(plain, row[:-1]), row[-1]) for row in found]


def _facets(live: LiveRows, question: Question, found: Any) -> Any:
    return _counted(live, question)


def _facet_table(live: LiveRows, question: Question, found: Any) -> Any:
    return [[str(type_) for type_ in question.types], _counted(live, question)]


def _top(live: LiveRows, question: Question, found: Any) -> Any:
    return _counted(live, question, f"LIMIT {question.more}")


def _distinct(live: LiveRows, question: Question, found: Any) -> Any:
    (value,) = expressions(question)
    sql = f"SELECT DISTINCT {value} AS v FROM {live.matching(question)}"
    return [plain(row[0]) for row in live.rows(f"SELECT v FROM ({sql}) ORDER BY v ASC NULLS FIRST")]


def _count_distinct(live: LiveRows, question: Question, found: Any) -> Any:
    values = ", ".join(expressions(question))
    present = " AND ".join(f"{column.duckdb} IS NOT NULL" for column in question.columns)
    inner = f"SELECT DISTINCT {values} FROM {live.matching(question)} AND {present}"
    ((count,),) = live.rows(f"SELECT count(*) FROM ({inner})")
    return count


def _extreme(live: LiveRows, question: Question, found: Any) -> Any:
    (value,) = expressions(question)
    ((extreme,),) = live.rows(f"SELECT {question.kind}({value}) FROM {live.matching(question)}")
    return plain(extreme)


def _spelled(value: Any) -> str:
    return REFUSED if value == REFUSED else plain(value)


def _sum(live: LiveRows, question: Question, found: Any) -> Any:
    return _spelled(total(live.values(question), question.types[0]))


def _avg(live: LiveRows, question: Question, found: Any) -> Any:
    return _near(average(live.values(question), question.types[0]), question, found)


def _near(expected: Any, question: Question, found: Any, type_: pa.DataType | None = None) -> Any:
    near = isinstance(found, str) and is_near(found, expected, type_ or question.types[0])
    return found if near else _spelled(expected)


def _summary(live: LiveRows, question: Question, found: Any) -> Any:
    values, (type_,), matching = live.values(question), question.types, live.matching(question)
    ((rows,),) = live.rows(f"SELECT count(*) FROM {matching}")
    sums = (total(values, type_), average(values, type_)) if is_number(type_) else (None, None)
    if REFUSED in sums:
        return REFUSED
    (value,) = expressions(question)
    (ends,) = live.rows(f"SELECT min({value}), max({value}) FROM {matching}")
    distinct = _count_distinct(live, question, found)
    mean = _near(sums[1], question, found[-1] if isinstance(found, list) else None)
    return [rows, rows - len(values), distinct, *map(plain, ends), plain(sums[0]), mean]


def _measures(live: LiveRows, question: Question, found: Any) -> Any:
    """GROUP BY by DuckDB, whose lists of values Python's exact fractions add up as Spark would."""
    *by, value = expressions(question)
    type_, names = question.types[-1], [f"v{n}" for n in range(len(question.columns) - 1)]
    groups = ", ".join(f"{one} AS {name}" for one, name in zip(by, names, strict=True))
    measured = f"min({value}), max({value}), list({value}) FILTER (WHERE {value} IS NOT NULL)"
    order = ", ".join(f"{name} ASC NULLS FIRST" for name in names)
    sql = f"SELECT {groups}, count(*) AS n, {measured} FROM {live.matching(question)} GROUP BY ALL"
    rows, expected = live.rows(f"{sql} ORDER BY n DESC, {order}"), []
    for at, (*key, n, least, most, values) in enumerate(rows):
        told = [plain(n), plain(least), plain(most)]
        if question.more:
            sums = total(values or [], type_), average(values or [], type_)
            if REFUSED in sums:
                return REFUSED
            mine = found[at][-1] if isinstance(found, list) and at < len(found) else None
            told += [_spelled(sums[0]), _near(sums[1], question, mine, type_)]
        expected.append((*map(plain, key), *told))
    return expected


def _histogram(live: LiveRows, question: Question, found: Any) -> Any:
    (value,), (type_,), edges = expressions(question), question.types, question.more
    sums = [
        f"count(*) FILTER ({value} >= {in_duckdb(low, type_)}"
        f" AND {value} <{'=' * (n == len(edges) - 2)} {in_duckdb(high, type_)})"
        for n, (low, high) in enumerate(pairwise(edges))
    ]
    (counts,) = live.rows(f"SELECT {', '.join(sums)} FROM {live.matching(question)}")
    return [(low, high, count) for (low, high), count in zip(pairwise(edges), counts, strict=True)]


def _even_histogram(live: LiveRows, question: Question, found: Any) -> Any:
    """The bins that were found, with the counts of what lies between their edges, where these are even."""
    values = [value for value in live.values(question) if not math.isnan(value)]
    finite = [value for value in values if math.isfinite(value)]
    if not finite or not isinstance(found, list):
        return [] if not finite else f"{question.more} bins"
    edges = [low for low, _, _ in found] + [found[-1][1]]
    if not _are_even(edges, min(finite), max(finite), question.more):
        return f"{question.more} bins from {min(finite)} to {max(finite)}"
    last = len(found) - 1
    return [
        (low, high, sum(low <= v < high or (n == last and v == high) for v in values))
        for n, (low, high) in enumerate(pairwise(edges))
    ]


def _are_even(edges: Sequence[Any], low: Any, high: Any, bins: int) -> bool:
    """Whether edges rise evenly, but for the rounding of doubles, from the least value to the greatest."""
    exact = [Fraction(edge) for edge in edges]
    if low == high:
        return len(edges) == 2 and edges[0] == low < edges[1]
    width = (Fraction(high) - Fraction(low)) / bins
    off = (abs(edge - Fraction(low) - width * n) for n, edge in enumerate(exact))
    return (
        len(edges) == bins + 1 and exact[0] == low and exact[-1] == high and all(d * 500 < width for d in off)
    )


def _date_histogram(live: LiveRows, question: Question, found: Any) -> Any:
    (value,), (type_,), (part, zone) = expressions(question), question.types, question.more
    cut = f"date_trunc('{part}', {value})"
    number = (
        f"CAST(date_trunc('{part}', {value}) AS DATE) - DATE '1970-01-01'"
        if type_ == DATE
        else f"epoch_us({cut})"
    )
    sql = f"SELECT {number} AS part, count(*) AS n FROM {live.matching(question)} GROUP BY ALL"
    return live.rows(f"SELECT * FROM ({sql}) ORDER BY part ASC NULLS FIRST", zone)


def _crosstab(live: LiveRows, question: Question, found: Any) -> Any:
    one, other = expressions(question)
    matching = live.matching(question)
    sql = f"SELECT {one} AS one, {other} AS other, count(*) AS n FROM {matching} GROUP BY ALL"
    cells = [(plain(a), plain(b), n) for a, b, n in live.rows(sql)]
    rows, columns = (
        [
            plain(v)
            for (v,) in live.rows(
                f"SELECT v FROM (SELECT DISTINCT {value} AS v FROM {matching}) ORDER BY v ASC NULLS FIRST"
            )
        ]
        for value in (one, other)
    )
    counts = [[0] * len(columns) for _ in rows]
    for a, b, n in cells:
        counts[rows.index(a)][columns.index(b)] = n
    return [rows, columns, counts]


# `found` itself is expected where more than one answer is right, and it is one of them.
_EXPECTED: Mapping[str, Callable[[LiveRows, Question, Any], Any]] = {
    "facets": _facets,
    "facet_table": _facet_table,
    "top": _top,
    "distinct": _distinct,
    "count_distinct": _count_distinct,
    "min": _extreme,
    "max": _extreme,
    "sum": _sum,
    "avg": _avg,
    "summary": _summary,
    "measures": _measures,
    "histogram": _histogram,
    "even_histogram": _even_histogram,
    "date_histogram": _date_histogram,
    "crosstab": _crosstab,
    "transitions": lambda live, question, found: moved_rows(live, question),
}
