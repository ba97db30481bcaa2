"""Bytes cut, flipped or invented: a named error or the right answer, in little time and memory."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from support.byte_edits import edited, edited_parquet
from support.byte_replay import CORPUS, inputs
from support.byte_seeds import Seeds
from support.byte_targets import Ground, Target
from support.profiles import FACTOR
from support.waiting import HANG_S
from tailbit.errors import TailbitError
from tailbit.tables import open_table
from tailbit.tables.delta.checkpoint import read_checkpoint
from tailbit.tables.delta.log import LOG, LogCheckpoint
from tailbit.tables.partition_values import partition_array

NAMES = (
    *("commit", "hint", "checkpoint", "sidecar", "manifest", "vector_file", "vector_inline"),
    *("partition_value", "schema", "statistics", "data_file"),
    *("hudi_properties", "hudi_instant", "hudi_timeline", "hudi_history", "hudi_manifest"),
    *("hudi_archive", "hudi_log"),
)
SECONDS = 2.0
"""Of processor time."""
SLACK = 8 << 20
TIMES = 10


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Ground:
    return Ground(tmp_path_factory.mktemp("bytes"))


@pytest.fixture(scope="module")
def replayed() -> dict[str, list[dict[str, Any]]]:
    """The whole corpus, replayed in a process of its own."""
    tests = str(CORPUS.parent)
    done = subprocess.run(
        [sys.executable, "-m", "support.byte_replay"],
        env={**os.environ, "PYTHONPATH": tests},
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, list[dict[str, Any]]] = json.loads(done.stdout)
    return found


def test_every_parser_has_a_corpus(ground: Ground) -> None:
    assert set(ground.targets()) == set(NAMES) == {path.name for path in CORPUS.iterdir()}
    assert sum(file.stat().st_size for name in NAMES for file in inputs(name)) < 1 << 20


@pytest.mark.parametrize("name", NAMES)
def test_the_corpus_breaks_no_promise(name: str, replayed: dict[str, list[dict[str, Any]]]) -> None:
    assert len(replayed[name]) == len(inputs(name)) > 0


@pytest.mark.parametrize("name", NAMES)
def test_no_input_takes_long(name: str, replayed: dict[str, list[dict[str, Any]]]) -> None:
    assert [found for found in replayed[name] if found["seconds"] > SECONDS] == []


@pytest.mark.parametrize("name", NAMES)
def test_no_input_takes_more_memory_than_ten_times_itself(
    name: str, replayed: dict[str, list[dict[str, Any]]]
) -> None:
    assert [found for found in replayed[name] if found["grown"] > TIMES * found["size"] + SLACK] == []


@pytest.mark.parametrize("name", NAMES)
def test_what_is_whole_is_accepted(name: str, ground: Ground) -> None:
    target: Target = ground.targets()[name]
    assert any(target.run(seed) for seed in target.seeds())
    if name != "partition_value":
        assert all(target.run(seed) for seed in target.seeds())


@pytest.mark.parametrize("name", NAMES)
def test_edited_bytes_are_named_or_read_as_another_reader_reads_them(name: str, ground: Ground) -> None:
    target, draw = ground.targets()[name], random.Random(name)
    seeds = target.seeds()
    for _ in range(200 * FACTOR):
        target.run(target.edit(draw.choice(seeds), draw))


@pytest.mark.parametrize("form", ["commits", "classic", "multipart", "v2-json", "v2-parquet"])
def test_a_table_with_an_edited_file_in_its_log_is_read_or_refused_by_name(form: str, tmp_path: Path) -> None:
    builder, draw = Seeds(tmp_path).builder(), random.Random(form)
    if form != "commits":
        builder.checkpoint(form, 2)
        (builder.log / f"{0:020d}.json").unlink()
    files = sorted(file for file in builder.log.rglob("*") if file.is_file())
    for _ in range(100 * FACTOR):
        file = draw.choice(files)
        whole = file.read_bytes()
        file.write_bytes((edited_parquet if file.suffix == ".parquet" else edited)(whole, draw))
        with suppress(TailbitError):
            read_all(builder.path)
        file.write_bytes(whole)


def read_all(path: str) -> None:
    """Read all that a log can say."""
    table = open_table(path)
    snapshot = table.snapshot()
    assert snapshot.files.table.num_rows == len(snapshot.files)
    partition = snapshot.schema.resolve("p") if snapshot.partition_columns == ("p",) else None
    for slice_ in snapshot.files:
        for column in snapshot.schema.leaves():
            slice_.bounds(column)
        if partition is not None:
            partition_array(partition, slice_.partition.get("p"), 1)
        if slice_.hidden is not None:
            slice_.hidden.read(table.storage)
    table.changes(table.head(), table.head())


@pytest.mark.parametrize("seed", [0, 2])
def test_a_checkpoint_whose_pages_have_checksums_is_read_as_it_was_or_refused(
    ground: Ground, seed: int
) -> None:
    whole, draw = ground.seeds.checkpoints()[seed], random.Random(seed)
    expected = _read(ground, whole)
    for _ in range(500 * FACTOR):
        damaged = edited_parquet(whole, draw)
        try:
            found = _read(ground, damaged)
        except TailbitError:
            continue
        assert found == expected


def _read(ground: Ground, data: bytes) -> tuple[Any, ...]:
    ground.put(f"{LOG}/damaged.parquet", data)
    state = read_checkpoint(ground.storage, LogCheckpoint(2, (f"{LOG}/damaged.parquet",)))
    stats = state.late_stats().to_pylist() if state.late_stats else None
    return state.files.to_pylist(), stats, state.protocol, state.metadata


def test_statistics_of_which_no_row_can_be_read_are_refused(ground: Ground) -> None:
    with pytest.raises(TailbitError, match="0 rows can be read of 7"):
        _read(ground, (CORPUS / "checkpoint" / "statistics-of-no-row").read_bytes())
