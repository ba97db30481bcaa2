"""Any predicate means the same to rows, keys, statistics and DuckDB, and three-valued logic holds."""

from __future__ import annotations

import json
import math
import random
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.fuzzer.statistics import statistics
from support.histories import SCHEMA as ARROW
from support.predicates import POOLS, random_predicates
from support.truth import matches
from tailbit.index.keys import Value, encode_array, key_type_of, widen_keys
from tailbit.index.predicate.key_ranges import KeyRanges, key_ranges
from tailbit.index.predicate.pruning import FileTruths
from tailbit.index.predicate.tree import And, Constant, Leaf, Node, Or, is_null, is_true, negate
from tailbit.index.predicate.value_sets import Interval, ValueSet
from tailbit.index.sql.bind import bind
from tailbit.tables.delta.schema import parse_schema
from tailbit.tables.delta.statistics import DeltaStatistics
from tailbit.tables.model import FileSlice
from tailbit.tables.schema import Schema

NUMBERS = st.integers(-4, 4)
SOME_DOUBLES = st.sampled_from([-math.inf, -1.5, -0.0, 0.0, 1.0, 1.5, math.inf, math.nan])
SOME_BYTES = st.sampled_from([b"", b"a", b"ab", b"b", b"x" * 256, b"x" * 256 + b"a", b"x" * 256 + b"b", b"y"])


def sets(values: st.SearchStrategy[Any]) -> st.SearchStrategy[ValueSet]:
    intervals = st.builds(Interval, st.none() | values, st.booleans(), st.none() | values, st.booleans())
    return st.builds(
        ValueSet.of, st.lists(intervals | values.map(point), max_size=4), st.booleans(), st.booleans()
    )


def point(value: Value) -> Interval:
    return Interval(value, True, value, True)


ALL_SETS = st.sampled_from([NUMBERS, SOME_DOUBLES, SOME_BYTES]).flatmap(
    lambda values: st.tuples(sets(values), sets(values), values | st.none())
)


@given(ALL_SETS)
def test_sets_intersect_unite_and_invert_as_their_members_do(case: tuple[ValueSet, ValueSet, Any]) -> None:
    one, other, value = case
    a, b = one.contains(value), other.contains(value)
    assert one.intersect(other).contains(value) == (a and b)
    assert one.union(other).contains(value) == (a or b)
    assert one.inverse().contains(value) == (not a)
    assert one.others().contains(value) == (
        value is not None and ValueSet(one.intervals, one.complement).inverse().contains(value)
    )
    if value is not None and a:
        assert one.touches(value, value)
        assert one.touches(None, value)


def selected(wanted: ValueSet, ranges: KeyRanges, keys: list[bytes | None]) -> tuple[list[bool], list[bool]]:
    """Where a set of values is sure and where it may be, of keys, as an index reads ranges."""
    within = [
        [key is not None and any(_in(r, key) for r in part) for key in keys]
        for part in (ranges.sure, ranges.maybe)
    ]
    sure, maybe = within[0], [a or b for a, b in zip(*within, strict=True)]
    if wanted.complement:
        sure, maybe = (
            [k is not None and not m for k, m in zip(keys, part, strict=True)] for part in (maybe, sure)
        )
    null = [key is None and wanted.nulls for key in keys]
    return [s or n for s, n in zip(sure, null, strict=True)], [
        m or n for m, n in zip(maybe, null, strict=True)
    ]


def _in(found: tuple[bytes | None, bool, bytes | None, bool], key: bytes) -> bool:
    lo, lo_closed, hi, hi_closed = found
    above = lo is None or key > lo or (lo_closed and key == lo)
    return above and (hi is None or key < hi or (hi_closed and key == hi))


@given(st.lists(SOME_BYTES | st.none()), sets(SOME_BYTES))
def test_ranges_of_keys_bound_the_rows_of_a_set(values: list[bytes | None], wanted: ValueSet) -> None:
    keys = encode_array(pa.array(values, pa.binary()), "binary").to_pylist()
    sure, maybe = selected(wanted, key_ranges(wanted, "binary", "binary"), keys)
    truth = [wanted.contains(v) for v in values]
    assert all(s <= t <= m for s, t, m in zip(sure, truth, maybe, strict=True))
    assert all(s == m for s, m, v in zip(sure, maybe, values, strict=True) if v is None or len(v) <= 256)


@given(st.lists(NUMBERS), sets(SOME_DOUBLES), sets(st.integers(-450, 450)))
def test_ranges_of_narrower_keys_hold_the_rows_of_a_set(
    values: list[int], doubles: ValueSet, hundredths: ValueSet
) -> None:
    keys = encode_array(pa.array(values, pa.int64()), "integer")
    for wanted, current, scaled in (
        (doubles, "double", [float(v) for v in values]),
        (hundredths, "decimal(2)", [v * 100 for v in values]),
    ):
        truth = [wanted.contains(v) for v in scaled]
        assert selected(wanted, key_ranges(wanted, current, "integer"), keys.to_pylist()) == (truth, truth)
        widened = widen_keys(keys, "integer", current).to_pylist()
        assert selected(wanted, key_ranges(wanted, current, current), widened) == (truth, truth)


def delta_schema() -> Schema:
    names = {"int32": "integer", "int64": "long", "int8": "byte", "float": "float", "double": "double"}
    names |= {
        "string": "string",
        "bool": "boolean",
        "date32[day]": "date",
        "timestamp[us, tz=UTC]": "timestamp",
    }
    fields = [
        {
            "name": f.name,
            "type": str(f.type).replace("decimal128", "decimal").replace(" ", "")
            if pa.types.is_decimal(f.type)
            else names[str(f.type)],
            "nullable": True,
            "metadata": {},
        }
        for f in TABLE.schema
    ]
    return parse_schema(json.dumps({"type": "struct", "fields": fields}), [], {}, "test")


def random_rows(rng: random.Random, count: int) -> pa.Table:
    columns = {}
    for name, pool in POOLS.items():
        values = [None if rng.random() < 0.15 else rng.choice(pool) for _ in range(count)]
        columns[name] = pa.array(values, ARROW.field(name).type if name in ARROW.names else pa.string())
    return pa.table(columns)


TABLE = random_rows(random.Random(7), 400)
SCHEMA = delta_schema()


@pytest.mark.parametrize("seed", range(8))
def test_random_predicates_are_what_duckdb_says(seed: int) -> None:
    predicates = random_predicates(random.Random(seed), 60)
    judged = ", ".join(f"({p.duckdb}) AS p{n}" for n, p in enumerate(predicates))
    with duckdb.connect() as engine:
        engine.execute("SET TimeZone = 'UTC'")
        engine.register("rows", TABLE)
        theirs = engine.sql(f"SELECT {judged} FROM rows").to_arrow_table()
    for n, predicate in enumerate(predicates):
        node = bind(predicate.spark, SCHEMA)
        for asked, wanted in ((node, True), (negate(node), False), (is_null(node), None)):
            expected = [value is wanted for value in theirs[f"p{n}"].to_pylist()]
            assert matches(asked, TABLE, {}).tolist() == expected, (predicate.spark, wanted)


@pytest.mark.parametrize("seed", range(4))
def test_a_predicate_its_negation_and_its_null_share_out_every_row(seed: int) -> None:
    for predicate in random_predicates(random.Random(100 + seed), 40):
        node = bind(predicate.spark, SCHEMA)
        parts = np.array([matches(n, TABLE, {}) for n in (node, negate(node), is_null(node))])
        assert (parts.sum(axis=0) == 1).all(), predicate.spark
        assert (matches(is_true(node), TABLE, {}) == parts[0]).all()
        assert (matches(negate(is_true(node)), TABLE, {}) == ~parts[0]).all()


@pytest.mark.parametrize("seed", range(4))
def test_keys_and_rows_of_a_random_predicate_agree(seed: int) -> None:
    keys = {c.id: encode_array(TABLE[c.id], key_type_of(c.type)).to_pylist() for c in SCHEMA.columns}
    for predicate in random_predicates(random.Random(200 + seed), 40):
        node = bind(predicate.spark, SCHEMA)
        sure, maybe = by_keys(node, keys)
        truth = matches(node, TABLE, {})
        assert (sure <= truth).all(), predicate.spark
        assert (truth <= maybe).all(), predicate.spark


def by_keys(node: Node, keys: dict[str, list[bytes | None]]) -> tuple[Any, Any]:
    if isinstance(node, (And, Or)):
        fold = np.logical_and if isinstance(node, And) else np.logical_or
        parts = [by_keys(child, keys) for child in node.children]
        return fold.reduce([p[0] for p in parts]), fold.reduce([p[1] for p in parts])
    if isinstance(node, Constant):
        return (np.full(len(TABLE), node.value is True),) * 2
    assert isinstance(node, Leaf)
    key_type = key_type_of(node.column.type)
    sure, maybe = selected(node.true, key_ranges(node.true, key_type, key_type), keys[node.column.id])
    return np.array(sure), np.array(maybe)


@pytest.mark.parametrize("seed", range(4))
def test_a_file_that_holds_a_match_is_never_pruned(seed: int) -> None:
    rng = random.Random(300 + seed)
    predicates = [bind(p.spark, SCHEMA) for p in random_predicates(rng, 60)]
    for _ in range(30):
        start = rng.randrange(len(TABLE))
        part = TABLE.slice(start, rng.randint(1, 3))
        slice_ = FileSlice("f", 1, 0, len(part), stats=DeltaStatistics(json.dumps(statistics(part))))
        for node in predicates:
            assert FileTruths(node, [slice_]).can_match[0] or not matches(node, part, {}).any()
