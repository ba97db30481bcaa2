"""Shapes of queries over one condition, as branches of a UNION ALL whose columns are texts."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from support.plain_sql.conditions import Column, Conditions
from support.plain_sql.table import RandomTable, Version

WIDTH = 6
"""Columns of a branch after its number."""


TOLD = 0.65
"""Share of the queries that are about columns which bitmaps tell: else hardly a group would be served."""


@dataclass(frozen=True)
class Branch:
    """A query of one condition at a version of a table."""

    number: int
    table: RandomTable
    version: Version
    sql: str


def branch(rng: random.Random, shape: str, number: int, table: RandomTable) -> Branch:
    """Return a random query of a shape: `rows`, `counts` or `groups`."""
    newest, *before = table.versions
    version = rng.choice(before) if before and rng.random() < (0.3 if not newest.covered else 0.5) else newest
    told = table.told(version) if rng.random() < TOLD else {}
    return Branch(number, table, version, SHAPES[shape](_Asked(rng, number, version, told)))


class _Asked:
    """What a branch asks of a version, about some of its columns."""

    def __init__(self, rng: random.Random, number: int, version: Version, told: Mapping[str, Column]) -> None:
        self.rng, self.number, self.view = rng, number, version.view
        self.columns, self._is_told = [*(told or version.columns).values()], bool(told)
        self._conditions = Conditions(rng, told or version.columns)

    def condition(self) -> str:
        is_simple = self._is_told and self.rng.random() < 0.6
        return self._conditions.selective() if is_simple else self._conditions.tree()

    def where(self) -> str:
        """Return the version with a condition of its own."""
        return f"{self.view} WHERE {self.condition()}"

    def some(self, most: int, nested: bool = False) -> list[Column]:
        """Return up to some columns; few that are nested."""
        fit = [c for c in self.columns if not c.kind.is_nested or (nested and self.rng.random() < 0.3)]
        return self.rng.sample(fit, min(len(fit), self.rng.randint(1, most)))

    def cells(self, cells: Sequence[str]) -> str:
        """Return texts of expressions with their names, as many as a branch has."""
        texts = [*cells, *["CAST(NULL AS STRING)"] * (WIDTH - len(cells))]
        named = ", ".join(f"{text} AS c{number}" for number, text in enumerate(texts))
        return f"SELECT {self.number} AS branch, {named}"


def _text(column: Column, prefix: str = "") -> str:
    name = f"{prefix}{column.sql}"
    return f"hex({name})" if column.kind.type == "BINARY" else f"CAST({name} AS STRING)"


def _rows(asked: _Asked) -> str:
    rng, where = asked.rng, f"FROM {asked.where()}"
    shown = [_text(column) for column in asked.some(WIDTH, nested=rng.random() < 0.25)]
    forms: Sequence[Callable[[], str]] = (
        lambda: f"{asked.cells(shown)} {where}",
        lambda: f"{asked.cells(shown)} {where}",
        lambda: f"{asked.cells(shown)} {where}",
        lambda: f"SELECT * FROM ({asked.cells(shown)} {where} ORDER BY id DESC LIMIT {rng.randint(1, 9)})",
        lambda: f"{asked.cells(['CAST(sum(id) AS STRING)', f'max({shown[0]})'])} {where}",
        lambda: _joined(asked, where),
        lambda: f"{asked.cells(shown)} {where} AND id IN (SELECT id FROM {asked.where()})",
        lambda: f"{asked.cells([*shown[:5], _scalar(asked)])} {where}",
        lambda: f"{asked.cells([*shown[:5], _window()])} {where}",
        lambda: (
            f"{asked.cells(['CAST(x.id + n AS STRING)'])} FROM (SELECT * {where}) x"
            " JOIN VALUES (1), (3) AS y(n) ON x.id % 4 = n"
        ),
    )
    return rng.choice(forms)()


def _joined(asked: _Asked, where: str) -> str:
    """Return a join of the table with itself."""
    left = [_text(column, "x.") for column in asked.some(3)]
    right = [_text(column, "y.") for column in asked.some(3)]
    other = f"FROM {asked.where()}"
    kind = asked.rng.choice(("JOIN", "LEFT JOIN", "LEFT ANTI JOIN", "FULL JOIN"))
    shown = left if "ANTI" in kind else [*left, *right]
    return f"{asked.cells(shown)} FROM (SELECT * {where}) x {kind} (SELECT * {other}) y ON x.id = y.id"


def _scalar(asked: _Asked) -> str:
    return f"CAST((SELECT count(*) FROM {asked.where()}) AS STRING)"


def _window() -> str:
    return "CAST(row_number() OVER (PARTITION BY id % 3 ORDER BY id) AS STRING)"


def _measures(asked: _Asked, most: int) -> list[str]:
    """Return aggregates, the number of rows first."""
    forms = ("count({})", "count(DISTINCT {})", "min({})", "max({})", "min({})", "max({})")
    measures = ["CAST(count(*) AS STRING)"]
    for column in asked.some(most):
        aggregate = asked.rng.choice(forms[2:] if asked.rng.random() < 0.8 else forms)
        text = aggregate.format(column.sql)
        is_binary = column.kind.type == "BINARY" and not text.startswith("count")
        measures.append(f"hex({text})" if is_binary else f"CAST({text} AS STRING)")
    return measures if asked.rng.random() < 0.6 else measures[:1]


def _counts(asked: _Asked) -> str:
    return f"{asked.cells(_measures(asked, WIDTH - 1))} FROM {asked.where()}"


def _groups(asked: _Asked) -> str:
    by = asked.some(2)
    where = f"FROM {asked.where()}"
    shown = [_text(column) for column in by]
    names = ", ".join(column.sql for column in by)
    if asked.rng.random() < 0.2:
        return f"{asked.cells(shown)} FROM (SELECT DISTINCT {names} {where})"
    having = asked.rng.choice(("", "", " HAVING count(*) > 1"))
    return f"{asked.cells([*shown, *_measures(asked, 2)])} {where} GROUP BY {names}{having}"


SHAPES: Mapping[str, Callable[[_Asked], str]] = {"rows": _rows, "counts": _counts, "groups": _groups}
"""By the mode that serves the shape; a mode that serves rows to executors asks the first one."""
