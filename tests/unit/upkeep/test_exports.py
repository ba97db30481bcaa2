"""The indexes of a table are exported as statements, and created again from these, built together."""

from __future__ import annotations

import json
import shutil
from datetime import datetime, timezone
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner
from deltalake import write_deltalake

import tailbit
from support.tables import index_of
from tailbit.base.errors import IndexNameTakenError, UsageError
from tailbit.cli.main import cli
from tailbit.index.sql.ddl.parser import parse_script
from tailbit.index.store.table import MetadataTable
from tailbit.upkeep.statements import table_for


@pytest.fixture
def path(tmp_path: Path) -> str:
    table = str(tmp_path / "t")
    at = datetime(2026, 1, 1, 23, tzinfo=timezone.utc)
    for part in ("p0", "p1"):
        keys = list(range(10))
        data = {"k": keys, "my col": [f"S{k}" for k in keys], "ts": [at] * 10, "p": [part] * 10}
        write_deltalake(table, pa.table(data), mode="append", partition_by=["p"])
    return table


STATEMENTS = (
    "CREATE INDEX up ON {} (upper(`my col`)) COMMENT 'it\\'s'",
    "CREATE INDEX keyed ON {} USING record_key (k, `my col`) OPTIONS (keys = 'hash')",
    "CREATE INDEX st ON {} USING column_stats (*)",
    "CREATE INDEX bloom ON {} USING bloom_filter (k)",
    "CREATE INDEX two ON {} (k, `my col`) OPTIONS (counts = 'off') WHERE p = 'p1'",
    "CREATE INDEX later ON {} (k % 3) WITH DEFERRED REBUILD IDXPROPERTIES ('Who' = 'me')",
    "CREATE INDEX parts ON {} (k % 4) WITH DEFERRED REBUILD WHERE p IN ('p0', 'p1')",
)


def shapes(path: str) -> list[tuple[object, ...]]:
    """What the definitions of an index are, without the ids that each index gives them."""
    definitions = MetadataTable.open(f"{path}/_tailbit").state.settings.definitions
    return [(d.name, d.kind, d.terms, dict(d.options), d.only, d.only_columns) for d in definitions]


def test_what_was_exported_is_created_again_with_kinds_options_parts_zones_and_notes(path: str) -> None:
    index_of(path, ["my col"])
    for statement in STATEMENTS:
        tailbit.sql(statement.format(f"'{path}'"))
    tailbit.sql(f"CREATE INDEX day ON '{path}' (date(ts))", zone="Asia/Tokyo")
    tailbit.open(path).rebuild_index("parts", only="p = 'p0'")
    script, before = tailbit.open(path)._script(), shapes(path)
    shutil.rmtree(f"{path}/_tailbit")
    described = table_for(path, None, None)._created_by(parse_script(script), None)
    assert shapes(path) == before
    assert tailbit.open(path)._script() == script
    assert {index.state for index in described} == {"complete", "deferred"}
    assert tailbit.open(path).where("date(ts) = '2026-01-02'", zone="Asia/Tokyo").files_scanned == 0


def test_a_script_that_runs_again_creates_only_what_is_not_there(path: str) -> None:
    index_of(path, ["k"])
    tailbit.sql(f"CREATE INDEX parity ON '{path}' (k % 2)")
    table = tailbit.open(path)
    script = parse_script(table._script())
    table.drop_index("parity")
    before = MetadataTable.open(f"{path}/_tailbit").version
    assert [index.name for index in tailbit.open(path)._created_by(script, None)] == ["k", "parity"]
    after = MetadataTable.open(f"{path}/_tailbit").version
    assert after > before
    tailbit.open(path)._created_by(script, None)
    assert MetadataTable.open(f"{path}/_tailbit").version == after


def test_a_column_that_was_renamed_is_exported_by_its_present_name(path: str) -> None:
    """As Delta renames it: the physical name, which the index has, stays."""
    index_of(path, ["k"])
    tailbit.sql(f"CREATE INDEX parity ON '{path}' (k % 2)")
    log = sorted(Path(path, "_delta_log").glob("*.json"))
    lines = [json.loads(line) for line in log[0].read_text().splitlines()]
    meta = next(line["metaData"] for line in lines if "metaData" in line)
    schema = json.loads(meta["schemaString"])
    for number, field in enumerate(schema["fields"], 1):
        field["metadata"] = {
            "delta.columnMapping.id": number,
            "delta.columnMapping.physicalName": field["name"],
        }
        field["name"] = {"k": "key"}.get(field["name"], field["name"])
    meta["schemaString"] = json.dumps(schema)
    meta["configuration"] = {"delta.columnMapping.mode": "name"}
    protocol = {"protocol": {"minReaderVersion": 2, "minWriterVersion": 5}}
    new = log[-1].with_name(f"{len(log):020}.json")
    new.write_text("".join(f"{json.dumps(line)}\n" for line in (protocol, {"metaData": meta})))
    terms = [s.statement.terms[0].text for s in parse_script(tailbit.open(path)._script())]  # type: ignore[union-attr]
    assert terms == ["key", "key % 2"]


def test_names_of_tables_and_of_arguments_are_not_taken_for_columns(tmp_path: Path) -> None:
    """A term may name its column by the table, and an argument of a function may have a column's name."""
    path = str(tmp_path / "tab")
    rows = {"s": ["A", "b"], "t": [1, 2], "tags": [["x"], []]}
    write_deltalake(path, pa.table(rows))
    for term in ("lower(tab.s)", "t > 1 AND exists(tags, t -> t = 'x')"):
        tailbit.sql(f"CREATE INDEX `{term[:6]}` ON '{path}' ({term})")
    terms = [s.statement.terms[0].text for s in parse_script(tailbit.open(path)._script())]  # type: ignore[union-attr]
    assert terms == ["lower(s)", "t > 1 AND exists(tags, t -> t = 'x')"]


def test_a_file_at_the_root_is_not_looked_for_in_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "no such statements.sql").write_text("CREATE INDEX a ON t (k)")
    monkeypatch.chdir(tmp_path)
    given = ["index", "create", str(tmp_path / "t"), "--from", "/no such statements.sql"]
    refused = CliRunner().invoke(cli, given)
    assert isinstance(refused.exception, UsageError)
    assert "cannot be read" in str(refused.exception)


def test_an_index_of_the_same_terms_by_another_name_stands_for_that_of_a_script(path: str) -> None:
    tailbit.sql(f"CREATE INDEX mine ON '{path}' (UPPER(`my col`))")
    script = "CREATE INDEX up ON t (upper(`my col`)); CREATE INDEX parity ON t (k % 2);"
    Path(path, "indexes.sql").write_text(script)
    ran = CliRunner().invoke(cli, ["index", "create", path, "--from", f"{path}/indexes.sql"])
    assert ran.exit_code == 0, ran.output
    assert "up is there already: mine is an index of the same terms" in ran.output
    assert {name for name, *_ in shapes(path)} == {"mine", "parity"}


@pytest.mark.parametrize("clash", ["(lower(`my col`))", "USING bloom_filter (k)", "(k % 3, `my col`)"])
def test_a_script_that_gives_a_name_to_other_terms_is_refused_before_anything_is_made(
    path: str, clash: str
) -> None:
    tailbit.sql(f"CREATE INDEX up ON '{path}' (upper(`my col`))")
    before = MetadataTable.open(f"{path}/_tailbit").version
    script = parse_script(
        f"CREATE INDEX parity ON '{path}' (k % 2); CREATE INDEX IF NOT EXISTS UP ON '{path}' {clash};"
    )
    with pytest.raises(IndexNameTakenError, match="it is an index of upper"):
        table_for(path, None, None)._created_by(script, None)
    assert MetadataTable.open(f"{path}/_tailbit").version == before


def test_a_script_that_gives_one_name_to_two_indexes_is_refused_before_the_first_is_made(path: str) -> None:
    script = parse_script(f"CREATE INDEX a ON '{path}' (k % 2); CREATE INDEX A ON '{path}' (k % 3);")
    with pytest.raises(IndexNameTakenError):
        table_for(path, None, None)._created_by(script, None)
    assert not Path(path, "_tailbit").exists()
