"""Random definitions over the terms of every function, and random conditions that have to do with terms."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from support.function_cells import COLUMNS
from support.fuzzer.columns import in_spark
from support.fuzzer.definitions import RandomDefinition, random_definition
from support.implications import TABLE, TERMS, Cases, term
from support.random_conditions import Conditions
from tailbit.errors import TailbitError
from tailbit.index.functions.tree import columns_in


def definition_of_terms(rng: random.Random, partitions: Sequence[str]) -> RandomDefinition:
    """A definition over columns of `function_cells`, or of terms of every function; it may be refused."""
    made = random_definition(rng, [*COLUMNS, "st.city", "st.zip"], partitions)
    if made.kind != "bitmap":
        return made
    return replace(made, on=tuple(rng.choice((on, rng.choice(TERMS))) for on in made.on))


class TermConditions:
    """Makes conditions on terms, on their columns and on anything with one source of chance."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self._conditions, self._cases = Conditions(rng), Cases(rng)

    def condition(self, terms: Sequence[str]) -> str:
        """A random condition: on terms, on their columns, on anything, or several of these."""
        roll = self.rng.random()
        if roll < 0.35:
            return self._simple(terms)
        if roll < 0.9:
            parts = [f"({self._simple(terms)})" for _ in range(self.rng.choice((2, 2, 3)))]
            word, left = self.rng.choice(("AND", "AND", "OR")), self.rng.random() < 0.8
            whole = f" {word} ".join(parts)
            return whole if left else f"NOT ({whole})"
        return self._conditions.tree(2).text

    def _simple(self, terms: Sequence[str]) -> str:
        text = self.rng.choice(terms)
        try:
            of = term(text)
        except (TailbitError, KeyError):
            return self._conditions.atom(1)
        if self.rng.random() < 0.65:
            return self._cases.text(of, text)
        column = self.rng.choice(columns_in(of.expression))
        if column.id not in COLUMNS:
            return self._conditions.atom(self.rng.choice((0, 1)))
        value = self.rng.choice(TABLE[column.id].to_pylist())
        constant = "NULL" if value is None else in_spark(value, COLUMNS[column.id][1])
        return f"{column.label} {self.rng.choice(('=', '=', '<', '<=', '>', '>=', '<=>', '<>'))} {constant}"
