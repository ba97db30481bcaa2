"""A configuration is compared with its tables; a table that is not there is waited for."""

from __future__ import annotations

import json
import shutil
import signal
import socket
import subprocess
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner
from deltalake import DeltaTable, write_deltalake

import tailbit
from support.drive import Drive
from support.faulty_proxy import Fault, Proxy
from support.forked import Forked
from support.tables import index_of
from support.waiting import HANG_S
from tailbit.checkpoints.liveness import Liveness
from tailbit.cli.main import cli
from tailbit.errors import ConfigError
from tailbit.index.kinds.settings import NEWEST_FORMAT
from tailbit.index.store.table import MetadataTable
from tailbit.streaming.config import check
from tailbit.streaming.config.check import check_jars, check_tables
from tailbit.streaming.config.read import checked, read_config
from tailbit.streaming.many.states import STATES
from tailbit.streaming.watch.server import Pages, SeenApplication
from tailbit.streaming.watch.view import View
from tailbit.tables.storage import open_storage
from tailbit.upkeep import doctor
from tailbit.upkeep.machine import Finding, State

WATCH = ["-m", "tailbit.cli", "status", "--config", "tailbit.toml", "--watch", "0.1"]
"""A command that shows the tables of a configuration again and again."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two tables, of which `a` has an index of k."""
    for name in "ab":
        write_deltalake(str(tmp_path / name), pa.table({"k": [1, 2], "v": ["x", "y"]}))
    index_of(str(tmp_path / "a"), ["k"])
    return tmp_path


def problems(folder: Path, text: str, reloading: bool = False) -> list[str]:
    """What a start says of a file; or a reload by an application that had no such entries."""
    file = folder / "tailbit.toml"
    file.write_text(text)
    try:
        check_tables(read_config(file), before=() if reloading else None)
    except ConfigError as wrong:
        return [line.removeprefix(f"{folder}/") for line in str(wrong).splitlines()]
    return []


def run(*args: str) -> tuple[int, str]:
    done = CliRunner().invoke(cli, [*args], standalone_mode=False)
    assert done.exception is None, done.output
    return done.return_value or 0, done.stdout


def test_columns_that_a_table_lacks_are_refused_with_their_line(folder: Path) -> None:
    text = '[[table]]\npath = "a"\ncolumns = ["k"]\n[[table]]\npath = "b"\ncolumns = ["k", "w"]\n'
    (problem,) = problems(folder, text)
    assert problem.startswith("tailbit.toml:6: b: no column w in the table")


@pytest.mark.parametrize(
    ("columns", "said"), [('"k", "v"', "the index at "), ('"k", "w"', "no column w in the table")]
)
def test_other_columns_than_those_of_an_index_are_refused_by_a_reload_and_end_no_start(
    folder: Path, columns: str, said: str
) -> None:
    text = f'[[table]]\npath = "a"\ncolumns = [{columns}]\n'
    (problem,) = problems(folder, text, reloading=True)
    assert problem.startswith(f"tailbit.toml:3: a: {said}")
    assert problems(folder, text) == []
    read = read_config(folder / "tailbit.toml")
    check_tables(read)
    (warning,) = map(str, read.problems.warnings)
    assert warning.removeprefix(f"{folder}/") == problem
    findings = {finding.check: finding for finding in doctor.of_config(str(folder / "tailbit.toml"))}
    assert findings["a: configuration"].state is State.WARNING
    assert f"tailbit.toml:3: {said}" in findings["a: configuration"].found
    assert "a: index" in findings


def overwritten_without(table: Path, name: str) -> None:
    """A table loses a column, as by an overwrite with another schema."""
    found = DeltaTable(str(table)).to_pyarrow_table()
    write_deltalake(str(table), found.drop_columns([name]), mode="overwrite", schema_mode="overwrite")


@pytest.mark.parametrize(
    "columns",
    [
        pytest.param('"k", "v"', id="the file names it still"),
        pytest.param('"v"', id="the file was mended"),
        pytest.param('"K", "v"', id="the file names it in other letters"),
    ],
)
def test_a_column_that_was_dropped_from_a_table_stops_no_reload(folder: Path, columns: str) -> None:
    Drive(str(folder / "b"), folder / "b/_tailbit", ["k", "v"]).drain()
    overwritten_without(folder / "b", "k")
    text = '[[table]]\npath = "a"\ncolumns = ["k"]\n'
    text += f'[[table]]\npath = "b"\nmax_lag = "7s"\ncolumns = [{columns}]\n'
    assert problems(folder, text, reloading=True) == []
    assert problems(folder, text) == []
    (problem,) = problems(folder, text.replace('"v"]', '"v", "w"]'), reloading=True)
    assert "b: no column w in the table" in problem


def test_a_column_that_was_dropped_under_an_index_by_name_stops_no_reload(folder: Path) -> None:
    tailbit.open(str(folder / "a")).create_index("by_v", "upper(v)")
    overwritten_without(folder / "a", "v")
    text = '[[table]]\npath = "a"\ncolumns = ["k"]\n[[table.indexes]]\nname = "by_v"\non = "upper(v)"\n'
    assert problems(folder, text, reloading=True) == []
    read = read_config(folder / "tailbit.toml")
    check_tables(read, before=())
    (warning,) = map(str, read.problems.warnings)
    assert "no column v" in warning


def test_an_entry_that_is_as_it_was_stops_no_reload_whatever_is_wrong_with_its_table_now(
    folder: Path,
) -> None:
    file = folder / "tailbit.toml"
    file.write_text('[[table]]\npath = "b"\ncolumns = ["k", "v"]\n')
    before = read_config(file).config.table
    overwritten_without(folder / "b", "k")
    file.write_text(file.read_text() + '[[table]]\npath = "a"\ncolumns = ["k"]\n')
    read = read_config(file)
    check_tables(read, before=before)
    (warning,) = map(str, read.problems.warnings)
    assert "b: no column k in the table" in warning
    file.write_text('[[table]]\npath = "b"\ncolumns = ["k", "w"]\n')
    with pytest.raises(ConfigError, match="no column"):
        check_tables(read_config(file), before=before)


def test_the_command_that_changes_the_columns_of_an_index_is_named(folder: Path) -> None:
    (problem,) = problems(folder, '[[table]]\npath = "a"\ncolumns = ["v"]\n', reloading=True)
    assert "tailbit alter" in problem


@pytest.mark.parametrize(
    ("on", "said"),
    [
        ("upper(v)", ""),
        ("UPPER( v )", ""),
        ("lower(v)", "index by_v is a bitmap of upper(v), not a bitmap of lower(v)"),
        ("upper(w)", "no column w"),
    ],
)
def test_an_index_by_name_that_is_another_one_is_refused_by_a_reload_and_ends_no_start(
    folder: Path, on: str, said: str
) -> None:
    tailbit.open(str(folder / "a")).create_index("by_v", "upper(v)")
    text = f'[[table]]\npath = "a"\n[[table.indexes]]\nname = "by_v"\non = "{on}"\n'
    told = problems(folder, text, reloading=True)
    assert len(told) == bool(said)
    assert all(problem.startswith("tailbit.toml:3: a: ") and said in problem for problem in told)
    assert problems(folder, text) == []


def test_a_damaged_index_needs_no_columns_in_the_file_and_the_rest_is_compared(folder: Path) -> None:
    for settings in (folder / "a/_tailbit/kind=settings").iterdir():
        settings.write_bytes(b"")
    text = '[[table]]\npath = "a"\n'
    assert problems(folder, text, reloading=True) == []
    text += '[[table.indexes]]\nname = "by_w"\non = "upper(w)"\n'
    (problem,) = problems(folder, text, reloading=True)
    assert problem.startswith("tailbit.toml:3: a: no column w")
    assert problems(folder, text) == []


def test_a_table_that_cannot_be_read_is_warned_of_with_its_line_and_stops_no_other(folder: Path) -> None:
    commit: dict[str, dict[str, Any]] = {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7}}
    commit["protocol"] |= {name: ["catalogManaged"] for name in ("readerFeatures", "writerFeatures")}
    (folder / "b" / "_delta_log" / f"{1:020}.json").write_text(json.dumps(commit))
    a, b = '[[table]]\npath = "a"\ncolumns = ["k"]\n', '[[table]]\npath = "b"\ncolumns = ["v"]\n'
    assert problems(folder, a + b) == []
    read = read_config(folder / "tailbit.toml")
    check_tables(read)
    (warning,) = map(str, read.problems.warnings)
    assert warning.startswith(
        f"{folder}/tailbit.toml:5: b: table {folder}/b at version 1 uses catalogManaged"
    )
    (problem,) = problems(folder, b)
    assert problem.startswith("tailbit.toml:2: b: table ")


def test_a_table_that_does_not_answer_is_waited_for_and_holds_up_no_other(
    folder: Path, s3: Proxy, s3_root: str, s3_options: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check, "LOOK_S", 5.0)
    s3.rule = lambda request: Fault.SLOW
    options = "\n".join(f'{name} = "{value}"' for name, value in s3_options.items())
    (folder / "tailbit.toml").write_text(
        f'[[table]]\npath = "a"\n[[table]]\npath = "{s3_root}"\nid = "b"\n[table.storage_options]\n{options}'
    )
    found = check_tables(read_config(folder / "tailbit.toml"))
    assert [look.waits for look in found] == ["", "no answer within 5 s"]


def of_two_tables(folder: Path, options: dict[str, str], root: str) -> Path:
    """A configuration of the table `a` on disk and one in a store."""
    lines = "\n".join(f'{name} = "{value}"' for name, value in options.items())
    file = folder / "tailbit.toml"
    file.write_text(
        f'[[table]]\npath = "a"\n[[table]]\npath = "{root}"\nid = "b"\ncolumns = ["k"]\n'
        f"[table.storage_options]\n{lines}"
    )
    return file


def test_a_table_to_which_access_is_denied_is_waited_for_since_the_right_may_be_granted(
    folder: Path, s3: Proxy, s3_root: str, s3_options: dict[str, str]
) -> None:
    s3.rule = lambda request: Fault.DENIED
    file = of_two_tables(folder, s3_options, s3_root)
    found, denied = check_tables(read_config(file))
    assert found.waits == ""
    assert "denies access" in denied.waits
    findings = {finding.check: finding for finding in doctor.of_config(str(file))}
    (problem,) = [f for check, f in findings.items() if check.startswith("b:") and f.state is State.PROBLEM]
    assert "denies access" in problem.found


def test_a_table_whose_options_make_no_store_is_refused_with_its_line(
    folder: Path, s3_options: dict[str, str]
) -> None:
    file = of_two_tables(folder, s3_options, "s3:///orders")
    (problem,) = problems(folder, file.read_text())
    assert problem.startswith("tailbit.toml:4: b: ")


def test_the_wait_for_tables_is_told_of_and_ends_when_all_is_to_stop(
    folder: Path, s3: Proxy, s3_root: str, s3_options: dict[str, str]
) -> None:
    s3.rule = lambda request: Fault.SLOW
    life, stop = Liveness(), threading.Event()
    file = of_two_tables(folder, s3_options, s3_root)

    def on_wait() -> None:
        life.wait_for("looking")
        stop.set()

    _, late = check_tables(read_config(file), on_wait, stop)
    assert late.waits
    assert life.waits


def test_an_index_of_a_newer_format_is_warned_of_and_stops_no_other_table(folder: Path) -> None:
    index = MetadataTable.open(str(folder / "a" / "_tailbit"))
    index.commit([], [], None, settings=replace(index.state.settings, format=NEWEST_FORMAT + 1))
    text = '[[table]]\npath = "a"\n[[table]]\npath = "b"\ncolumns = ["v"]\n'
    assert problems(folder, text) == []
    read = read_config(folder / "tailbit.toml")
    refused, well = check_tables(read)
    assert (refused.is_of_table, well.is_of_table) == (True, False)
    (warning,) = map(str, read.problems.warnings)
    assert "format" in warning


def test_secrets_among_the_settings_of_spark_are_warned_of_and_no_option_is_shown(folder: Path) -> None:
    text = """[application.spark]
"spark.hadoop.fs.s3a.secret.key" = "hush"
"spark.hadoop.fs.s3a.aws.credentials.provider" = "org.example.Provider"
[[table]]
path = "a"
"""
    (folder / "t.toml").write_text(text)
    (warning,) = map(str, read_config(folder / "t.toml").problems.warnings)
    assert '"${SPARK_HADOOP_FS_S3A_SECRET_KEY}"' in warning
    assert "hush" not in warning
    (folder / "t.toml").write_text('[[table]]\npath = "a"\nstorage_options = { ACCOUNT_KEY = 98765 }\n')
    with pytest.raises(ConfigError) as wrong:
        read_config(folder / "t.toml")
    assert "t.toml:3: ACCOUNT_KEY: input should be a valid string" in str(wrong.value)
    assert "98765" not in str(wrong.value)


def test_a_table_of_the_catalog_is_looked_at_where_the_application_has_found_it(folder: Path) -> None:
    file = folder / "tailbit.toml"
    file.write_text(f'[application]\nlease = "{folder}/lease"\n[[table]]\nname = "db.a"\n')
    status, text = run("status", "--config", str(file), "--json")
    assert (status, "no application has found it" in json.loads(text)["error"]) == (1, True)
    lease = open_storage(str(folder / "lease"))
    lease.make_root()
    states = [{"id": "a", "state": "following", "reason": "", "root": str(folder / "a")}]
    lease.put(STATES, json.dumps({"tables": states}).encode())
    status, text = run("status", "--config", str(file), "--json")
    account = json.loads(text)
    assert (status, account["id"], account["within_max_lag"]) == (0, "a", True)
    assert account["table"] == str(folder / "a")
    found = {finding.check: finding for finding in doctor.of_config(str(file))}
    assert found["a: index"].state is State.OK


def test_a_table_without_index_needs_columns(folder: Path) -> None:
    assert problems(folder, '[[table]]\npath = "a"\n') == []
    (problem,) = problems(folder, '[[table]]\npath = "b"\n')
    assert problem.startswith("tailbit.toml:1: b: no index at ")
    assert "Add columns = " in problem


def test_a_table_whose_index_has_vanished_with_its_columns_stops_no_other(folder: Path) -> None:
    shutil.rmtree(folder / "a/_tailbit")
    assert problems(folder, '[[table]]\npath = "a"\n[[table]]\npath = "b"\ncolumns = ["k"]\n') == []
    read = read_config(folder / "tailbit.toml")
    check_tables(read)
    assert ["tailbit.toml:1: a: no index at" in str(warning) for warning in read.problems.warnings] == [True]


def test_an_index_by_name_of_terms_that_another_has_is_told_with_its_line(folder: Path) -> None:
    by_k = '[[table.indexes]]\nname = "by_k"\non = "k"\n'
    (problem,) = problems(folder, f'[[table]]\npath = "a"\n{by_k}', reloading=True)
    assert problem.startswith("tailbit.toml:3: a: ")
    assert "k is an index of k already" in problem
    assert problems(folder, f'[[table]]\npath = "a"\n{by_k}') == []
    (problem,) = problems(folder, f'[[table]]\npath = "b"\ncolumns = ["k"]\n{by_k}')
    assert problem.startswith("tailbit.toml:4: b: ")


@pytest.mark.parametrize("table", ["a", "b"])
def test_an_index_that_is_named_as_a_column_is_that_of_the_column(folder: Path, table: str) -> None:
    named = '[[table.indexes]]\nname = "k"\non = "k"\n'
    assert problems(folder, f'[[table]]\npath = "{table}"\ncolumns = ["k"]\n{named}', reloading=True) == []


def test_an_index_by_name_with_a_time_zone_or_over_a_widened_column_is_the_same(tmp_path: Path) -> None:
    day = pa.array([0], pa.timestamp("us", "UTC"))
    table = str(tmp_path / "a")
    write_deltalake(table, pa.table({"ts": day, "k": pa.array([1], pa.int32())}))
    index_of(table, ["k"])
    tailbit.open(table).create_index("by_day", "date(ts)", zone="Europe/Berlin")
    tailbit.open(table).create_index("by_next", "k + 1")
    named = "".join(
        f'[[table.indexes]]\nname = "{name}"\non = "{on}"\n'
        for name, on in (("by_day", "date(ts)"), ("by_next", "k + 1"))
    )
    assert problems(tmp_path, f'[[table]]\npath = "a"\n{named}', reloading=True) == []
    write_deltalake(
        table,
        pa.table({"ts": day, "k": pa.array([1], pa.int64())}),
        mode="overwrite",
        schema_mode="overwrite",
    )
    assert problems(tmp_path, f'[[table]]\npath = "a"\n{named}', reloading=True) == []


def test_an_index_by_name_that_cannot_be_is_refused_with_its_line(folder: Path) -> None:
    text = """[[table]]
path = "a"
[[table.indexes]]
name = "good"
on = "upper(v)"
[[table.indexes]]
name = "bad"
on = "upper(w)"
[[table.indexes]]
name = "odd"
on = "v"
using = "btree"
"""
    assert [line.partition(": ")[0] for line in problems(folder, text)] == [
        "tailbit.toml:6",
        "tailbit.toml:9",
    ]


def test_a_place_that_holds_something_else_is_refused(folder: Path) -> None:
    (problem,) = problems(folder, '[[table]]\npath = "b"\ncolumns = ["k"]\nindex = "a"\n')
    assert problem.startswith("tailbit.toml:4: b: ")


def test_a_table_that_is_not_there_is_waited_for_and_nothing_is_written(folder: Path) -> None:
    before = sorted(folder.rglob("*"))
    (folder / "t.toml").write_text(
        '[[table]]\npath = "c"\ncolumns = ["k"]\n[[table]]\npath = "b"\ncolumns=["k"]\n'
    )
    missing, there = check_tables(read_config(folder / "t.toml"))
    assert "no such folder" in missing.waits
    assert not there.waits
    (folder / "t.toml").unlink()
    assert sorted(folder.rglob("*")) == before


def test_status_of_a_configuration_is_a_line_a_table(folder: Path) -> None:
    file = folder / "tailbit.toml"
    file.write_text('[[table]]\npath = "a"\n[[table]]\npath = "b"\ncolumns = ["k"]\npaused = true\n')
    status, text = run("status", "--config", str(file))
    assert status == 0
    assert [line.split("\t")[:2] for line in text.splitlines()[1:]] == [["ok", "a"], ["paused", "b"]]
    file.write_text(
        file.read_text().replace("paused = true", "").replace('path = "a"', 'path = "a"\nid = "first"')
    )
    status, text = run("status", "--config", str(file), "--json")
    accounts = [json.loads(line) for line in text.splitlines()]
    assert status == 1
    assert [(a["id"], a["within_max_lag"]) for a in accounts] == [("first", True), ("b", False)]
    assert "no index" in accounts[1]["error"]


def test_status_names_files_that_questions_read_in_place_of_the_index(folder: Path) -> None:
    write_deltalake(str(folder / "a"), pa.table({"k": [3], "v": ["z"]}), mode="append")
    Path(DeltaTable(str(folder / "a")).file_uris()[0].removeprefix("file://")).unlink()
    Drive(str(folder / "a"), folder / "a/_tailbit").drain()
    file = folder / "tailbit.toml"
    file.write_text('[[table]]\npath = "a"\n')
    listed = run("status", "--config", str(file))[1]
    assert "read instead: 1 file: data file part-" in listed
    assert "the file is missing" in listed
    told = run("status", str(folder / "a"))[1]
    assert "complete: the covered version is indexed, but for what is named below" in told


def test_doctor_of_a_configuration_looks_at_each_table_and_names_lines(folder: Path) -> None:
    file = folder / "tailbit.toml"
    file.write_text('[[table]]\npath = "a"\n[[table]]\npath = "b"\ncolumns = ["w"]\n')
    status, text = run("doctor", "--config", str(file), "--json")
    findings = {check["check"]: check for check in json.loads(text)["checks"]}
    assert status == 1
    assert findings["a: index"]["found"].startswith("complete, version 0 of 0")
    assert findings["b: configuration"]["found"].startswith(f"{file}:5: no column w")
    file.write_text("[[tables]]\n")
    status, text = run("doctor", "--config", str(file))
    assert status == 1
    assert f"{file}:1: there is no key tables. Did you mean table?" in text


def application_findings(
    folder: Path, *lines: str, tables: str = '[[table]]\npath = "a"\n'
) -> dict[str, Finding]:
    """What doctor finds of an application with these lines, by the name of the check."""
    file = folder / "tailbit.toml"
    file.write_text("\n".join(("[application]", *lines, tables)))
    return {finding.check: finding for finding in doctor.of_config(str(file))}


def test_doctor_names_places_a_port_and_jars_that_an_application_cannot_use(folder: Path) -> None:
    (folder / "file").touch()
    jar = folder / "io.delta_delta-spark_4.1_2.13-4.4.0.jar"
    jar.touch()
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"
        found = application_findings(
            folder,
            f'checkpoint = "{folder}/file/c"',
            f'lease = "{folder}/file/l"',
            f'metrics = "{address}"',
            f'spark = {{ "spark.jars" = "{jar}" }}',
        )
    told = {check: (found[check].state, found[check].found) for check in found if not check.startswith("a:")}
    told.pop("configuration")
    assert told == {
        "jars": (
            State.PROBLEM,
            f"{folder}/tailbit.toml:5: {jar}: it is of Spark 4.1, and pyspark 4.2.0 is installed",
        ),
        "checkpoint": (State.PROBLEM, f"{folder}/file cannot be written to"),
        "lease": (State.PROBLEM, f"{folder}/file cannot be written to"),
        "port of the pages": (State.WARNING, f"{address}: Address already in use"),
    }


def test_a_host_of_the_pages_that_is_not_known_is_named_and_ends_nothing(folder: Path) -> None:
    host = "no-such-host.invalid"
    found = application_findings(folder, f'metrics = "{host}:9464"')["port of the pages"]
    assert found.state is State.WARNING
    assert "Unknown error" not in found.found
    assert f"{host}:9464: " in found.found
    told: list[str] = []
    with SeenApplication(f"{host}:9464", View(Liveness("at work"), 60.0), told.append, told.append):
        assert [line.partition(": ")[0] for line in told] == ["no metrics"]


def test_doctor_takes_the_pages_of_an_application_at_work_for_well(folder: Path) -> None:
    view = View(Liveness("at work"), 60.0, lease=f"{folder}/lease")
    pages = Pages("127.0.0.1:0", view)
    lines = f'metrics = "{pages.url.removeprefix("http://")}"', f'lease = "{folder}/lease"'
    try:
        found = application_findings(folder, *lines)
        assert found["port of the pages"].state is State.OK
        view.lease = "/another/lease"
        found = application_findings(folder, *lines)
    finally:
        pages.close()
    assert found["port of the pages"].state is State.WARNING
    assert "/another/lease" in found["port of the pages"].found


def test_doctor_tells_of_a_table_of_a_catalog_once_with_its_line(folder: Path) -> None:
    commit: dict[str, dict[str, Any]] = {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7}}
    commit["protocol"] |= {name: ["catalogManaged"] for name in ("readerFeatures", "writerFeatures")}
    (folder / "b" / "_delta_log" / f"{1:020}.json").write_text(json.dumps(commit))
    found = application_findings(folder, tables='[[table]]\npath = "b"\ncolumns = ["v"]\n')
    (of_b,) = (finding for check, finding in found.items() if check.startswith("b:"))
    assert (of_b.check, of_b.state) == ("b: table", State.PROBLEM)
    assert of_b.found.startswith(
        f"{folder}/tailbit.toml:3: table {folder}/b at version 1 uses catalogManaged"
    )


def test_status_of_a_configuration_tells_what_the_application_met(folder: Path) -> None:
    file = folder / "tailbit.toml"
    file.write_text(f'[application]\ncheckpoint = "{folder}/c"\n[[table]]\npath = "a"\n')
    (folder / "c").mkdir()
    state = {"id": "a", "state": "retrying", "reason": "StorageError: slow", "remedy": "Wait.", "since": 1.0}
    (folder / "c" / "tables.json").write_text(json.dumps({"tables": [state]}))
    assert "retrying: StorageError: slow" in run("status", "--config", str(file))[1]
    account = json.loads(run("status", "--config", str(file), "--json")[1])
    assert account["application"]["remedy"] == "Wait."
    (folder / "c" / "tables.json").write_text("torn")
    assert "application" not in json.loads(run("status", "--config", str(file), "--json")[1])


def test_doctor_names_a_table_that_does_not_answer_and_looks_at_the_others(
    folder: Path, s3: Proxy, s3_root: str, s3_options: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "LOOK_S", 1.0)
    s3.rule = lambda request: Fault.SLOW
    options = "\n".join(f'{name} = "{value}"' for name, value in s3_options.items())
    (folder / "tailbit.toml").write_text(
        f'[[table]]\npath = "a"\n[[table]]\npath = "{s3_root}"\nid = "b"\n[table.storage_options]\n{options}'
    )
    found = list(doctor.of_config(str(folder / "tailbit.toml")))
    told = {finding.check: finding for finding in found}
    assert told["b: table"].state is State.PROBLEM
    assert "no answer within 1 s" in told["b: table"].found
    assert any(check.startswith("a: ") for check in told)


def test_watch_shows_the_tables_again_and_again_until_ctrl_c(folder: Path) -> None:
    (folder / "tailbit.toml").write_text('[application]\nmetrics = "off"\n[[table]]\npath = "a"\n')
    watch = Forked([*WATCH, "--json"], cwd=folder, stdout=subprocess.PIPE, text=True)
    assert watch.stdout is not None
    told = [json.loads(watch.stdout.readline()) for _ in range(3)]
    watch.send_signal(signal.SIGINT)
    assert (watch.wait(HANG_S), [account["id"] for account in told]) == (0, ["a", "a", "a"])
    watch.stdout.close()


def test_watch_goes_on_while_the_file_is_being_written(folder: Path) -> None:
    file = folder / "tailbit.toml"
    file.write_text('[application]\nmetrics = "off"\n[[table]]\npath = "a"\n')
    whole = file.read_text()
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with Forked([*WATCH, "--json"], cwd=folder, text=True, **pipes) as watch:
        assert watch.stdout is not None
        assert watch.stderr is not None
        watch.stdout.readline()
        file.write_text(whole[:-20])
        assert "tailbit.toml:" in watch.stderr.readline()
        file.write_text(whole)
        while json.loads(watch.stdout.readline())["id"] != "a":
            pass
        watch.send_signal(signal.SIGINT)
        assert watch.wait(HANG_S) == 0


def misfits(key: str, *jars: str) -> list[str]:
    text = f'[application.spark]\n"{key}" = "{", ".join(jars)}"\n[[table]]\npath = "/t"\n'
    read = checked(text, "/etc/tailbit/tailbit.toml", {})
    check_jars(read)
    return [str(problem).removeprefix("/etc/tailbit/tailbit.toml:") for problem in read.problems.errors]


@pytest.mark.parametrize(
    ("package", "said"),
    [
        ("io.delta:delta-spark_4.2_2.13:4.4.0", ""),
        ("org.apache.hadoop:hadoop-aws:3.4.2", ""),
        ("io.delta:delta-spark_2.13:4.4.0", ""),
        ("io.delta:delta-spark_2.13:4.0.0", "2: {}: it is of Spark 4.0, and pyspark 4.2.0 is installed"),
        ("io.delta:delta-spark_2.13:3.2.0", "2: {}: it is of Spark 3.5, and pyspark 4.2.0 is installed"),
        ("io.delta:delta-spark_4.0_2.13:4.4.0", "2: {}: it is of Spark 4.0, and pyspark 4.2.0 is installed"),
        ("org.example:connector_2.12:2.4.0", "2: {}: it is of Scala 2.12, and Spark 4.2.0 has 2.13"),
    ],
)
def test_a_package_of_another_spark_or_scala_is_refused(package: str, said: str) -> None:
    assert misfits("spark.jars.packages", package) == ([said.format(package)] if said else [])


def test_a_jar_that_is_not_there_and_one_of_another_spark_are_refused(tmp_path: Path) -> None:
    fits, other = tmp_path / "own.jar", tmp_path / "io.delta_delta-spark_4.1_2.13-4.4.0.jar"
    for jar in (fits, other):
        jar.touch()
    missing = tmp_path / "missing.jar"
    found = misfits(
        "spark.jars",
        *(str(fits), f"file://{other}", str(missing)),
        *("s3://lake/x.jar", "local:/opt/x.jar", "hdfs:/x.jar", f"{tmp_path}/*.jar"),
    )
    assert found == [
        f"2: file://{other}: it is of Spark 4.1, and pyspark 4.2.0 is installed",
        f"2: {missing}: there is no such file",
    ]
