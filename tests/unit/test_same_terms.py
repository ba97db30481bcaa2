"""A term is one term however it is written, and `*` is all columns in SQL as from Python."""

from __future__ import annotations

from pathlib import Path

import pytest

import tailbit
from support.tables import eight_flights
from tailbit.errors import IndexNameTakenError, StatementError


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
