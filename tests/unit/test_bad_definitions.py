"""Definitions that cannot be are refused by name and place through every door, and no byte changes."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Sequence
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest

import tailbit
from tailbit.cli.main import main
from tailbit.errors import (
    ColumnTypeError,
    IndexNameTakenError,
    PredicateError,
    StatementError,
    TailbitError,
    UnknownColumnError,
    UnknownIndexError,
    UsageError,
)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    schema = pa.schema(
        [
            ("year", pa.int32()),
            ("rider", pa.string()),
            ("tags", pa.list_(pa.string())),
            ("marks", pa.map_(pa.string(), pa.int32())),
            ("at", pa.timestamp("us", "UTC")),
            ("place", pa.struct([("city", pa.string())])),
        ]
    )
    rows = {"year": [2023, 2024], "rider": ["Ann", "bo"], "tags": [["a"]] * 2, "marks": [[("k", 1)]] * 2}
    rows |= {"at": [0, 1], "place": [{"city": "Rome"}] * 2}
    path = tmp_path_factory.mktemp("bad") / "trips"
    deltalake.write_deltalake(path, pa.table(rows, schema), partition_by=["year"])
    tailbit.open(path).create_index("by_rider", "lower(rider)")
    tailbit.open(path).create_index("of_2023", "rider", only="year = 2023")
    return path


@pytest.fixture
def trips(built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The table `trips` of the working directory, with an index of an expression and one of a part."""
    shutil.copytree(built, tmp_path / "trips")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "trips"


def bytes_of(table: Path) -> dict[str, str]:
    """A digest of each file of the table and its index."""
    files = (file for file in sorted(table.rglob("*")) if file.is_file())
    return {str(file): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def command(*arguments: str) -> int:
    """The exit status of the command line."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["tailbit", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
    return int(ended.value.code or 0)


TERMS: list[tuple[str, type[TailbitError], str, int | None]] = [
    ("now()", PredicateError, "no present moment", 0),
    ("lower(rider) = 'a' AND at < now()", PredicateError, "no present moment", 28),
    ("at < current_timestamp", PredicateError, "no present moment", 5),
    ("unix_timestamp() > year", PredicateError, "no present moment", 0),
    ("rand()", PredicateError, "the function rand is not read", 0),
    ("lower(uuid())", PredicateError, "the function uuid is not read", 6),
    ("my_udf(rider)", PredicateError, "the function my_udf is not read", 0),
    ("year IN (SELECT 1)", PredicateError, "IN takes a list of values, not a query", 8),
    ("(SELECT 1)", PredicateError, "a query in parentheses is not read", 0),
    ("sum(year)", PredicateError, "the function sum is not read", 0),
    ("1 + 1", PredicateError, "this one is a constant", 0),
    ("NULL", PredicateError, "this one is a constant", 0),
    ("map_keys(marks)", PredicateError, "its values are of type ARRAY", None),
    ("marks", ColumnTypeError, "column marks is of type MAP", None),
    ("place", ColumnTypeError, "column place is of type STRUCT", None),
    ("nothing", UnknownColumnError, "no column nothing in the table", 0),
    ("lower(ridder)", UnknownColumnError, "no column ridder in the table (nearest: rider)", 6),
    ("place.town", UnknownColumnError, "no column place.town in the table", 0),
    ("year + 'x'", PredicateError, "'x' is not a BIGINT", None),
    ("lower(rider, 1)", PredicateError, "lower takes 1 argument here, not 2", 0),
    ("hash(year, rider, at, place.city, tags[0])", PredicateError, "4 columns at most, not 5", 0),
]


@pytest.mark.parametrize(("term", "error", "told", "at"), TERMS, ids=[term for term, *_ in TERMS])
@pytest.mark.parametrize("kind", ["bitmap", "column_stats"])
def test_a_term_that_cannot_be_is_refused_through_every_door_and_no_byte_changes(
    trips: Path,
    capsys: pytest.CaptureFixture[str],
    kind: str,
    term: str,
    error: type[TailbitError],
    told: str,
    at: int | None,
) -> None:
    if kind == "column_stats" and error is ColumnTypeError:
        pytest.skip("statistics are kept of the fields and NULLs of any column")
    before = bytes_of(trips)
    statement = f"CREATE INDEX i ON trips USING {kind} ({term})"
    with pytest.raises(error) as of_python:
        tailbit.open("trips").create_index("i", term, kind)
    with pytest.raises(StatementError if error is PredicateError else error) as of_statement:
        tailbit.sql(statement)
    assert told in str(of_python.value)
    assert told in str(of_statement.value)
    if at is not None:
        assert f"at character {at + 1}\n" in str(of_python.value)
        place = statement.index("(") + 2 + at
        assert f"at character {place}\n" in str(of_statement.value)
    assert of_python.value.hint != PredicateError.hint
    assert command("sql", statement) == 2
    assert command("index", "create", "trips", "i", "--on", term, "--kind", kind) == 2
    assert capsys.readouterr().err.count(told) == 2
    assert bytes_of(trips) == before


ARGUMENTS: list[tuple[dict[str, object], type[TailbitError], str, str]] = [
    ({"kind": "btree"}, StatementError, "there is no kind of index btree", "Kinds: bitmap, record_key"),
    ({"kind": "bitmp"}, StatementError, "there is no kind of index bitmp", "Did you mean bitmap?"),
    (
        {"kind": "bloom_filter", "on": "lower(rider)"},
        StatementError,
        "Bloom filters are of columns",
        "USING bitmap",
    ),
    (
        {"kind": "record_key", "on": "lower(rider)"},
        StatementError,
        "a record key is of columns",
        "USING bitmap",
    ),
    ({"options": {"fpp": "1"}}, StatementError, "bitmap takes no option fpp", "Options of bitmap: counts."),
    ({"options": {"deferred": "true"}}, StatementError, "takes no option deferred", "Options of bitmap"),
    ({"options": {"counts": "of"}}, StatementError, "counts is not 'of'", "Values of counts: auto, on, off"),
    ({"name": "BY_RIDER"}, IndexNameTakenError, "it is an index of lower(rider)", "Take another name"),
    ({"name": "", "kind": "bitmap"}, StatementError, "the name of the index is empty", "Name it"),
    ({"name": " \t"}, StatementError, "the name of the index is empty", "Name it"),
    ({"on": "lower(rider)"}, IndexNameTakenError, "by_rider is an index of lower(rider)", "Use by_rider"),
    ({"on": ["year", "rider", "at", "place.city", "tags[0]"]}, StatementError, "4 terms at most", "two"),
    ({"on": ["rider", "RIDER"]}, StatementError, "the term RIDER stands twice", "Leave one out."),
    ({"on": "year, rider"}, PredicateError, ", is not expected here", "--on carrier --on dest"),
    ({"on": "coalesce(year,, 1)"}, PredicateError, ", is not expected here", "a list of values"),
    ({"on": []}, StatementError, "the index has no term", "Name a column or an expression."),
    ({"on": ""}, PredicateError, "it is empty", "Write a condition"),
    ({"on": "lower(rider"}, PredicateError, "the ( at character 6 is not closed", "Write )"),
    ({"only": "rider = 'a'"}, StatementError, "rider is no partition column", "Partition columns: year."),
    ({"only": "year = "}, PredicateError, "it ends where more must follow", "Write what belongs behind ="),
    ({"only": "year"}, PredicateError, "an INT is not a condition", "Compare it with something."),
    ({"only": "TRUE"}, StatementError, "reads no partition column", "Partition columns: year."),
    ({"only": "year > year(now())"}, PredicateError, "no present moment at character 13", "Leave it out"),
    ({"only": "yeer = 1"}, UnknownColumnError, "no column yeer in the table (nearest: year)", "Columns:"),
    ({"on": "hour(at)", "zone": "Mars"}, UsageError, "there is no time zone 'Mars'", "Europe/Paris"),
]


def _words(given: dict[str, object]) -> list[str]:
    """The same on the command line."""
    terms = given["on"] if isinstance(given["on"], list) else [given["on"]]
    words = ["index", "create", "trips", str(given["name"]), *(w for t in terms for w in ("--on", str(t)))]
    for key, option in (("kind", "--kind"), ("only", "--where"), ("zone", "--zone")):
        words += [option, str(given[key])] if key in given else []
    options = given.get("options", {})
    assert isinstance(options, dict)
    return [*words, *(w for key, value in options.items() for w in ("--option", f"{key}={value}"))]


@pytest.mark.parametrize(
    ("given", "error", "told", "hint"), ARGUMENTS, ids=[str(given) for given, *_ in ARGUMENTS]
)
def test_arguments_that_cannot_be_are_refused_with_what_to_write_and_no_byte_changes(
    trips: Path,
    capsys: pytest.CaptureFixture[str],
    given: dict[str, object],
    error: type[TailbitError],
    told: str,
    hint: str,
) -> None:
    before = bytes_of(trips)
    whole: dict[str, object] = {"name": "i", "on": "year", **given}
    with pytest.raises(error) as refused:
        tailbit.open("trips").create_index(**whole)  # type: ignore[arg-type]
    assert told in str(refused.value)
    assert hint in refused.value.hint
    assert command(*_words(whole)) == 2
    assert told in capsys.readouterr().err or whole["on"] == []
    assert bytes_of(trips) == before


NAMED = [
    ("rebuild", ("nope",), UnknownIndexError, "has no index nope"),
    ("rebuild", ("by_rider", "--where", "year = 2023"), StatementError, "covers every partition"),
    ("rebuild", ("of_2023", "--where", "rider = 'Ann'"), StatementError, "rider is no partition column"),
    ("rebuild", ("of_2023", "--where", "yeer = 1"), UnknownColumnError, "no column yeer"),
    ("rebuild", ("of_2023", "--where", "FALSE"), StatementError, "reads no partition column"),
    ("drop", ("nope",), UnknownIndexError, "has no index nope"),
    ("describe", ("by_ridr",), UnknownIndexError, "has no index by_ridr"),
]


@pytest.mark.parametrize(("verb", "words", "error", "told"), NAMED, ids=[f"{n[0]} {n[1]}" for n in NAMED])
def test_what_is_asked_of_an_index_that_there_is_not_changes_no_byte(
    trips: Path,
    capsys: pytest.CaptureFixture[str],
    verb: str,
    words: Sequence[str],
    error: type[TailbitError],
    told: str,
) -> None:
    before, only = bytes_of(trips), {"only": words[2]} if len(words) > 1 else {}
    with pytest.raises(error) as refused:
        getattr(tailbit.open("trips"), f"{verb}_index")(words[0], **only)
    assert told in str(refused.value)
    assert command("index", verb, "trips", *words) == 2
    assert told in capsys.readouterr().err
    assert bytes_of(trips) == before


STATEMENTS = (
    "CREATE INDEX IF NOT EXISTS i ON TABLE trips USING bitmap ( year , rider ) OPTIONS ( counts = 'on' ) "
    "IDXPROPERTIES ( 'a' = 'b' ) COMMENT 'c' WITH DEFERRED REBUILD WHERE year = 2023",
    "CREATE INDEX i ON trips ( year ) AS 'BITMAP'",
    "ALTER INDEX of_2023 ON trips PARTITION ( year = 2024 ) REBUILD",
    "DROP INDEX IF EXISTS by_rider ON trips",
    "DESCRIBE INDEX by_rider ON trips",
    "SHOW INDEXES FROM trips",
)
WHOLE = {
    *("CREATE INDEX IF NOT EXISTS i ON TABLE trips USING bitmap ( year , rider )",),
    *("CREATE INDEX i ON trips ( year )",),
}
WANTED = ("expected", "must follow", "is written column = value", "is not a condition")
ENDS = ("= 'on' )", "= 'b' )", "'c'", "DEFERRED REBUILD")
"""Beginnings of statements that are statements themselves: whole ones, and those that end behind a clause."""


@pytest.mark.parametrize("statement", STATEMENTS)
def test_a_statement_that_stops_half_way_names_where_and_what_was_expected(
    trips: Path, statement: str
) -> None:
    before = bytes_of(trips)
    words = statement.split()
    for count in range(1, len(words)):
        part = " ".join(words[:count])
        if part in WHOLE or part.endswith(ENDS):
            continue
        with pytest.raises(StatementError) as refused:
            tailbit.sql(part)
        places = (len(part) + 1, len(part) - len(words[count - 1]) + 1)
        assert any(f" at character {place}\n" in str(refused.value) for place in places), part
        assert any(told in str(refused.value) for told in WANTED), part
    assert bytes_of(trips) == before


@pytest.mark.parametrize("statement", STATEMENTS)
def test_a_wrong_word_anywhere_in_a_statement_is_pointed_at(trips: Path, statement: str) -> None:
    before = bytes_of(trips)
    words = statement.split()
    for at in range(len(words)):
        part = " ".join([*words[:at], "]", *words[at:]])
        with pytest.raises(StatementError) as refused:
            tailbit.sql(part)
        place = len(" ".join(words[:at])) + (2 if at else 1)
        # Of TABLE and of the value of a partition the whole piece is pointed at.
        places = (place, place - len(words[at - 1]) - 1)
        assert any(f" at character {start}\n" in str(refused.value) for start in places), part
    assert bytes_of(trips) == before
