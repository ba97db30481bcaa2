"""Definitions are filled beside a stream that is killed anywhere in any history: all are whole in the end.

The judge is DuckDB on the files that deltalake lists.
"""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from collections.abc import Sequence

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

import tailbit
from support.differential import assert_answers_agree
from support.drive import Drive, run_tasks
from support.histories import DeltalakeHistory
from support.oracle import duckdb_positions, live_rows
from support.predicates import random_predicates
from support.profiles import examples
from tailbit.base.faults import InjectedFaultError
from tailbit.index.keys import encode_array
from tailbit.index.maintenance.alter import alter
from tailbit.index.maintenance.rebuild import rebuild
from tailbit.index.model import BITMAP, Definition, new_id
from tailbit.index.sql.terms import term_of
from tailbit.index.store.table import MetadataTable
from tailbit.index.write.work import BuildTask, TaskResult
from tailbit.streaming.settings import StreamSettings
from tailbit.tables import open_table


def assert_right(history: DeltalakeHistory, version: int, state: str) -> None:
    """Every answer and every facet at one version."""
    asked = random_predicates(history.rng, 8)
    expected = duckdb_positions(history.path, version, asked)
    assert_answers_agree(history.path, version, asked, expected, f"{state}, after {history.done}")
    rows = live_rows(history.path, version)
    for column in history.rng.sample(["category", "small", "price", "day"], 2):
        facets = tailbit.open(history.path).where(version=version).facets(column)
        assert facets == dict(Counter(rows[column].to_pylist())), (column, history.done)


TERMS = ("lower(category)", "small % 3", "date_trunc('MONTH', day)", "substr(category, 1, 1)", "10 div small")


class Killed:
    """A process that dies while it builds, or once all is built and nothing committed, if `now` is set."""

    def __init__(self, rng: random.Random) -> None:
        self.rng, self.now = rng, False

    def run(self, tasks: Sequence[BuildTask]) -> list[TaskResult]:
        if self.now and self.rng.random() < 0.5:
            raise InjectedFaultError
        results = run_tasks(tasks)
        if self.now:
            raise InjectedFaultError
        return results


def change(history: DeltalakeHistory, what: str) -> None:
    """Add, drop or rebuild a random definition."""
    index, text = MetadataTable.open(f"{history.path}/_tailbit"), history.rng.choice(TERMS)
    schema = open_table(history.path).snapshot().schema
    known = [d for d in index.state.settings.definitions if d.name == text]
    if not known:
        alter(index, [Definition(new_id(), text, BITMAP, (term_of(text, schema),))], [])
    elif what == "rebuild":
        rebuild(index, text, schema)
    else:
        alter(index, [], [d.id for d in known])


def assert_definitions_whole(history: DeltalakeHistory) -> None:
    """Every file has every definition, once; counts are those of a scan."""
    opened = tailbit.open(history.path)
    assert opened.verify(derive=60).problems == [], history.done
    state = MetadataTable.open(f"{history.path}/_tailbit").state
    ids = {d.id for d in state.settings.definitions}
    assert len({d.name for d in state.settings.definitions}) == len(ids), history.done
    assert all(ids <= set(record.built) for record in state.recorded.live()), history.done
    rows = live_rows(history.path, history.head())
    for definition in state.settings.definitions:
        keys, counted = state.value_counts(definition.id)
        assert sum(counted) == rows.num_rows, (definition.name, history.done)
        if definition.name == TERMS[0]:
            lowered = [None if text is None else text.lower() for text in rows["category"].to_pylist()]
            scanned = Counter(encode_array(pa.array(lowered, pa.string()), definition.key_type).to_pylist())
            assert dict(zip(keys.to_pylist(), counted.tolist(), strict=True)) == dict(scanned), history.done


@given(seed=st.integers(min_value=0, max_value=2**32 - 1))
@examples(6)
def test_definitions_filled_beside_a_stream_that_is_killed_anywhere_are_whole_in_the_end(seed: int) -> None:
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        history, killed = DeltalakeHistory(f"{folder}/t", rng), Killed(rng)
        settings = StreamSettings(files=rng.choice((1, 2, 2000)))
        path = f"{history.path}/_tailbit"
        indexer = Drive(history.path, path, ["category"], settings, run=killed.run)
        for _ in range(rng.randint(8, 16)):
            what = rng.choice(("change", "rebuild", "fill", "fill", "batch", "commit", "compact", "kill"))
            history.done.append(f"[{what}]")
            if what in ("change", "rebuild"):
                change(history, what)
            elif what == "commit":
                history.step()
            elif what == "compact":
                tailbit.open(history.path).compact()
            else:
                killed.now = what == "kill"
                try:
                    indexer.fill() if what == "fill" or rng.random() < 0.5 else indexer.step()
                except InjectedFaultError:
                    indexer = Drive(history.path, path, None, settings, ends=indexer.ends, run=killed.run)
                killed.now = False
        indexer.drain()
        assert_definitions_whole(history)
        assert_right(history, history.head(), "at the end")
