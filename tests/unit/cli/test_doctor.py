"""`tailbit doctor` names what keeps an indexer from its work, and changes nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from support.faulty_proxy import Fault, Proxy
from support.s3_server import rclone
from support.tables import flipped_pages, index_files, index_of
from tailbit.upkeep.machine import available_memory

TOOL = Path(sys.executable).with_name("tailbit")


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A table of one file."""
    path = str(tmp_path / "t")
    write_deltalake(path, pa.table({"c": ["a", "b"]}))
    return path


def doctor(*arguments: str, variables: Mapping[str, str] | None = None) -> tuple[int, dict[str, Any]]:
    """Exit status, and each finding by its check."""
    done = subprocess.run(
        [TOOL, "doctor", *arguments, "--json"],
        env=os.environ | dict(variables or {}),
        capture_output=True,
        text=True,
        check=False,
    )
    assert not done.stderr
    account = json.loads(done.stdout)
    findings = {finding["check"]: finding for finding in account["checks"]}
    assert account["problems"] == sum(finding["state"] == "problem" for finding in findings.values())
    return done.returncode, findings


def contents(folder: str) -> dict[str, bytes]:
    return {str(file): file.read_bytes() for file in Path(folder).rglob("*") if file.is_file()}


def test_a_sound_machine_and_table_have_no_problem_and_nothing_changes(path: str) -> None:
    index_of(path, ["c"])
    before = contents(path)
    status, findings = doctor(path)
    assert status == 0, findings
    assert findings["table"]["found"] == f"{path}: version 0, 1 file"
    assert findings["index"]["found"] == "complete, version 0 of 0, no indexer runs"
    assert findings["lag"]["found"] == "nothing waits"
    assert contents(path) == before


def package(folder: Path, name: str, version: str) -> None:
    """A package of a release that stands first on the path."""
    (folder / name).mkdir()
    (folder / name / "__init__.py").write_text("")
    info = folder / f"{name}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")


def old_java(folder: Path) -> dict[str, str]:
    (folder / "bin").mkdir()
    (folder / "bin" / "java").touch(mode=0o755)
    (folder / "release").write_text('JAVA_VERSION="11.0.2"\n')
    return {"JAVA_HOME": str(folder)}


def spark_of_another_release(folder: Path) -> dict[str, str]:
    (folder / "jars").mkdir()
    (folder / "jars" / "spark-core_2.12-3.5.1.jar").touch()
    return {"SPARK_HOME": str(folder)}


def with_package(name: str, version: str) -> Callable[[Path], dict[str, str]]:
    def variables(folder: Path) -> dict[str, str]:
        package(folder, name, version)
        return {"PYTHONPATH": str(folder)}

    return variables


def state_in_a_file(folder: Path) -> dict[str, str]:
    (folder / "file").touch()
    return {"STATE_DIRECTORY": str(folder / "file" / "tailbit")}


MACHINES: dict[str, tuple[Callable[[Path], dict[str, str]], str, str, str]] = {
    "no Java": (lambda _: {"JAVA_HOME": "/none"}, "java", "problem", "Java is not installed"),
    "old Java": (old_java, "java", "problem", "Java 11 is too old"),
    "old Spark": (with_package("pyspark", "3.5.8"), "spark", "problem", "pyspark 3.5.8 is installed"),
    "new pandas": (with_package("pandas", "3.0.1"), "spark", "problem", "pandas 3.0.1 is installed"),
    "old package": (with_package("pyroaring", "0.4.0"), "packages", "problem", "pyroaring 0.4.0 ("),
    "SPARK_HOME of nothing": (lambda f: {"SPARK_HOME": str(f)}, "SPARK_HOME", "problem", "holds no Spark"),
    "SPARK_HOME of old": (spark_of_another_release, "SPARK_HOME", "problem", "Spark 3.5.1 at"),
    "no Python": (lambda _: {"PYSPARK_PYTHON": "/none"}, "PYSPARK_PYTHON", "problem", "is no program"),
    "no state": (state_in_a_file, "state of this user", "warning", "cannot be written to"),
}


@pytest.mark.parametrize("machine", MACHINES)
def test_what_is_wrong_with_a_machine_is_named(machine: str, tmp_path: Path) -> None:
    variables, check, state, found = MACHINES[machine]
    status, findings = doctor(variables=variables(tmp_path))
    finding = findings[check]
    assert (finding["state"], status) == (state, int(state == "problem"))
    assert found in finding["found"]
    assert finding["needed"]
    assert finding["remedy"]


def test_a_package_that_cannot_be_imported_is_named_once_more(tmp_path: Path, path: str) -> None:
    package(tmp_path, "pyroaring", "0.4.0")
    status, findings = doctor(path, variables={"PYTHONPATH": str(tmp_path)})
    assert (status, findings["imports"]["state"]) == (1, "problem")
    assert "pyroaring" in findings["imports"]["found"]
    assert "table" not in findings


def no_table(path: str) -> None:
    Path(path, "_delta_log", f"{0:020}.json").unlink()
    Path(path, "_delta_log").rmdir()


def no_data(path: str) -> None:
    next(Path(path).glob("*.parquet")).unlink()


def damaged_log(path: str) -> None:
    Path(path, "_delta_log", f"{0:020}.json").write_text("{no json")


def no_folder(path: str) -> None:
    Path(path, "_tailbit").touch()


def damaged_index(path: str) -> None:
    index_of(path, ["c"])
    for file in index_files(path, "files"):
        flipped_pages(file)


def of_the_future(path: str) -> None:
    log = Path(path, "_delta_log", f"{0:020}.json")
    later = time.time() + 3600
    os.utime(log, (later, later))


def late(path: str) -> None:
    index_of(path, ["c"])
    write_deltalake(path, pa.table({"c": ["x"]}), mode="append")
    for version in (0, 1):
        earlier = time.time() - 4100 + version
        os.utime(Path(path, "_delta_log", f"{version:020}.json"), (earlier, earlier))


TABLES: dict[str, tuple[Callable[[str], None], str, str, str]] = {
    "no log": (no_table, "table", "problem", "it holds Parquet files without a log"),
    "a damaged log": (damaged_log, "table", "problem", "0.json"),
    "no data": (no_data, "data", "problem", "parquet"),
    "no folder": (no_folder, "place of the index", "problem", "cannot be written to"),
    "a damaged index": (damaged_index, "index", "problem", "kind=files"),
    "a commit of the future": (of_the_future, "clock", "warning", "s in the future"),
    "late": (late, "lag", "warning", "1 version behind, the oldest for 4"),
}


@pytest.mark.parametrize("case", TABLES)
def test_what_is_wrong_with_a_table_or_its_index_is_named(case: str, path: str) -> None:
    change, check, state, found = TABLES[case]
    change(path)
    before = contents(path)
    status, findings = doctor(path)
    finding = findings[check]
    assert (finding["state"], status) == (state, int(state == "problem")), findings
    assert found in finding["found"]
    assert finding["remedy"]
    assert contents(path) == before


def test_a_store_that_ignores_conditional_puts_is_named_and_keeps_no_probe(tmp_path: Path, path: str) -> None:
    (tmp_path / "data" / "bucket").mkdir(parents=True)
    with rclone(tmp_path / "data") as server:
        options = (f"--storage-option={key}={value}" for key, value in server.options().items())
        status, findings = doctor(path, "--index", "s3://bucket/index", *options)
    assert status == 1
    assert "conditional put" in findings["place of the index"]["found"]
    assert contents(str(tmp_path / "data")) == {}


def test_a_state_folder_that_no_system_call_can_name_is_a_finding(tmp_path: Path, path: str) -> None:
    status, findings = doctor(path, variables={"STATE_DIRECTORY": f"{tmp_path}/{'x' * 300}/state"})
    assert status in (0, 1)
    assert "state of this user" in findings


def test_a_table_that_may_only_be_read_is_looked_at_whole_and_nothing_is_written_to_it(
    path: str, tmp_path: Path, s3: Proxy, s3_root: str, s3_options: dict[str, str]
) -> None:
    write_deltalake(s3_root, pa.table({"c": ["a"]}), storage_options=s3_options)
    writes = ("PUT", "POST", "DELETE")
    s3.rule = lambda request: Fault.DENIED if request.method in writes else None
    before = len(s3.seen)
    options = [part for item in s3_options.items() for part in ("--storage-option", "=".join(item))]
    _, findings = doctor(s3_root, "--index", str(tmp_path / "index"), *options)
    assert findings["table"]["state"] == "ok"
    assert "clock" in findings
    assert findings["index"]["found"].startswith(f"none yet: tailbit run {s3_root} --index {tmp_path}/index")
    assert [request for request in s3.seen[before:] if request.method in writes] == []


def test_memory_is_the_less_of_the_system_s_and_its_control_group_s(tmp_path: Path) -> None:
    assert available_memory(tmp_path) is None
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc" / "meminfo").write_text("MemTotal: 9000000 kB\nMemAvailable:    4194304 kB\n")
    assert available_memory(tmp_path) == 4 << 30
    group = tmp_path / "sys" / "fs" / "cgroup"
    group.mkdir(parents=True)
    (group / "memory.max").write_text("1073741824\n")
    (group / "memory.current").write_text("73741824\n")
    assert available_memory(tmp_path) == 1_000_000_000
    (group / "memory.max").write_text("max\n")
    assert available_memory(tmp_path) == 4 << 30
