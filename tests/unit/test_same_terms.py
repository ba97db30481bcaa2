"""A term is one term however it is written, and `*` is all columns in SQL as from Python."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

import tailbit
from support.tables import eight_flights
from tailbit.errors import IndexNameTakenError, StatementError, UnknownIndexError


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with the table `flights`, whose column `carrier` is indexed."""
    eight_flights(str(tmp_path / "flights"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("term", ["LOWER( dest )", "(lower(dest))", "lcase(flights.DEST)"])
@pytest.mark.parametrize("kind", ["bitmap", "column_stats"])
def test_an_expression_is_indexed_once_however_it_is_written(here: Path, kind: str, term: str) -> None:
    tailbit.sql(f"CREATE INDEX i ON flights USING {kind} (lower(dest))")
    with pytest.raises(IndexNameTakenError, match=r"i is an index of lower\(dest\) already"):
        tailbit.sql(f"CREATE INDEX j ON flights USING {kind} ({term})")
    assert [index.name for index in tailbit.open("flights").indexes()] == ["carrier", "i"]


@pytest.mark.parametrize(
    ("terms", "told"),
    [
        (
            "dest, lower(dest), LOWER(dest)",
            r"the term LOWER\(dest\) is the same as lower\(dest\) at character 47",
        ),
        ("flight, (flight)", r"the term \(flight\) is the same as flight at character 36"),
        ("flights.dest, dest", "the term dest is the same as flights.dest at character 42"),
    ],
)
def test_an_index_has_no_term_twice_however_it_is_written(here: Path, terms: str, told: str) -> None:
    with pytest.raises(StatementError, match=told):
        tailbit.sql(f"CREATE INDEX i ON flights ({terms})")


def test_statistics_are_made_of_all_columns_by_a_star(here: Path) -> None:
    (made,) = tailbit.sql("CREATE INDEX i ON flights USING column_stats ( * /* all */ )")
    assert (made["terms"], made["state"]) == (["*"], "complete")
    answer = tailbit.open("flights").where("flight > 1000000")
    assert (answer.count(), answer.files_scanned) == (0, 0)
    with pytest.raises(IndexNameTakenError, match=r"i is an index of \* already"):
        tailbit.sql("CREATE INDEX j ON flights USING column_stats (*)")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("(*)", "an index of kind bitmap is not of all columns at once at character 28"),
        ("USING column_stats (lower(dest), *)", "no further term stands beside it at character 60"),
        ("USING column_stats (*, lower(dest))", "no further term stands beside it at character 47"),
        ("USING column_stats (flights.*)", "at character 55"),
    ],
)
def test_a_star_is_no_term_beside_others_and_none_of_a_bitmap(here: Path, words: str, told: str) -> None:
    with pytest.raises(StatementError, match=told):
        tailbit.sql(f"CREATE INDEX i ON flights {words}")
    with pytest.raises(StatementError, match="no further term"):
        tailbit.open("flights").create_index("i", ["lower(dest)", "*"], kind="column_stats")


def test_a_name_that_no_file_can_hold_is_refused(here: Path) -> None:
    with pytest.raises(StatementError, match="half of a character"):
        tailbit.open("flights").create_index("by_\ud800", "dest")
    with pytest.raises(StatementError, match="half of a character"):
        tailbit.sql("CREATE INDEX `by_\ud800` ON flights (dest)")
    assert [index.name for index in tailbit.open("flights").indexes()] == ["carrier"]


@pytest.fixture
def spaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A table `odd` of the working directory whose columns need backticks in SQL."""
    rows = {"my col": [f"v{n % 50}" for n in range(40_000)], "a.b": list(range(40_000))}
    write_deltalake(tmp_path / "odd", pa.table(rows))
    monkeypatch.chdir(tmp_path)
    return str(tmp_path / "odd")


def test_an_index_named_as_its_column_is_found_as_sql_writes_the_column(spaced: str) -> None:
    tailbit.open(spaced).create_index("other", "upper(`my col`)")
    tailbit.open(spaced).alter(add=["`my col`", "`a.b`"])
    assert tailbit.sql("DESCRIBE INDEX `MY COL` ON odd")[0]["terms"] == ["`my col`"]
    with pytest.raises(IndexNameTakenError):
        tailbit.sql("CREATE INDEX `a.b` ON odd (lower(`my col`))")
    assert tailbit.open(spaced).drop_index("my col")
    tailbit.sql("DROP INDEX ```a.b``` ON odd")
    assert [index.name for index in tailbit.open(spaced).indexes()] == ["other"]
    with pytest.raises(UnknownIndexError):
        tailbit.open(spaced).drop_index("")


def test_an_advised_index_has_the_bare_name_of_its_column_and_a_question_may_name_the_table(
    spaced: str,
) -> None:
    advice = tailbit.open(spaced).advise(
        ["odd.`my col` = 'v3'", "SELECT * FROM odd WHERE odd.`my col` = 'v4'"]
    )
    (definition,) = advice.definitions
    assert (definition.name, definition.questions) == ("my col", 2)
    assert definition.statement.startswith("CREATE INDEX `my col` ON ")
    assert tailbit.sql(definition.statement)[0]["terms"] == ["`my col`"]
