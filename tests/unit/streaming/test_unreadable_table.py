"""A table that demands what this release does not know: the index stays as it is, and a newer one goes on."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import tailbit
from support.delta_builder import DeltaBuilder
from support.drive import Drive
from support.product import product_in
from support.tables import index_of
from tailbit.errors import UnsupportedFeatureError
from tailbit.index.kinds.bitmap_index import BITMAP_INDEX
from tailbit.index.store.table import MetadataTable

ROOT = Path(__file__).parents[3]
SCHEMA = pa.schema([("k", pa.int64())])
UPGRADE = {
    "protocol": {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": ["fromTheFuture"],
        "writerFeatures": ["fromTheFuture"],
    }
}


def rows(*keys: int) -> pa.Table:
    return pa.table({"k": list(keys)}, schema=SCHEMA)


@pytest.fixture
def table(tmp_path: Path) -> DeltaBuilder:
    """Version 1 is indexed; version 2 demands a feature that nobody knows, version 3 adds a file."""
    builder = DeltaBuilder(str(tmp_path / "t")).create(SCHEMA)
    builder.commit([builder.data_file(rows(1, 2, 3))])
    index_of(builder.path, ["k"])
    builder.commit([UPGRADE])
    builder.commit([builder.data_file(rows(3, 4))])
    return builder


def newer_release(folder: Path) -> Path:
    """This release, and the feature understood: the packages in a folder of their own."""
    gate = product_in(folder) / "tables" / "delta" / "protocol.py"
    gate.write_text(gate.read_text().replace('"columnMapping",', '"columnMapping", "fromTheFuture",', 1))
    return folder


@pytest.mark.supports("Table features", "a reader feature that is not known", "refused")
def test_refuse_by_name_never_guess_the_feature_the_version_and_the_remedy_are_named(
    table: DeltaBuilder,
) -> None:
    before = MetadataTable.open(f"{table.path}/_tailbit").version
    with pytest.raises(
        UnsupportedFeatureError, match=r"fromTheFuture.*version 2|version 2.*fromTheFuture"
    ) as e:
        Drive(table.path, f"{table.path}/_tailbit").drain()
    assert "DROP FEATURE fromTheFuture" in e.value.hint
    assert MetadataTable.open(f"{table.path}/_tailbit").version == before
    assert tailbit.open(table.path).where("k >= 2", version=1).count() == 2
    with pytest.raises(UnsupportedFeatureError, match="fromTheFuture"):
        tailbit.open(table.path).where("k >= 2").count()


@pytest.mark.supports(
    "Changes", "an upgrade of tailbit to what reads the table again, without a rebuild", "exact"
)
def test_a_newer_release_goes_on_where_this_one_stopped_without_a_rebuild(
    table: DeltaBuilder, tmp_path: Path
) -> None:
    index = f"{table.path}/_tailbit"
    before = {
        path for path in MetadataTable.open(index).state.files if path.startswith(f"kind={BITMAP_INDEX.name}")
    }
    program = (
        "import tailbit; from support.drive import Drive; from tailbit.tables.delta import protocol\n"
        f"done = Drive({table.path!r}, {index!r}).drain()\n"
        f"opened = tailbit.open({table.path!r})\n"
        "answer = opened.where('k = 3')\n"
        "print(protocol.__file__, sum(o.rows for o in done), answer.count(), answer.files_scanned,\n"
        "      answer.covered_version, opened.verify().sound)"
    )
    path = os.pathsep.join([str(newer_release(tmp_path / "newer")), str(ROOT / "tests")])
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": path},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    gate, *found = done.stdout.split()
    assert gate.startswith(str(tmp_path))
    assert found == ["2", "2", "0", "3", "True"], "two rows were indexed, and no others again"
    assert before <= MetadataTable.open(index).state.files.keys()
