"""DuckDB's verdict on what tailbit answered: all predicates over the rows of all versions, in one pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from support.fuzzer.asks import Ask, Version, same_facets
from support.oracle import Positions
from support.predicates import Predicate

Truth = npt.NDArray[np.bool_]
Verdict = Callable[[pa.Table, Sequence[Predicate]], list[Truth]]
"""Per predicate, the rows where it is TRUE."""

PREDICATES_A_QUERY = 200


@dataclass(frozen=True)
class Mismatch:
    """An answer that is not the judge's."""

    ask: Ask
    expected: str
    found: str

    def __str__(self) -> str:
        at = f"version {self.ask.version.version}, index {self.ask.moment}"
        return f"{self.ask.predicate.spark}\n  {at}\n  expected {self.expected}\n  found    {self.found}"


def by_duckdb(rows: pa.Table, predicates: Sequence[Predicate]) -> list[Truth]:
    """Where DuckDB finds each predicate TRUE."""
    truths: list[Truth] = []
    with duckdb.connect(config={"threads": 1}) as engine:
        engine.execute("SET TimeZone = 'UTC'")
        numbered = rows.append_column("row number", pa.array(np.arange(len(rows))))
        engine.register("live", numbered)
        for start in range(0, len(predicates), PREDICATES_A_QUERY):
            some = predicates[start : start + PREDICATES_A_QUERY]
            judged = ", ".join(f"coalesce({p.duckdb}, FALSE) AS p{n}" for n, p in enumerate(some))
            table = engine.sql(f'SELECT {judged} FROM live ORDER BY "row number"').to_arrow_table()
            truths += [np.asarray(table[f"p{n}"], dtype=bool) for n in range(len(some))]
    return truths


def judge(asks: Sequence[Ask], verdict: Verdict = by_duckdb) -> list[Mismatch]:
    """Every answer that differs from the verdict."""
    groups: dict[object, list[Ask]] = {}
    for one in asks:
        groups.setdefault(one.version.key, []).append(one)
    return [wrong for group in groups.values() for wrong in _group(group, verdict)]


def _group(asks: list[Ask], verdict: Verdict) -> Iterator[Mismatch]:
    """Judge asks about versions of one schema."""
    versions: dict[int, Version] = {id(a.version): a.version for a in asks}
    parts = {key: version.rows() for key, version in versions.items()}
    starts = dict(zip(parts, np.cumsum([0, *map(len, parts.values())]).tolist(), strict=False))
    truths = verdict(pa.concat_tables(list(parts.values())), [a.predicate for a in asks])
    for one, truth in zip(asks, truths, strict=True):
        rows, start = parts[id(one.version)], starts[id(one.version)]
        wrong = _compare(one, rows, np.flatnonzero(truth[start : start + len(rows)]))
        if wrong is not None:
            yield wrong


def _compare(one: Ask, rows: pa.Table, true: npt.NDArray[np.int64]) -> Mismatch | None:
    found, at = one.found, pa.array(true, pa.int64())
    chosen = rows.select(["file", "position"]).take(at)
    expected: Positions = {}
    for file, position in zip(chosen["file"].to_pylist(), chosen["position"].to_pylist(), strict=True):
        expected.setdefault(file, []).append(position)
    if found.error:
        return Mismatch(one, str(expected), found.error)
    if found.positions != expected:
        return Mismatch(one, str(expected), str(found.positions))
    if found.count != len(true):
        return Mismatch(one, f"{len(true)} rows", f"{found.count} rows counted")
    if found.rows is not None:
        wanted = rows.drop_columns(["file", "position"]).take(at).to_pylist()
        if repr(found.rows) != repr(wanted):
            return Mismatch(one, f"rows {wanted}", f"rows {found.rows}")
    if found.facets is not None:
        column, facets = found.facets
        values = _values(rows.take(at), column.parts)
        if not same_facets(facets, values):
            return Mismatch(one, f"{column.spark} {values}", f"{column.spark} {facets}")
    return None


def _values(rows: pa.Table, parts: Sequence[str]) -> list[object]:
    values = rows[parts[0]].combine_chunks()
    return list((pc.struct_field(values, list(parts[1:])) if parts[1:] else values).to_pylist())
