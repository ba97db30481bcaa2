"""Ranges over many keys are counted and found as numpy finds them, whatever is held of codes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import tailbit
from support.delta_builder import DeltaBuilder
from support.tables import DAMAGES, LONG, VECTORS, index_files, index_of
from tailbit.index.evaluation.access import count_by_cardinalities
from tailbit.index.evaluation.costs import SPENT, making
from tailbit.index.evaluation.evaluate import evaluate
from tailbit.index.evaluation.key_selection import UNIONS, RangeKeys, keys_of
from tailbit.index.keys import encode_value
from tailbit.index.postings import codes
from tailbit.index.postings.codes import CODES, codes_of, held_codes
from tailbit.index.postings.segment import POSTINGS

ROWS, KEYS = 30_000, 4000
NUMBERS = np.random.default_rng(3).integers(0, KEYS, ROWS)
TEXTS = [None if n % 11 == 0 else (LONG if n % 301 == 0 else "t") + f"{n:05d}" for n in NUMBERS.tolist()]
LIVE = np.ones(ROWS, dtype=bool)
LIVE[::7] = False

SEVENTHS = tuple(range(3, KEYS, 7))
TENS = " OR ".join(f"n BETWEEN {low} AND {low + 3}" for low in range(0, KEYS, 10))

RANGES: Sequence[tuple[str, Callable[[], np.ndarray]]] = [
    ("n BETWEEN 500 AND 2999", lambda: (NUMBERS >= 500) & (NUMBERS <= 2999)),
    ("n > 500 AND n < 2999", lambda: (NUMBERS > 500) & (NUMBERS < 2999)),
    ("NOT (n BETWEEN 500 AND 2999)", lambda: (NUMBERS < 500) | (NUMBERS > 2999)),
    ("n < 1000 OR n >= 3000", lambda: (NUMBERS < 1000) | (NUMBERS >= 3000)),
    ("n >= 1000 AND k < 90", lambda: (NUMBERS >= 1000) & (np.arange(ROWS) < 90)),
    ("n >= 1000 AND NOT (k < 90)", lambda: (NUMBERS >= 1000) & (np.arange(ROWS) >= 90)),
    ("n < 3000 OR k < 90", lambda: (NUMBERS < 3000) | (np.arange(ROWS) < 90)),
    ("n <> 7", lambda: NUMBERS != 7),
    ("n > 9999", lambda: NUMBERS > 9999),
    ("t >= 't01000'", lambda: np.array([t is not None and t >= "t01000" for t in TEXTS])),
    ("t < 't01000'", lambda: np.array([t is not None and t < "t01000" for t in TEXTS])),
    ("NOT (t < 't01000')", lambda: np.array([t is not None and t >= "t01000" for t in TEXTS])),
    ("t < 't01000' OR t IS NULL", lambda: np.array([t is None or t < "t01000" for t in TEXTS])),
    ("t > 'xx'", lambda: np.array([t is not None and t > "xx" for t in TEXTS])),
    (f"n IN {SEVENTHS}", lambda: NUMBERS % 7 == 3),
    (f"n IN {SEVENTHS} AND k < 9000", lambda: (NUMBERS % 7 == 3) & (np.arange(ROWS) < 9000)),
    (f"NOT (n IN {SEVENTHS}) OR k < 9000", lambda: (NUMBERS % 7 != 3) | (np.arange(ROWS) < 9000)),
    (TENS, lambda: NUMBERS % 10 < 4),
    ("n % 3 = 1", lambda: NUMBERS % 3 == 1),
    ("NOT (n % 3 = 1)", lambda: NUMBERS % 3 != 1),
    ("n % 3 = 1 AND n % 2 = 0 AND k < 9000", lambda: (NUMBERS % 6 == 4) & (np.arange(ROWS) < 9000)),
    ("k % 2 = 1", lambda: np.arange(ROWS) % 2 == 1),
    ("t LIKE '%7'", lambda: np.array([t is not None and t.endswith("7") for t in TEXTS])),
    ("length(t) > 10 OR t IS NULL", lambda: np.array([t is None or len(t) > 10 for t in TEXTS])),
]


@pytest.fixture(scope="module", params=["all rows are shown", "rows are hidden"])
def table(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, np.ndarray]:
    path = str(tmp_path_factory.mktemp("spans") / "t")
    rows = pa.table({"k": pa.array(range(ROWS), pa.int64()), "n": pa.array(NUMBERS), "t": TEXTS})
    builder = DeltaBuilder(path).create(rows.schema, **VECTORS)
    builder.commit([builder.data_file(rows, "f.parquet")])
    if request.param == "all rows are shown":
        index_of(path, ["k", "n", "t"])
        return path, np.ones(ROWS, dtype=bool)
    (vector,) = builder.stored_vectors(np.flatnonzero(~LIVE).tolist())
    builder.commit(builder.hide("f.parquet", vector))
    index_of(path, ["k", "n", "t"])
    return path, LIVE


@pytest.mark.parametrize("codes_are_held", [False, True])
@pytest.mark.parametrize(("where", "truth"), RANGES, ids=[where[:40] for where, _ in RANGES])
def test_a_range_over_many_keys_holds_the_rows_it_says(
    table: tuple[str, np.ndarray], where: str, truth: Callable[[], np.ndarray], codes_are_held: bool
) -> None:
    path, shown = table
    for cache in (CODES, SPENT, POSTINGS, UNIONS):
        cache.clear()
    opened = tailbit.open(path)
    if codes_are_held:
        (segment,) = opened.where()._selection.coverage.spaces[0].segments
        for column in ("n", "t", "k"):
            codes_of(segment, column)
    expected = np.flatnonzero(truth() & shown)
    for _ in range(3):
        assert opened.where(where).count() == len(expected)
        assert np.array_equal(opened.where(where).positions().get("f.parquet", []), expected)


def test_a_count_over_many_keys_reads_no_posting_where_all_rows_are_shown(
    table: tuple[str, np.ndarray],
) -> None:
    path, shown = table
    for cache in (CODES, SPENT, POSTINGS, UNIONS):
        cache.clear()
    selection = tailbit.open(path).where("n BETWEEN 500 AND 2999")._selection
    space = selection.coverage.spaces[0]
    assert (count_by_cardinalities(selection.node, space) is not None) == bool(shown.all())
    if shown.all():
        selection.count()
        assert not space.segments[0].is_held("n")


def test_codes_are_made_for_a_range_that_is_asked_again(table: tuple[str, np.ndarray]) -> None:
    for cache in (CODES, SPENT, POSTINGS, UNIONS):
        cache.clear()
    selection = tailbit.open(table[0]).where("n < 3900")._selection
    (segment,) = selection.coverage.spaces[0].segments
    column = selection.schema.resolve("n")
    made = []
    for key in range(40):
        low = encode_value(key, "integer")
        RangeKeys(segment, column.id, [(low, True, None, False)]).bitmaps()
        made.append(held_codes(segment, column.id) is not None)
    assert made[-1]
    found, _ = keys_of(column, selection.node.true, segment)
    assert found.has_codes
    assert found.keys > 3000


@pytest.mark.parametrize("harm", DAMAGES)
def test_a_range_over_many_keys_is_right_where_the_segment_is_damaged(
    tmp_path: Path, harm: Callable[[Path], None]
) -> None:
    path = str(tmp_path / "t")
    rows = pa.table({"n": pa.array(NUMBERS)})
    builder = DeltaBuilder(path).create(rows.schema)
    builder.commit([builder.data_file(rows, "f.parquet")])
    index_of(path, ["n"])
    for file in index_files(path, "bitmap_index"):
        harm(file)
    answer = tailbit.open(path).where("n < 3000")
    assert answer.count() == np.count_nonzero(NUMBERS < 3000)
    assert answer.damaged or answer.files_scanned == 0


def test_a_small_part_of_very_many_keys_is_found_without_reading_all_and_kept(tmp_path: Path) -> None:
    many = 600_000
    numbers = np.random.default_rng(4).permutation(many)
    rows = pa.table({"n": pa.array(numbers)})
    builder = DeltaBuilder(str(tmp_path / "t")).create(rows.schema)
    builder.commit([builder.data_file(rows, "f.parquet")])
    index_of(builder.path, ["n"])
    opened = tailbit.open(builder.path)
    (segment,) = opened.where()._selection.coverage.spaces[0].segments
    column = next(iter(segment.columns))
    for low, high in ((1000, 1399), (599_990, 700_000), (-5, 20_000), (70_000, 69_000)):
        where = f"n BETWEEN {low} AND {high}"
        wanted = np.flatnonzero((numbers >= low) & (numbers <= high)).tolist()
        assert [p.tolist() for p in opened.where(where).positions().values()] == ([wanted] if wanted else [])
        assert opened.where(where).count() == len(wanted)
    assert not segment.holds_keys(column)
    read = segment.bytes_read
    assert read < segment.weight(column)[1] // 3
    assert opened.where("n BETWEEN 1000 AND 1399 AND n <> 1200").count() == 399
    assert opened.where("n BETWEEN 200000 AND 399999").count() == 200_000
    assert segment.holds_keys(column)


def test_codes_that_cannot_stay_are_not_made(
    table: tuple[str, np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    for cache in (CODES, SPENT, POSTINGS, UNIONS):
        cache.clear()
    monkeypatch.setattr(codes, "CODES_BYTES", ROWS)
    selection = tailbit.open(table[0]).where("n < 3900")._selection
    (segment,) = selection.coverage.spaces[0].segments
    column = selection.schema.resolve("n").id
    for key in range(40):
        RangeKeys(segment, column, [(encode_value(key, "integer"), True, None, False)]).bitmaps()
    assert held_codes(segment, column) is None
    assert not codes.have_room(segment, column)


def test_codes_that_did_not_stay_are_dearer(table: tuple[str, np.ndarray]) -> None:
    (segment,) = tailbit.open(table[0]).where()._selection.coverage.spaces[0].segments
    column = "k"
    CODES.clear()
    before, times = making(segment, column), codes.times_made(segment, column)
    codes_of(segment, column)
    assert making(segment, column) == 0
    CODES.clear()
    assert making(segment, column) / (times + 2) == pytest.approx(before / (times + 1))


def test_the_union_of_keys_that_lie_apart_is_made_once(table: tuple[str, np.ndarray]) -> None:
    for cache in (CODES, SPENT, POSTINGS, UNIONS):
        cache.clear()
    for where in (f"n IN {SEVENTHS}", "n % 3 = 1"):
        (space,) = tailbit.open(table[0]).where(where)._selection.coverage.spaces
        held = len(UNIONS.items())
        for _ in range(2):
            evaluate(tailbit.open(table[0]).where(where)._selection.node, space)
        assert len(UNIONS.items()) == held + 1
