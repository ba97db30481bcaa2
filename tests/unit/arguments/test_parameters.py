"""What a question names: parameters, times and their zones, keys and rows in the forms of libraries."""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import deltalake
import duckdb
import polars
import pyarrow as pa
import pytest

import tailbit
from support.tables import eight_flights
from tailbit.arguments.key_tables import key_table, table_of_library
from tailbit.arguments.values import to_millis
from tailbit.errors import PredicateError, UsageError

NASTY = [
    "DE",
    "it's",
    "' OR 1 = 1 --",
    "\\",
    "\\' OR TRUE OR s = \\'",
    "a\nb",
    "?",
    ":n",
    "${x}",
    "$",
    "/* ",
    "`",
    '"',
    "",
    "\U0001f600",
    "%_",
    "NULL",
]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = str(tmp_path_factory.mktemp("parameters") / "t")
    columns = {
        "s": pa.array(NASTY),
        "n": pa.array(range(-3, len(NASTY) - 3)),
        "d": [datetime.date(2026, 1, 1 + day) for day in range(len(NASTY))],
        "m": pa.array([Decimal(at) / 4 for at in range(len(NASTY))], pa.decimal128(9, 2)),
    }
    deltalake.write_deltalake(folder, pa.table(columns))
    return folder


def _flights(folder: Path) -> tailbit.IndexedTable:
    eight_flights(str(folder / "flights"))
    return tailbit.open(folder / "flights")


@pytest.mark.parametrize("value", NASTY)
def test_a_text_as_a_parameter_is_that_text_and_never_sql(path: str, value: str) -> None:
    table = tailbit.open(path)
    for answer in (
        table.where("s = ?", [value]),
        table.where("s IN (:a, :b)", {"a": value, "b": value}),
        table.where("s=:a/* ? */", {"a": value}),
        table.where("NOT s <> ? -- :a", [value]),
        table.where(tailbit.col("s") == value),
    ):
        assert answer.read(["s"])["s"].to_pylist() == [value]


@pytest.mark.parametrize(
    ("condition", "params"),
    [
        ("n -? = 0 AND n < ?", [-2, 5]),
        ("n BETWEEN ? AND ?", [-2, 4]),
        ("n > :low AND n < :high OR n = :low", {"low": -1, "high": 3}),
        ("d >= ? AND d < ?", [datetime.date(2026, 1, 3), datetime.date(2026, 1, 9)]),
        ("m = ? OR m > ?", [Decimal("0.75"), 2.5]),
        ("CASE WHEN n > ? THEN n ELSE ? END = ?", [3, 1, 1]),
        ("coalesce(s, ?) = ?", [None, "DE"]),
        ("n * ? > ? AND ?", [2, -3, True]),
    ],
)
def test_parameters_select_what_prepared_statements_of_duckdb_do(
    path: str, condition: str, params: Any
) -> None:
    rows = deltalake.DeltaTable(path).to_pyarrow_table()  # noqa: F841
    found = duckdb.execute(f"SELECT s FROM rows WHERE {condition.replace(':', '$')}", params).fetchall()
    assert found
    assert tailbit.open(path).where(condition, params).read(["s"])["s"].to_pylist() == [s for (s,) in found]


@pytest.mark.parametrize(
    ("condition", "params", "said"),
    [
        ("n = ?", [], "0 values for 1 ?"),
        ("n = ?", [1, 2], "2 values for 1 ?"),
        ("n = 1", [1], "1 value for 0 ?"),
        ("n = :low", {"lov": 1}, "no value is given for :low"),
        ("n = 1", {"low": 1}, "a value is given for :low"),
        ("n = :low", [1], ":low stands beside values that are given as a list"),
        ("n = ?", {"n": 1}, "a ? stands beside values that are given by name"),
        ("n = : n", {"n": 1}, "a colon has no name behind it"),
        ("? 'b' = s", ["a"], "a parameter stands where no value can"),
        ("s = 'a' ?", ["b"], "a parameter stands where no value can"),
        ("upper ? = s", ["b"], "a parameter stands where no value can"),
        ("s = ?(1)", ["upper"], "a parameter stands where no value can"),
        ("s = X ?", ["41"], "a parameter stands where no value can"),
    ],
)
def test_parameters_that_do_not_fit_the_condition_are_refused_with_what_is_wrong(
    path: str, condition: str, params: Any, said: str
) -> None:
    with pytest.raises(PredicateError) as refused:
        tailbit.open(path).where(condition, params)
    assert said in str(refused.value)
    assert refused.value.hint


@pytest.mark.parametrize("params", ["DE", 3.5, {"DE"}, [["DE"]], [object()], {1: 2}])
def test_parameters_of_another_type_are_refused_with_what_is_wanted(path: str, params: Any) -> None:
    with pytest.raises(UsageError):
        tailbit.open(path).where("s = ?", params)


def test_a_version_in_the_former_place_of_the_arguments_is_taken_with_a_warning(path: str) -> None:
    table: Any = tailbit.open(path)
    with pytest.warns(DeprecationWarning, match="version") as told:
        assert table.where("s = 'DE'", 0).version == 0
    assert told[0].filename == __file__


def test_an_answer_is_as_long_as_its_count_and_false_where_it_has_no_rows(tmp_path: Path) -> None:
    table = _flights(tmp_path)
    none, some = table.where("carrier = 'ZZ'"), table.where("carrier = 'UA'")
    assert (len(none), bool(none), list(none)) == (0, False, [])
    assert (len(some), bool(some), list(some)) == (4, True, some.read().to_pylist())


def test_rows_as_frames_are_the_rows_of_read(tmp_path: Path) -> None:
    answer = _flights(tmp_path).where("carrier = 'UA'")
    wanted = answer.read(["flight", "dest"], 2, order_by=["flight DESC"], offset=1)
    given: Any = {"columns": ["flight", "dest"], "limit": 2, "order_by": ["flight DESC"], "offset": 1}
    assert answer.to_arrow(**given) == wanted
    assert answer.to_pandas(**given).to_dict("records") == wanted.to_pylist()
    assert answer.to_polars(**given).to_dicts() == wanted.to_pylist()


def test_columns_and_schema_of_a_table_are_those_of_its_head(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    deltalake.write_deltalake(path, pa.table({"a": pa.array([1], pa.int32())}))
    table = tailbit.open(path)
    assert (table.columns, table.schema.field("a").type, table.count()) == (["a"], pa.int32(), 1)
    more = pa.table({"a": pa.array([2], pa.int32()), "b": ["x"]})
    deltalake.write_deltalake(path, more, mode="append", schema_mode="merge")
    assert (table.columns, table.schema.field("b").type, table.count("b = 'x'")) == (
        ["a", "b"],
        pa.string(),
        1,
    )


@pytest.mark.parametrize("value", [b"\x00b", bytearray(b"\x00b"), memoryview(b"\x00b")])
def test_bytes_of_every_kind_are_one_constant(tmp_path: Path, value: Any) -> None:
    deltalake.write_deltalake(tmp_path / "t", pa.table({"x": pa.array([b"\x00b", b"a", None], pa.binary())}))
    assert tailbit.open(tmp_path / "t").where("x = ?", [value]).read()["x"].to_pylist() == [b"\x00b"]


@pytest.mark.parametrize(
    ("params", "said"),
    [(["DE", object], "value 2 of params is"), ({"a": "DE", "b": {}}, "the value of :b is")],
)
def test_a_refusal_says_which_of_several_parameters_is_no_constant(path: str, params: Any, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        tailbit.open(path).where("s = ? AND s <> ?", params)


def test_half_of_a_character_is_refused_without_words_of_a_codec(path: str) -> None:
    with pytest.raises(PredicateError, match="half of a character") as caught:
        tailbit.open(path).where("s = ?", ["\ud800"])
    assert "codec" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "zone", "millis"),
    [
        ("1970-01-02", "UTC", 86_400_000),
        ("1970-01-01T00:00:01", "UTC", 1000),
        ("1970-01-01 00:00:01.5", "UTC", 1500),
        ("1970-01-01T00:00:01.123456789Z", "UTC", 1123),
        (" 1970-01-01T01:00:00+01:00 ", "UTC", 0),
        ("1970-01-01T01:00", "Europe/Paris", 0),
        ("1970-01-01T01:00Z", "Europe/Paris", 3_600_000),
        ("1969-12-31T23:59:59.9999", "UTC", -1),
    ],
)
def test_a_time_is_read_in_every_usual_form(text: str, zone: str, millis: int) -> None:
    assert to_millis(text, zone) == millis


def test_a_time_may_be_a_datetime() -> None:
    moment = datetime.datetime(1970, 1, 1, 1, tzinfo=datetime.timezone.utc)
    assert to_millis(moment) == 3_600_000
    assert to_millis(moment.replace(tzinfo=None), "Europe/Paris") == 0


@pytest.mark.parametrize(
    "text", ["yesterday", "", "2026-13-01", "2026-01-01T25:00", "12", "2026-01-01T00:00+99"]
)
def test_what_is_no_time_is_refused_by_name(text: str) -> None:
    with pytest.raises(UsageError, match="is not a time"):
        to_millis(text)


@pytest.mark.parametrize(
    "keys", [pa.chunked_array([[1], [2]]), pa.array([1, 2]), polars.Series("other", [1, 2])], ids=str
)
def test_a_column_of_a_library_is_a_list_of_keys(keys: Any) -> None:
    on, table = key_table(keys, "id")
    assert (on, table.to_pydict()) == (["id"], {"id": [1, 2]})


def test_views_of_texts_are_texts_in_every_column_of_a_table() -> None:
    rows = {"a": ["x", None], "s": [{"y": ["z"], "n": 1}, None], "l": [["x"], []]}
    frame = polars.DataFrame({**rows, "c": polars.Series(["a", "b"], dtype=polars.Categorical)})
    table = table_of_library(frame)
    assert table is not None
    assert "view" not in str(table.schema)
    assert table.to_pydict() == {**rows, "c": ["a", "b"]}


def test_a_number_of_more_than_64_bits_is_refused_by_name() -> None:
    with pytest.raises(UsageError, match="too large a number"):
        key_table([2**70], "id")


@pytest.mark.parametrize("key", [(1,), (1, 2, 3)])
def test_a_key_of_too_few_or_too_many_values_is_refused(key: tuple[int, ...]) -> None:
    with pytest.raises(UsageError, match="a key has not one value for each of a, b"):
        key_table([(1, 2), key], ["a", "b"])
