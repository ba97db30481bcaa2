"""Advised indexes of every kind are made by their own statements, and do what was said of them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner
from deltalake import write_deltalake

import tailbit
from support.hudi import unpack
from tailbit.api import IndexedTable
from tailbit.cli.main import cli
from tailbit.errors import UsageError
from tailbit.index.advice.advise import Advice
from tailbit.index.advice.proposals import Proposal
from tailbit.index.postings.encoding import encoding_of
from tailbit.index.sql.ddl.parser import parse_statement
from tailbit.index.sql.ddl.statements import CreateIndex

ROWS, FILES = 1_200_000, 3
BEGIN = np.datetime64("2024-01-01", "us")

QUESTIONS = [
    "date_trunc('HOUR', at) = TIMESTAMP'2024-01-01 10:00:00Z'",
    "SELECT * FROM t WHERE date_trunc( 'hour', at ) IN (TIMESTAMP'2024-01-02 10:00:00Z')",
    "a + b = 77",
    "a = 5 AND b = 7",
    "serial BETWEEN 1000 AND 900000",
    "few = 2",
]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A table without an index, which nobody changes."""
    rng, path = np.random.default_rng(1), str(tmp_path_factory.mktemp("advice") / "t")
    moments = BEGIN + rng.integers(0, 30 * 86_400_000_000, ROWS)
    rows = pa.table(
        {
            "at": pa.array(moments, pa.timestamp("us")).cast(pa.timestamp("us", "UTC")),
            "a": rng.integers(0, 300, ROWS),
            "b": rng.integers(0, 300, ROWS),
            "serial": np.arange(ROWS) * 1009 + rng.integers(0, 1009, ROWS),
            "few": rng.integers(0, 3, ROWS),
            "never": rng.integers(0, 3, ROWS),
        }
    )
    for start in range(0, ROWS, ROWS // FILES):
        write_deltalake(path, rows.slice(start, ROWS // FILES), mode="append")
    return path


@pytest.fixture
def path(written: str, tmp_path: Path) -> str:
    """A copy of that table."""
    return str(shutil.copytree(written, tmp_path / "t"))


def of(advice: Advice, *terms: str) -> Proposal:
    return next(proposal for proposal in advice.definitions if proposal.terms == terms)


def create(table: IndexedTable, proposal: Proposal) -> None:
    """Make an index from the text of its statement alone."""
    statement = parse_statement(proposal.statement)
    assert isinstance(statement, CreateIndex)
    assert statement.table.parts == (table.path,)
    table._created(statement, "UTC", None)


def test_indexes_of_every_kind_are_advised_by_questions_and_do_what_was_said(path: str) -> None:
    table = tailbit.open(path)
    advice = table.advise(QUESTIONS)
    kinds = {proposal.terms: (proposal.kind, proposal.questions) for proposal in advice.definitions}
    assert kinds == {
        ("few",): ("bitmap", 1),
        ("a",): ("bitmap", 1),
        ("b",): ("bitmap", 1),
        ("date_trunc('HOUR', at)",): ("bitmap", 2),
        ("a + b",): ("bitmap", 1),
        ("a", "b"): ("bitmap", 1),
        ("serial",): ("column_stats", 1),
    }
    before = {question: table.where(question).count() for question in ("a + b = 77", "few = 2")}
    for proposal in advice.definitions:
        create(table, proposal)
    assert {index.name for index in table.indexes()} == {p.name for p in advice.definitions}
    for proposal, question in (
        (of(advice, "date_trunc('HOUR', at)"), QUESTIONS[0]),
        (of(advice, "a + b"), "a + b = 77"),
        (of(advice, "a", "b"), "a = 5 AND b = 7"),
        (of(advice, "few"), "few = 2"),
        (of(advice, "serial"), "serial BETWEEN 1000 AND 900000"),
    ):
        answer = table.where(question)
        assert answer.count() == before.get(question, answer.count())
        assert answer.files_scanned <= proposal.files_scanned < proposal.files, proposal
    assert table.verify(samples=20).problems == []
    assert table.advise(QUESTIONS).definitions == ()


def test_statements_about_a_hudi_table_name_it_as_one(tmp_path: Path) -> None:
    path = unpack("cow_v9_late", tmp_path).path
    (proposal,) = tailbit.open(path).advise().definitions
    assert f"ON hudi.`{path}` USING" in proposal.statement
    statement = parse_statement(proposal.statement)
    assert isinstance(statement, CreateIndex)
    assert statement.table.text == path


def test_the_bytes_of_advised_indexes_are_foretold(path: str) -> None:
    table = tailbit.open(path)
    bitmaps = [proposal for proposal in table.advise(QUESTIONS).definitions if proposal.kind == "bitmap"]
    for proposal in bitmaps:
        create(table, proposal)
    index = table._needed()
    segments = [segment for held in index.state.spaces.values() for segment in held]
    for proposal, definition in zip(bitmaps, index.state.settings.definitions, strict=True):
        built = encoding_of(segments, definition.id).bytes
        assert 0.75 <= proposal.bytes / built <= 1.25 or built < 100_000, (proposal, built)


def test_without_questions_columns_alone_are_advised_and_nothing_that_exists(path: str) -> None:
    table = tailbit.open(path)
    advice = table.advise()
    assert {proposal.terms for proposal in advice.definitions if proposal.kind == "bitmap"} == {
        (column,) for column in advice.columns
    }
    table.create_index("mine", "few")
    assert ("few",) not in {proposal.terms for proposal in table.advise().definitions}


def test_the_command_prints_the_statements_and_json_holds_them(path: str, tmp_path: Path) -> None:
    file = tmp_path / "questions"
    file.write_text("\n".join(QUESTIONS), encoding="utf-8")
    shown = CliRunner().invoke(cli, ["advise", path, "--queries", str(file)], catch_exceptions=False)
    assert f"CREATE INDEX by_a_b_2 ON delta.`{path}` USING bitmap (a, b);" in shown.output
    as_json = CliRunner().invoke(cli, ["advise", path, "--queries", str(file), "--json"])
    named = [proposal["name"] for proposal in json.loads(as_json.output)["definitions"]]
    assert "by_a_b_2" in named


def test_statistics_take_no_bitmap_away_from_a_question_by_an_expression(tmp_path: Path) -> None:
    path, rng = str(tmp_path / "t"), np.random.default_rng(1)
    for file in range(4):
        rows = {"k": rng.integers(100 * file, 100 * file + 50, 8000), "wide": ["z" * 500] * 8000}
        write_deltalake(path, pa.table(rows), mode="append")
    questions = ["k > 340", "k % 7 = 1"]
    for proposal in tailbit.open(path).advise(questions).definitions:
        create(tailbit.open(path), proposal)
    assert [tailbit.open(path).where(question).files_scanned for question in questions] == [0, 0]


@pytest.mark.parametrize("command", [["advise"], ["run", "--columns", "auto", "--once"]])
def test_a_file_of_questions_that_is_no_text_is_refused_by_name(tmp_path: Path, command: list[str]) -> None:
    path, file = str(tmp_path / "t"), tmp_path / "questions"
    write_deltalake(path, pa.table({"k": [1]}))
    file.write_bytes(b"k = 1\n\xff\xfe\n")
    with pytest.raises(UsageError, match="questions is no text in UTF-8"):
        CliRunner().invoke(cli, [*command, path, "--queries", str(file)], catch_exceptions=False)
