"""The reader in Java, which knows docs/index-format.md alone, answers of the golden indexes."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyspark
import pytest

import tailbit
from support.golden import ANSWERS, FILES, GONE, WRITERS, unpack
from support.pages import ROOT
from support.tables import half_built, rewrite
from tailbit.index.kinds.files import FILES as FILE_RECORDS
from tailbit.index.kinds.settings import FORMAT
from tailbit.index.maintenance.merge import merge_all
from tailbit.index.store.table import MetadataTable

READER = ROOT / "examples" / "reader" / "IndexReader.java"
JARS = Path(pyspark.__file__).parent / "jars"
SHORTENED = 256
READ = [format_ for format_ in WRITERS if format_ >= FORMAT]
ASKED: dict[str, list[dict[str, Any]]] = json.loads(ANSWERS.read_text(encoding="utf-8"))

Told = list[dict[str, Any]]
Read = Callable[[str, list[str]], Told]


@pytest.fixture(scope="module")
def read(tmp_path_factory: pytest.TempPathFactory) -> Read:
    """The reader, compiled: asks questions of the index of a table."""
    if shutil.which("javac") is None:
        pytest.skip("needs a JDK")
    classes = tmp_path_factory.mktemp("classes")
    compiler = [
        "javac",
        "-Xlint:all,-path,-classfile",
        "-Werror",
        "-proc:none",
        "-d",
        str(classes),
        "-cp",
        f"{JARS}/*",
    ]
    subprocess.run([*compiler, str(READER)], check=True)

    def answers(path: str, questions: list[str]) -> Told:
        command = ["java", "-XX:TieredStopAtLevel=1", "-cp", f"{classes}:{JARS}/*", "IndexReader"]
        asked = "".join(f"{question}\n" for question in questions)
        done = subprocess.run(
            [*command, f"{path}/_tailbit"], input=asked, capture_output=True, text=True, check=True
        )
        return [json.loads(line) for line in done.stdout.splitlines()]

    return answers


def _served(asked: list[dict[str, Any]], format_: int) -> list[dict[str, Any]]:
    """What an index of a format has postings for: a bloom filter has none."""
    return [one for one in asked if one["since"] <= format_ and not one["where"].startswith("word")]


def _begin(value: Any) -> Any:
    """What a key has of a long text; other values as they are."""
    return value[:SHORTENED] if isinstance(value, str) else value


def _check(read: Read, path: str, format_: int) -> None:
    positions = _served(ASKED["positions"], format_)
    facets = _served(ASKED["facets"], format_)
    asked = [one["where"] for one in positions]
    asked += [f"FACETS {one['facets']} WHERE {one['where']}" for one in facets]
    told = read(path, asked)
    for one, answer in zip(positions, told, strict=False):
        assert (answer["rows"], answer["scan"]) == (one["rows"], []), one["where"]
        assert answer["recheck"] == (len(one["where"]) > SHORTENED)
    for one, answer in zip(facets, told[len(positions) :], strict=True):
        counts = {_begin(value): n for value, n in one["counts"]}
        assert {_begin(value): n for value, n in answer["facets"]} == counts
        assert [n for _, n in answer["facets"]] == sorted(counts.values(), reverse=True)


@pytest.mark.by_thirds
@pytest.mark.parametrize("format_", READ)
def test_the_reader_in_java_answers_of_a_golden_index(format_: int, read: Read, tmp_path: Path) -> None:
    _check(read, unpack(format_, tmp_path), format_)


@pytest.mark.parametrize("format_", READ[-2:])
def test_the_reader_in_java_counts_where_no_counts_are_recorded(
    format_: int, read: Read, tmp_path: Path
) -> None:
    path = unpack(format_, tmp_path)
    for column, told in zip("nu", read(path, ["FACETS n WHERE TRUE", "FACETS u WHERE TRUE"]), strict=True):
        assert dict(told["facets"]) == dict(tailbit.open(path).where("TRUE").facets(column))


def test_the_reader_in_java_answers_of_what_this_release_has_merged(read: Read, tmp_path: Path) -> None:
    path = unpack(READ[-1], tmp_path)
    index = MetadataTable.open(f"{path}/_tailbit")
    assert merge_all(index) > 0
    index.checkpoint_log()
    _check(read, path, READ[-1])


def test_the_reader_in_java_names_the_files_that_an_index_does_not_cover(read: Read, tmp_path: Path) -> None:
    def without_flags(records: pa.Table) -> pa.Table:
        at = records.column_names.index("columns")
        ids = [[one for one in some or () if one != "flag"] for some in records["columns"].to_pylist()]
        return records.set_column(at, "columns", pa.array(ids, records.schema.field(at).type))

    path = unpack(3, tmp_path)
    rewrite(path, FILE_RECORDS, without_flags)
    of_v, of_both = read(path, ["v IS NULL", "v IS NULL AND flag IS NULL"])
    live = set(FILES) - {GONE}
    assert (set(of_v["rows"]), of_v["scan"]) == (live, [])
    assert (of_both["rows"], set(of_both["scan"])) == ({}, live)


def test_the_reader_in_java_names_no_version_while_an_index_is_built(read: Read, tmp_path: Path) -> None:
    path = unpack(3, tmp_path)
    shutil.rmtree(f"{path}/_tailbit")
    half_built(path, ["flag"])
    [told] = read(path, ["flag IS NULL"])
    assert told["version"] is None
    assert len(told["rows"]) == 1


def test_the_reader_in_java_has_six_hundred_lines_at_most() -> None:
    assert len(READER.read_text(encoding="utf-8").splitlines()) <= 600
