"""What tailbit does not read is refused at the front door: the feature, the version and the way out named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tailbit
from support.delta_builder import DeltaBuilder, field_json
from support.drive import Drive
from tailbit.errors import ColumnTypeError, TailbitError, UnsupportedFeatureError

SCHEMA = pa.schema([("a", pa.int32()), ("s", pa.string())])
ROWS = pa.table({"a": [1, 2, 3], "s": ["x", "X", None]}, SCHEMA)


@pytest.fixture
def builder(tmp_path: Path) -> DeltaBuilder:
    made = DeltaBuilder(str(tmp_path / "table")).create(SCHEMA, features=["deletionVectors"])
    made.commit([made.data_file(ROWS)])
    return made


def refused(builder: DeltaBuilder, name: str) -> TailbitError:
    """The error of a question at the head, which names what is not read; the version before is answered."""
    opened = tailbit.open(builder.path)
    with pytest.raises(UnsupportedFeatureError, match=f"version 2 uses {name}") as wrong:
        opened.where("a = 1").count()
    assert opened.where("a = 1", version=1).count() == 1
    with pytest.raises(UnsupportedFeatureError, match=name):
        Drive(builder.path, f"{builder.path}-index", ["a"]).drain()
    return wrong.value


REMEDIES = {
    "catalogManaged": "through the catalog",
    "catalogOwned-preview": "through the catalog",
    "redirectReaderWriter-preview": "the path that the redirect names",
    "adaptiveMetadata-preview": "DROP FEATURE adaptiveMetadata-preview",
    "flux": "or use a tailbit release that lists it",
}


@pytest.mark.parametrize("feature", REMEDIES)
@pytest.mark.supports("Table features", "catalogManaged", "refused")
@pytest.mark.supports("Table features", "redirects", "refused")
@pytest.mark.supports("Table features", "adaptiveMetadata-preview", "refused")
@pytest.mark.supports("Table features", "an unknown reader feature", "refused")
def test_a_feature_that_is_not_read_is_refused_with_its_remedy(builder: DeltaBuilder, feature: str) -> None:
    features = {"readerFeatures": [feature], "writerFeatures": [feature]}
    builder.commit([{"protocol": {**builder.protocol, **features}}])
    assert REMEDIES[feature] in refused(builder, feature).hint


WRITER_ONLY = {
    "delta.redirectWriterOnly-preview": "redirectWriterOnly-preview",
    "delta.redirectReaderWriter-preview": "redirectReaderWriter-preview",
    "delta.coordinatedCommits.commitCoordinator-preview": "coordinatedCommits-preview",
}


@pytest.mark.parametrize("key", WRITER_ONLY)
@pytest.mark.supports("Table features", "redirects", "refused")
@pytest.mark.supports("Table features", "coordinatedCommits-preview", "refused")
def test_a_property_that_moves_the_table_or_its_commits_is_refused(builder: DeltaBuilder, key: str) -> None:
    builder.commit([{"metaData": builder.metadata_action(SCHEMA, configuration={key: "x"})}])
    assert refused(builder, WRITER_ONLY[key]).hint


@pytest.mark.supports("Table features", "an unknown writer feature", "exact")
def test_an_unknown_writer_feature_passes(builder: DeltaBuilder) -> None:
    features = {"writerFeatures": ["deletionVectors", "flux"]}
    builder.commit([{"protocol": {**builder.protocol, **features}}])
    Drive(builder.path, f"{builder.path}-index", ["a"]).drain()
    assert tailbit.open(builder.path, index=f"{builder.path}-index").where("a > 1").count() == 2


@pytest.mark.supports("Table features", "collations other than UTF8_BINARY", "refused", note="the columns")
@pytest.mark.supports("Table features", "collations", "exact", note="the table's other columns, and reading")
def test_a_collated_column_is_neither_indexed_nor_compared_and_the_rest_is(tmp_path: Path) -> None:
    made = DeltaBuilder(str(tmp_path / "table"))
    collated = field_json(SCHEMA.field("s"), __COLLATIONS={"s": "spark.UTF8_LCASE"})
    schema: dict[str, Any] = {"type": "struct", "fields": [field_json(SCHEMA.field("a")), collated]}
    made.create(schema)
    made.protocol = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["collations"]}
    made.commit([{"protocol": made.protocol}, made.data_file(ROWS)])
    with pytest.raises(ColumnTypeError, match=r"column s is of type string collate spark\.UTF8_LCASE"):
        Drive(made.path, f"{made.path}-index", ["s"])
    Drive(made.path, f"{made.path}-index", ["a"]).drain()
    opened = tailbit.open(made.path, index=f"{made.path}-index")
    for question in ("s = 'x'", "s IN ('x', 'y') OR a = 1", "s < 'y'", "s BETWEEN 'a' AND 'z'"):
        with pytest.raises(TailbitError, match=r"collate|UTF8_LCASE"):
            opened.where(question).count()
    assert opened.where("a > 1").count() == 2
    assert opened.where("a = 2").read().to_pylist() == [{"a": 2, "s": "X"}]
    with pytest.raises(ColumnTypeError, match="collate"):
        opened.where().facets("s")
