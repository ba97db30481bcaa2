"""Random conditions on the columns of a table; none of them raises an error for a row."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass

from support.plain_sql.kinds import SIGNS, ColumnKind


@dataclass(frozen=True)
class Column:
    """A column whose rows are made of fewer than `most` numbers; a `scattered` one has them in any file."""

    name: str
    kind: ColumnKind
    most: int
    scattered: bool

    @property
    def sql(self) -> str:
        """The quoted name."""
        return f"`{self.name.replace('`', '``')}`"


class Conditions:
    """Conditions on some columns, drawn with one source of chance."""

    def __init__(self, rng: random.Random, columns: Mapping[str, Column]) -> None:
        self._rng, self._columns = rng, [*columns.values()]

    def tree(self) -> str:
        """Return a condition, which is often a selective one beside another."""
        draw = self._rng.random()
        if draw < 0.35:
            return self.selective()
        if draw < 0.75:
            return f"{self.selective()} AND {self._tree(1)}"
        return self._tree(2)

    def _tree(self, depth: int) -> str:
        draw = self._rng.random()
        if depth == 0 or draw < 0.3:
            return self.atom()
        if draw < 0.45:
            return f"(NOT {self._tree(depth - 1)})"
        word = self._rng.choice(("AND", "OR", "OR"))
        return f"({self._tree(depth - 1)} {word} {self._tree(depth - 1)})"

    def selective(self) -> str:
        """Return an equality on a column of many values, of several columns where it can be."""
        rng = self._rng
        many = [column for column in self._columns if column.most > 20 and not column.kind.is_nested]
        if not many:
            return self.atom()
        column = rng.choice(many)
        a, b = (column.kind.literal(rng, column.most) for _ in range(2))
        form = rng.choice(("{c} = {a}", "{c} IN ({a}, {b})", "{c} <=> {a}", "({c} = {a} OR {c} = {b})"))
        return f"({form.format(c=column.sql, a=a, b=b)})"

    def atom(self) -> str:
        rng, column = self._rng, self._rng.choice(self._columns)
        name, kind = column.sql, column.kind
        if kind.special and rng.random() < (0.8 if kind.is_nested else 0.25):
            return f"({rng.choice(kind.special).format(c=name, a=kind.literal(rng, column.most))})"
        if kind.is_nested or rng.random() < 0.08:
            return f"({name} IS {rng.choice(('', 'NOT '))}NULL)"
        literals = [kind.literal(rng, column.most) for _ in range(rng.choice((2, 2, 3, 13)))]
        forms = (
            f"{name} {rng.choice(SIGNS)} {literals[0]}",
            f"{literals[0]} {rng.choice(SIGNS)} {name}",
            f"{name} {rng.choice(('', '', 'NOT '))}IN ({', '.join(literals)})",
            f"{name} BETWEEN {literals[0]} AND {literals[1]}",
            self._of_two(column),
        )
        return f"({rng.choice(forms)})"

    def _of_two(self, column: Column) -> str:
        """Return a comparison with another column of the same type, where there is one."""
        others = [other for other in self._columns if other.kind == column.kind and other != column]
        other = self._rng.choice(others or [column])
        return f"{column.sql} {self._rng.choice(SIGNS)} {other.sql}"
