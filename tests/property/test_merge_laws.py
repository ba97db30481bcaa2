"""Merging is invisible: whatever is merged when, the index says the same, in fewer files."""

from __future__ import annotations

import itertools
import tempfile
from dataclasses import replace
from random import Random

import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st
from pyroaring import BitMap

from support.encodings import read_postings, stored
from support.index_records import counts, ledger, new_index, record, segment
from support.profiles import examples
from tailbit.index.index_files import aligned
from tailbit.index.kinds.bitmap_merging import Input, combine, lay_out
from tailbit.index.maintenance.merge import merge_all, merge_due, run_merge
from tailbit.index.model import FileRecord
from tailbit.index.store.table import MetadataTable

Said = dict[tuple[str, bytes | None], BitMap]

keys = st.sampled_from([None, b"", b"\x00", b"a", b"ab", b"\xff"])
values = st.lists(keys, min_size=1, max_size=6)


@st.composite
def steps(draw: st.DrawFn) -> list[tuple[str, object]]:
    """What happens to an index: files come in a row space, leave, come back; merges in between."""
    out: list[tuple[str, object]] = []
    for _ in range(draw(st.integers(8, 30))):
        what = draw(st.sampled_from(["add", "add", "add", "leave", "back", "merge"]))
        out.append(
            (
                what,
                draw(st.lists(values, min_size=1, max_size=3)) if what == "add" else draw(st.integers(0, 40)),
            )
        )
    return out


def said(index: MetadataTable) -> Said:
    found: Said = {}
    for item in index.state.recorded.records():
        if item.space is None or item.base is None:
            continue
        claim = BitMap(range(item.base, item.base + item.rows))
        for part in index.state.segments_of(item.space):
            for key in part.keys("c")[0].to_pylist():
                rows = (part.lookup("c", key) or BitMap()) & claim
                if rows:
                    found[item.path, key] = found.get((item.path, key), BitMap()) | rows.shift(-item.base)
    return found


@given(steps())
@examples(15)
def test_any_order_of_commits_and_merges_says_what_was_said(history: list[tuple[str, object]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        index = new_index(folder)
        model: dict[str, list[bytes | None]] = {}
        left: dict[str, int] = {}
        visible: dict[bytes | None, int] = {}
        for number, (what, detail) in enumerate(history):
            if what == "add":
                assert isinstance(detail, list)
                _add(index, number, detail, model, visible)
            elif what == "merge":
                merge_all(index, earliest_version=max(left.values(), default=0) - 3)
            elif model:
                path = sorted(model)[int(str(detail)) % len(model)]
                now = index.state.recorded.get(path)
                if now is not None and now.space is not None:
                    gone = what == "leave"
                    index.commit(
                        [replace(now, left=number if gone else None, counted=not gone)], [], ledger(number)
                    )
                    left.pop(path, None)
                    if gone:
                        left[path] = number
        for found in (index, MetadataTable.open(folder)):
            _holds(found, model, left, visible)
        merge_all(index)
        _holds(MetadataTable.open(folder), model, left, visible)


def _add(
    index: MetadataTable,
    number: int,
    files: list[list[bytes | None]],
    model: dict[str, list[bytes | None]],
    visible: dict[bytes | None, int],
) -> None:
    space, base, claims = f"{number:032x}", 0, []
    for i, content in enumerate(files):
        path = f"{number}-{i}"
        model[path] = content
        claims.append(record(path, len(content), space=space, base=base, built=("c",)))
        base += len(content)
    every = [value for content in files for value in content]
    deltas = {key: every.count(key) for key in set(every)}
    for key, n in deltas.items():
        visible[key] = visible.get(key, 0) + n
    index.commit(claims, [segment(index, space, {"c": every}), counts(index, "c", deltas)], ledger(number))


def _holds(
    index: MetadataTable,
    model: dict[str, list[bytes | None]],
    left: dict[str, int],
    visible: dict[bytes | None, int],
) -> None:
    found = said(index)
    for path, content in model.items():
        now = index.state.recorded.get(path)
        if path not in left:
            assert now is not None
            assert now.space is not None
        if now is not None and now.space is not None:
            wanted = {(path, k): BitMap(i for i, v in enumerate(content) if v == k) for k in set(content)}
            assert {at: rows for at, rows in found.items() if at[0] == path} == wanted
        else:
            assert not [at for at in found if at[0] == path]
    stored, sums = index.state.value_counts("c")
    assert dict(zip(stored.to_pylist(), sums.tolist(), strict=True)) == visible


@given(
    st.lists(st.lists(st.tuples(keys, st.integers(0, 99)), max_size=12), min_size=1, max_size=4),
    st.integers(1, 5),
)
@examples(200)
def test_aligned_inputs_are_all_rows_in_order_and_equal_keys_meet(
    inputs: list[list[tuple[bytes | None, int]]], size: int
) -> None:
    tables = []
    for rows in inputs:
        unique = sorted(dict(rows).items(), key=lambda row: (row[0] is not None, row[0] or b""))
        tables.append(
            pa.table(
                {
                    "key": pa.array([k for k, _ in unique], pa.binary()),
                    "n": pa.array([n for _, n in unique], pa.int64()),
                }
            )
        )
    batches = [iter([t.slice(i, size) for i in range(0, max(len(t), 1), size)]) for t in tables]
    parts = [part["key"].to_pylist() for part in aligned(batches, ["key"])]
    seen = [key for part in parts for key in part]
    assert sorted(map(repr, seen)) == sorted(repr(k) for t in tables for k in t["key"].to_pylist())
    for before, after in itertools.pairwise(parts):
        assert max((k is not None, k or b"") for k in before) < min((k is not None, k or b"") for k in after)


@st.composite
def row_spaces(draw: st.DrawFn) -> list[tuple[list[FileRecord], dict[bytes | None, list[int]]]]:
    out = []
    for n in range(draw(st.integers(1, 3))):
        claims, top = [], draw(st.integers(0, 70_000))
        for i in range(draw(st.integers(0, 12))):
            rows = draw(st.sampled_from([0, 1, 2, 70_000]))
            kept = draw(st.booleans())
            claims.append(record(f"{n}-{i}", rows, space=str(n), base=top, left=None if kept else 1))
            top += rows + draw(st.sampled_from([0, 0, 3]))
        positions = st.lists(st.integers(0, max(top, 1)), max_size=20, unique=True)
        out.append((claims, {key: sorted(draw(positions)) for key in draw(st.lists(keys, unique=True))}))
    return out


@example([([record("a", 2, space="0", base=0)], {b"a": [1, 2]})], Random(0), 0.0)
@given(row_spaces(), st.randoms(use_true_random=False), st.sampled_from([0.0, 0.5, 1.0]))
@examples(150)
def test_a_merged_posting_of_either_encoding_is_the_moved_positions_of_the_kept_claims(
    spaces: list[tuple[list[FileRecord], dict[bytes | None, list[int]]]], rng: Random, share: float
) -> None:
    moves, moved, rows = lay_out([claims for claims, _ in spaces], lambda r: r.left is None, "new")
    kept = [claim for claim in moved if claim.new_space is not None]
    assert rows == sum(r.rows for claims, _ in spaces for r in claims if r.left is None)
    size = {r.path: r.rows for claims, _ in spaces for r in claims}
    wanted: dict[bytes | None, set[int]] = {}
    entries = []
    for number, (_, postings) in enumerate(spaces):
        for key, positions in postings.items():
            if positions:
                entries.append((key, number, BitMap(positions)))
            for claim in kept:
                if claim.space == str(number):
                    inside = {
                        p - claim.base + (claim.new_base or 0)
                        for p in positions
                        if 0 <= p - claim.base < size[claim.path]
                    }
                    if inside:
                        wanted.setdefault(key, set()).update(inside)
    entries.sort(key=lambda e: (e[0] is not None, e[0] or b""))
    table = stored([e[2] for e in entries], [rng.random() < share for _ in entries])
    table = table.add_column(0, "key", pa.array([e[0] for e in entries], pa.binary()))
    table = table.append_column("source", pa.array([e[1] for e in entries], pa.int64()))
    out = combine(table, [Input(move, "a segment", 1 << 26) for move in moves])
    found = {key: set(bits) for key, bits in zip(out["key"].to_pylist(), read_postings(out), strict=True)}
    assert found == wanted
    assert out["cardinality"].to_pylist() == [len(found[k]) for k in out["key"].to_pylist()]
    assert list(found) == sorted(found, key=lambda k: (k is not None, k or b""))


def test_merging_twice_is_merging_once() -> None:
    with tempfile.TemporaryDirectory() as folder:
        index = new_index(folder)
        for number in range(9):
            index.commit(
                [record(str(number), 1, space=f"{number:032x}", base=0, built=("c",))],
                [segment(index, f"{number:032x}", {"c": [b"x"]})],
                ledger(number),
            )
        [plan] = merge_due(index.state)
        assert run_merge(index, plan)
        files = dict(index.state.files)
        assert merge_due(index.state) == []
        assert merge_all(index) == 0
        assert index.state.files == files
