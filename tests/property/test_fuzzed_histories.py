"""For any history of commits and any state of the index, tailbit answers what the judge answers.

Hand-made tables are judged by their maker's own account of what is live, tables that deltalake writes by its
log; DuckDB evaluates the predicates. Thousands of checks here, any number by `make fuzz KIND=histories`.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyroaring import BitMap

from support.fuzzer.built import BuiltHistory
from support.fuzzer.cells_run import run_cells
from support.fuzzer.judge import Truth, by_duckdb, judge
from support.fuzzer.operations import OPERATIONS
from support.fuzzer.readers import READ, read_histories
from support.fuzzer.run import Run, fuzz, run_history
from support.predicates import Predicate
from support.profiles import seeds, variants
from support.tables import tamper
from tailbit.tables.hudi.log_files.slices import MergedRows

pytestmark = pytest.mark.usefixtures("outside_allowed")

NAMED = dict(OPERATIONS)
PREPARED = ("hide rows", "folder copied to a backup", "log checkpoint", "append", "copy-on-write update")


@pytest.mark.by_thirds
@pytest.mark.supports("Changes", "tailbit alter --add and --drop between any two batches", "exact")
@pytest.mark.supports(
    "Changes", "a column that is posted for some files only", "exact", note="the rest is scanned"
)
@pytest.mark.parametrize("seed", seeds(6))
def test_right_at_any_lag_every_answer_about_any_history_is_right(seed: int) -> None:
    found = fuzz(seed, checks=150, each=75)
    assert found.findings == []
    assert (found.checks, found.histories) == (150, 2)


@pytest.mark.by_thirds
@pytest.mark.parametrize("seed", seeds(2))
def test_every_answer_about_any_history_by_deltalake_is_right(seed: int) -> None:
    found = fuzz(seed, checks=75, each=75, writer="deltalake")
    assert found.findings == []
    assert found.checks == 75


@pytest.mark.by_thirds
@pytest.mark.supports_hudi("Ways to ask", "any version that can be read, at any lag", "exact")
@pytest.mark.parametrize("seed", seeds(2))
def test_every_answer_about_any_history_of_a_hudi_table_is_right(seed: int) -> None:
    found = fuzz(seed, checks=150, each=75, writer="hudi")
    assert found.findings == []
    assert found.checks == 150


@pytest.mark.by_thirds
@pytest.mark.supports_hudi("MERGE_ON_READ", "any version that can be read, at any lag", "exact")
@pytest.mark.parametrize("seed", seeds(3))
def test_every_answer_about_any_history_of_a_merge_on_read_table_is_right(seed: int) -> None:
    found = fuzz(seed, checks=150, each=75, writer="hudi-merged")
    assert found.findings == []
    assert found.checks == 150


@pytest.mark.supports_iceberg("Ways to ask", "any snapshot that is not expired, at any lag", "exact")
@pytest.mark.supports_iceberg("Deletes", "position delete files, of a file or of a partition", "exact")
@pytest.mark.supports_iceberg("Deletes", "deletion vectors, also beside older position deletes", "exact")
@pytest.mark.supports_iceberg("Deletes", "equality deletes, of a partition or of the whole table", "exact")
@pytest.mark.supports_iceberg("Deletes", "compactions that keep an older sequence number", "exact")
@pytest.mark.supports_iceberg("Histories", "rollback, staged and expired snapshots", "exact")
@pytest.mark.supports_iceberg("Histories", "rewritten manifests, upgrades of the format version", "exact")
@pytest.mark.supports_iceberg("Schema and types", "columns added, dropped, renamed and promoted", "exact")
@pytest.mark.supports_iceberg("Schema and types", "columns with a default value", "exact")
@pytest.mark.supports_iceberg("Files", "every partition transform; partition evolution", "exact")
@pytest.mark.by_thirds
@pytest.mark.parametrize("seed", seeds(3))
def test_every_answer_about_any_history_of_an_iceberg_table_is_right(seed: int) -> None:
    found = fuzz(seed, checks=150, each=75, writer="iceberg")
    assert found.findings == []
    assert found.checks == 150


@pytest.mark.by_thirds
@pytest.mark.supports_hudi("Ways to ask", "every version that the cleaner left", "exact")
@pytest.mark.parametrize("writer", READ)
@pytest.mark.parametrize("part", variants(range(25), 3))
def test_readers_of_any_history_see_what_it_shows_at_every_version(writer: str, part: int) -> None:
    """Without an index a history costs little, so `make proof` has 1,000 of them by each writer."""
    found = read_histories(range(40 * part, 40 * (part + 1)), writer)
    assert found.findings == []
    assert found.histories == 40
    assert found.checks > 400


def test_a_reader_that_shows_a_hidden_row_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    read = MergedRows.read
    monkeypatch.setattr(MergedRows, "read", lambda rows, storage: BitMap(list(read(rows, storage))[1:]))
    assert read_histories(range(2), "hudi-merged").findings != []


@pytest.mark.by_thirds
@pytest.mark.parametrize("seed", seeds(2))
def test_every_answer_about_arrays_in_any_history_is_right(seed: int) -> None:
    """Their elements are indexed; types of elements are widened, columns renamed, files vacuumed."""
    found = fuzz(seed, checks=150, each=75, writer="arrays")
    assert found.findings == []
    assert found.checks == 150


@pytest.mark.by_thirds
@pytest.mark.parametrize("seed", seeds(4))
def test_any_condition_is_answered_alike_with_indexes_of_every_kind_and_without(seed: int) -> None:
    found = run_cells(seed, 60)
    assert found.findings == []
    assert found.checks == 60


@pytest.mark.parametrize("name", NAMED)
def test_after_every_operation_each_readable_version_is_answered_rightly(tmp_path: Path, name: str) -> None:
    """With an index that has not seen it, and with one that has."""
    run = with_operation(name, tmp_path)
    run.ask("behind", run.history.readable(), 16)
    run.follower.drain()
    run.ask("complete", run.history.readable(), 32)
    assert list(run.findings(judge(run.asks))) == []


def with_operation(name: str, folder: Path) -> Run:
    """A table with a little history and an index, to which the operation has happened last."""
    for seed in range(10):
        run = Run(seed, 0, str(folder / str(seed)))
        for before in PREPARED:
            NAMED[before](run.history)
            run.follower.step()
        for _ in range(5):
            run.follower.drain()
            if NAMED[name](run.history):
                return run
            run.history.step()
    raise AssertionError(f"{name} was never possible")


def one_row_less(rows: pa.Table, predicates: Sequence[Predicate]) -> list[Truth]:
    """A judge who overlooks the first row of each answer."""
    truths = by_duckdb(rows, predicates)
    for truth in truths:
        truth[np.flatnonzero(truth)[:1]] = False
    return truths


def test_a_wrong_answer_is_found_and_found_again_by_its_seed() -> None:
    found = run_history(5, 75, verdict=one_row_less)
    assert found.findings
    assert all(finding.startswith("history 5: ") for finding in found.findings)
    assert run_history(5, 75, verdict=one_row_less).checks == found.checks
    assert run_history(5, 75).findings == []


def test_a_wrong_bit_in_the_index_is_found(tmp_path: Path) -> None:
    run = Run(3, 0, str(tmp_path))
    run.follower.drain()
    tamper(run.history.path, lambda column, key, bits: bits - BitMap([bits.min()]))
    run.ask("tampered", run.history.readable(), 60)
    assert judge(run.asks)


def test_the_same_seed_makes_the_same_history(tmp_path: Path) -> None:
    one, other = (BuiltHistory(str(tmp_path / folder), random.Random(11)) for folder in ("one", "other"))
    assert [one.step() for _ in range(12)] == [other.step() for _ in range(12)]
