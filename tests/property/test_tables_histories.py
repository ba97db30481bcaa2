"""Any history of commits, read by us and by deltalake: the same rows at every version."""

from __future__ import annotations

import tempfile
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder
from hypothesis import given
from hypothesis import strategies as st

from support.delta_builder import DeltaBuilder
from support.profiles import examples
from tailbit.tables import Table, open_table
from tailbit.tables.model import FileSlice
from tailbit.tables.parquet.data_file import open_data_file, read_columns

SCHEMA = pa.schema([("a", pa.int64()), ("s", pa.string())])
STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            [
                "append",
                "append",
                "hide",
                "hide_inline",
                "show",
                "remove",
                "again",
                "restore",
                "overwrite",
                "compact",
            ]
        ),
        st.integers(0, 10**6),
    ),
    min_size=1,
    max_size=7,
)
CHECKPOINTS = st.dictionaries(
    st.integers(1, 9), st.sampled_from(["classic", "multipart", "v2-json", "v2-parquet"]), max_size=3
)


def rows(seed: int) -> pa.Table:
    """One to six rows that tell themselves apart."""
    n = 1 + seed % 6
    return pa.table({"a": [seed * 10 + i for i in range(n)], "s": [f"{seed}-{i}" for i in range(n)]})


class History:
    """Applies steps to a hand-made table."""

    def __init__(self, path: str) -> None:
        self.made = DeltaBuilder(path).create(SCHEMA, features=["deletionVectors", "v2Checkpoint"])

    def step(self, kind: str, seed: int) -> None:
        made, live = self.made, sorted(self.made.live)
        if kind == "append" or not live:
            made.commit(
                [made.data_file(rows(seed + i), f"{seed % 7} %{made.version}-{i}.parquet") for i in range(2)]
            )
        elif kind == "overwrite":
            made.commit([*(made.remove(p) for p in live), made.data_file(rows(seed))])
        elif kind == "compact":
            made.commit([made.data_file(rows(seed)), *(made.remove(p) for p in live[:2])])
        elif kind == "restore":
            made.commit(self._to(made.history[seed % len(made.history)]))
        else:
            self._one(kind, live[seed % len(live)], seed)

    def _one(self, kind: str, path: str, seed: int) -> None:
        made = self.made
        if kind == "remove":
            made.commit([made.remove(path)])
        elif kind == "again":
            made.commit([{"add": {**made.live[path], "dataChange": False}}])
        elif kind == "show":
            self._hide(path, None)
        else:
            count = int(made.live[path]["stats"].split(":")[1].strip(" }"))
            hidden = sorted({(seed >> i) % count for i in range(seed % 4 + 1)})
            inline = kind == "hide_inline"
            vector = made.inline_vector(hidden) if inline else made.stored_vectors([0], hidden, prefix="x")[1]
            self._hide(path, vector)

    def _hide(self, path: str, vector: dict[str, Any] | None) -> None:
        """Hide rows, or commit nothing where they are hidden already: a file's identity must change."""
        same = self.made.live[path].get("deletionVector") == vector
        self.made.commit([] if same else self.made.hide(path, vector))

    def _to(self, state: dict[str, Any]) -> list[dict[str, Any]]:
        """What RESTORE commits: only files and hidden rows that differ."""
        made = self.made
        gone = [
            made.remove(p)
            for p in made.live
            if p not in state or identity(state[p]) != identity(made.live[p])
        ]
        return gone + [{"add": a} for p, a in state.items() if identity(made.live.get(p)) != identity(a)]


def identity(add: dict[str, Any] | None) -> Any:
    """What tells two states of one path apart."""
    return None if add is None else (add["path"], add.get("deletionVector"))


def visible(table: Table, pieces: list[FileSlice], columns: list[str]) -> list[tuple[Any, ...]]:
    """The rows of slices, as a query would see them."""
    schema = table.snapshot(0).schema
    out: list[tuple[Any, ...]] = []
    for slice_ in pieces:
        data = read_columns(
            open_data_file(table.storage, slice_.path, slice_.size), [schema.resolve(c) for c in columns]
        )
        hidden = slice_.hidden.read(table.storage) if slice_.hidden else set()
        assert slice_.rows == data.num_rows
        out += [tuple(r.values()) for i, r in enumerate(data.to_pylist()) if i not in hidden]
    return sorted(out)


@examples(25)
@given(steps=STEPS, checkpoints=CHECKPOINTS)
def test_every_version_of_any_history_is_read_as_deltalake_reads_it(
    steps: list[tuple[str, int]], checkpoints: dict[int, str]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        history = History(f"{folder}/t b%")
        warm = open_table(history.made.path)
        for number, (kind, seed) in enumerate(steps, 1):
            history.step(kind, seed)
            warm.snapshot()
            if number in checkpoints:
                history.made.checkpoint(checkpoints[number], parts=2)
        cold = open_table(history.made.path)
        for version in range(history.made.version + 1):
            pieces = list(cold.snapshot(version).files)
            assert pieces == list(warm.snapshot(version).files)
            assert [p.hidden_id for p in pieces] == cold.snapshot(version).files.hidden_ids.to_pylist()
            assert visible(cold, pieces, ["a", "s"]) == expected_rows(history.made.path, version)


def expected_rows(path: str, version: int) -> list[tuple[Any, ...]]:
    """The rows of a version by deltalake."""
    found = DeltaTable(path, version=version)
    batches = QueryBuilder().register("t", found).execute("select a, s from t")
    return sorted(tuple(r.values()) for r in pa.table(batches).to_pylist())


@examples(60)
@given(steps=STEPS, data=st.data())
def test_net_changes_lead_from_any_version_to_any_later_one(
    steps: list[tuple[str, int]], data: st.DataObject
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        history = History(f"{folder}/t")
        for kind, seed in steps:
            history.step(kind, seed)
        last = data.draw(st.integers(1, history.made.version))
        first = data.draw(st.integers(1, last))
        table = open_table(history.made.path)
        before = {p.path: p for p in table.snapshot(first - 1).files}
        after = {p.path: p for p in table.snapshot(last).files}
        changes = table.changes(first, last)
        assert [c.path for c in changes.slices] == sorted(c.path for c in changes.slices)
        for change in changes.slices:
            if change.old is not None:
                assert change.old.hidden_id == before[change.path].hidden_id
            state = before.pop(change.path, None)
            if change.new is not None:
                before[change.path] = change.new
            assert change.old is None or state is not None
        assert before == after
        assert [c.version for c in changes.commits] == list(range(first, last + 1))
