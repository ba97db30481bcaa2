"""No row contradicts what a condition implies for an indexed term."""

from __future__ import annotations

import random

from support.implications import TERMS, ZONES, Cases, arrays, contradiction, term
from support.profiles import FACTOR, SEED
from tailbit.index.functions.tree import columns_in
from tailbit.index.predicate.implied import implied
from tailbit.index.predicate.tree import columns_of

ROWS = 64


def test_where_sure_is_true_the_condition_is_and_where_the_condition_is_true_maybe_is() -> None:
    rng = random.Random(SEED)
    cases = Cases(rng)
    kinds = {"exact": 0, "sure": 0, "maybe": 0, "nothing": 0}
    while sum(kinds.values()) < 2000 * FACTOR:
        text, zone = rng.choice(TERMS), rng.choice(ZONES)
        of = term(text, zone)
        node = cases.condition(of, text, zone)
        if node is None:
            continue
        said = implied(node, of)
        if said is None:
            kinds["nothing"] += 1
            continue
        kinds["exact" if said.exact else "sure" if said.sure is not None else "maybe"] += 1
        columns = {column.id: column for column in (*columns_in(of.expression), *columns_of(node))}
        given = arrays(list(columns.values()), rng, ROWS)
        assert contradiction(node, of, said, given, ROWS) == "", (text, zone)
    assert min(kinds.values()) > 100 * FACTOR, kinds
