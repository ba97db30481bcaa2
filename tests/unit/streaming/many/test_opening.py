"""The index of a table of an application: opened, made, or made anew as `tailbit run TABLE` does it."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.drive import Drive
from support.golden import PLAIN, unpack
from support.tables import index_of, three_commits
from tailbit.errors import CorruptIndexError, NoIndexError
from tailbit.streaming.config.model import IndexEntry, TableEntry
from tailbit.streaming.many.followed_table import define_missing, differences, opened_index
from tailbit.tables import open_table

BY_NAME = IndexEntry(name="by_v", on=("lower(v)",))


@pytest.fixture
def path(tmp_path: Path) -> str:
    return three_commits(str(tmp_path / "t"))


def opened(path: str, told: list[str], **of_entry: object) -> dict[str, str]:
    """Open or make the index; the columns that it then has, by name."""
    entry = TableEntry.model_validate({"path": path, **of_entry})
    table = open_table(path)
    index = opened_index(entry, table, told.append, sure_s=0.3)
    told += differences(entry, table, index)
    define_missing(entry, table, index)
    Drive(path, f"{path}/_tailbit").drain()
    return {d.name: d.kind for d in index.state.settings.definitions}


def torn(path: str) -> None:
    max(Path(path, "_tailbit/_delta_log").glob("*.json")).write_bytes(b"")


def test_an_index_whose_settings_are_lost_is_made_anew_with_the_columns_of_the_entry(path: str) -> None:
    index_of(path, ["v"])
    for settings in Path(path, "_tailbit/kind=settings").iterdir():
        settings.write_bytes(b"")
    with pytest.raises(CorruptIndexError):
        opened(path, [])
    assert set(opened(path, [], columns=("k",))) == {"k"}


def test_an_index_of_names_alone_whose_log_is_lost_has_these_names_again(path: str) -> None:
    opened(path, [], indexes=(BY_NAME,))
    for commit in Path(path, "_tailbit/_delta_log").glob("*.json"):
        commit.write_bytes(b"")
    for settings in Path(path, "_tailbit/kind=settings").iterdir():
        settings.write_bytes(b"")
    assert set(opened(path, [], indexes=(BY_NAME,))) == {"by_v"}


def test_an_index_that_is_not_there_needs_columns_or_names(path: str) -> None:
    with pytest.raises(NoIndexError):
        opened(path, [])
    assert set(opened(path, [], columns=("v",), indexes=(BY_NAME,))) == {"v", "by_v"}


@pytest.mark.parametrize(
    ("asked", "said"), [(("k",), "has columns v; asked for k"), (("v", "w"), "no column w")]
)
def test_an_index_with_other_columns_than_the_entry_keeps_them_and_says_so(
    path: str, asked: tuple[str, ...], said: str
) -> None:
    index_of(path, ["v"])
    told: list[str] = []
    assert set(opened(path, told, columns=asked)) == {"v"}
    (line,) = told
    assert said in line
    assert "the index goes on with what it has" in line
    told.clear()
    assert set(opened(path, told, columns=("v",))) == {"v"}
    assert told == []


def test_an_index_by_name_that_is_another_one_goes_on_and_says_so(path: str) -> None:
    opened(path, [], indexes=(BY_NAME,))
    told: list[str] = []
    assert set(opened(path, told, indexes=(IndexEntry(name="by_v", on=("upper(v)",)),))) == {"by_v"}
    assert ["by_v is a bitmap of lower(v), not a bitmap of upper(v)" in line for line in told] == [True]


def test_an_index_of_the_same_terms_under_another_name_goes_on_and_says_so(path: str) -> None:
    index_of(path, ["v"])
    told: list[str] = []
    assert set(opened(path, told, indexes=(IndexEntry(name="by_v", on=("v",)),))) == {"v"}
    assert ["v is an index of v already" in line for line in told] == [True]


def test_a_log_that_cannot_be_read_for_a_moment_is_waited_for_whatever_columns_the_entry_has(
    path: str,
) -> None:
    index_of(path, ["v"])
    torn(path)
    told: list[str] = []
    assert set(opened(path, told, columns=("v", "gone"))) == {"v"}
    assert "mended" in told[1]


def test_an_older_index_keeps_its_columns_whatever_columns_the_entry_has(tmp_path: Path) -> None:
    assert set(opened(unpack(2, tmp_path), [], columns=(*PLAIN, "gone"))) == {*PLAIN}


def test_an_index_of_names_alone_whose_settings_are_lost_has_these_names_again(path: str) -> None:
    opened(path, [], indexes=(BY_NAME,))
    for settings in Path(path, "_tailbit/kind=settings").iterdir():
        settings.write_bytes(b"")
    assert set(opened(path, [], indexes=(BY_NAME,))) == {"by_v"}
