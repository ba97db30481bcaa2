"""Index statements are carried out, from Python and the command line; wrong ones change nothing."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import click
import deltalake
import pyarrow as pa
import pytest
from click.testing import CliRunner, Result

import tailbit
from support.forked import Forked, command
from support.golden import unpack
from support.tables import eight_flights
from tailbit.cli.main import cli
from tailbit.errors import (
    CorruptIndexError,
    IndexNameTakenError,
    NoIndexError,
    NotATableError,
    StatementError,
    TailbitError,
    UnknownIndexError,
)
from tailbit.index.maintenance.definitions import _begun
from tailbit.index.model import Definition
from tailbit.index.sql.ddl.parser import parse_statement
from tailbit.index.sql.ddl.statements import RebuildIndex
from tailbit.index.store.table import MetadataTable
from tailbit.tables import open_table


@pytest.fixture(scope="module")
def flights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("flights") / "flights"
    eight_flights(str(path))
    return path


@pytest.fixture
def here(flights: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with the table `flights`, and `trips`, whose partitions are years."""
    shutil.copytree(flights, tmp_path / "flights")
    rows = {"year": [2023, 2023, 2024, 2025], "rider": ["Ann", "bo", "ANN", "Bo"], "tags": [["a"]] * 4}
    rows |= {"marks": [[("k", 1)]] * 4, "at": [1_700_000_000_000_000] * 4}
    schema = pa.schema(
        [
            ("year", pa.int32()),
            ("rider", pa.string()),
            ("tags", pa.list_(pa.string())),
            ("marks", pa.map_(pa.string(), pa.int32())),
            ("at", pa.timestamp("us", "UTC")),
        ]
    )
    deltalake.write_deltalake(tmp_path / "trips", pa.table(rows, schema), partition_by=["year"])
    monkeypatch.chdir(tmp_path)
    return tmp_path


def names(table: str) -> list[str]:
    return [index["name"] for index in tailbit.sql(f"SHOW INDEXES FROM {table}")]


def definitions(table: str) -> tuple[Definition, ...]:
    return MetadataTable.open(f"{table}/_tailbit").state.settings.definitions


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE INDEX i ON flights USING bitmap (lower(dest))",
        "create index if not exists i on flights using expression_index(dest) options(expr='lower');",
        "CREATE INDEX i ON TABLE delta.`flights` (lower(dest)) AS 'BITMAP' COMMENT 'places'",
    ],
)
def test_an_index_that_a_statement_creates_serves_conditions_on_its_term(here: Path, statement: str) -> None:
    (created,) = tailbit.sql(statement)
    assert (created["name"], created["kind"], created["terms"]) == ("i", "bitmap", ["lower(dest)"])
    assert (created["state"], created["files_left"]) == ("complete", 0)
    answer = tailbit.open("flights").where("lower(dest) = 'sfo'")
    assert (answer.count(), answer.files_scanned) == (3, 0)
    assert names("flights") == ["carrier", "i"]


def test_a_table_is_a_path_in_backticks_or_quotes_or_a_folder_of_the_working_directory(here: Path) -> None:
    for number, table in enumerate(
        (f"delta.`{here}/flights`", f"'{here}/flights'", "`./flights`", "flights")
    ):
        (created,) = tailbit.sql(f"CREATE INDEX i{number} ON {table} (dep_delay + {number})")
        assert created["state"] == "complete"
    assert names("flights") == ["carrier", "i0", "i1", "i2", "i3"]


def test_statements_describe_drop_and_rebuild(here: Path) -> None:
    tailbit.sql("CREATE INDEX i ON flights (upper(carrier)) IDXPROPERTIES ('owner' = 'me')")
    (described,) = tailbit.sql("DESCRIBE INDEX I ON flights")
    assert described["bytes"] > 0
    assert described["options"] == {"property:owner": "me"}
    (rebuilt,) = tailbit.sql("ALTER INDEX i ON flights REBUILD")
    assert rebuilt["state"] == "complete"
    assert tailbit.sql("DROP INDEX i ON flights") == []
    assert tailbit.sql("DROP INDEX IF EXISTS i ON flights") == []
    assert names("flights") == ["carrier"]


def test_a_term_that_depends_on_the_time_zone_tells_the_zone_it_is_kept_in(here: Path) -> None:
    (created,) = tailbit.sql("CREATE INDEX i ON trips (hour(at))", zone="Asia/Kathmandu")
    assert created["zone"] == "Asia/Kathmandu"
    (created,) = tailbit.sql("CREATE INDEX j ON trips (lower(rider))", zone="Asia/Kathmandu")
    assert created["zone"] is None


def test_the_index_of_a_statement_may_lie_elsewhere_also_before_there_is_one(here: Path) -> None:
    tailbit.sql("CREATE INDEX i ON trips (lower(rider))", index=here / "apart")
    assert [i["name"] for i in tailbit.sql("SHOW INDEXES FROM trips", index=here / "apart")] == ["i"]
    assert not (here / "trips" / "_tailbit").exists()
    with pytest.raises(NoIndexError):
        tailbit.sql("SHOW INDEXES FROM trips", index=here / "nowhere")


def test_a_table_without_an_index_shows_none(here: Path) -> None:
    assert tailbit.sql("SHOW INDEXES FROM trips") == []
    assert not (here / "trips" / "_tailbit").exists()


WRONG: list[tuple[str, type[TailbitError], str]] = [
    ("CREATE INDEX i ON trips (slice(tags, 1, 1))", StatementError, "at character 26"),
    (
        "CREATE INDEX i ON flights (dest) WHERE carrier = 'UA'",
        StatementError,
        "carrier is no partition col",
    ),
    ("ALTER INDEX i ON flights REBUILD", UnknownIndexError, "no index i"),
    ("ALTER INDEX carrier ON flights PARTITION (dest = 'x') REBUILD", StatementError, "no partition column"),
    ("DROP INDEX i ON flights", UnknownIndexError, "no index i"),
    ("DROP INDEX i ON trips", NoIndexError, "trips/_tailbit"),
    ("DESCRIBE INDEX carier ON flights", UnknownIndexError, "no index carier"),
    ("SHOW INDEXES FROM nowhere", StatementError, "nowhere is no table in the working directory"),
    (
        "SHOW INDEXES FROM delta.`nowhere`",
        NotATableError,
        "and no Hudi table and no Iceberg table at nowhere",
    ),
    ("SHOW INDEXES FROM db.flights", StatementError, "db.flights is a name of a catalog at character 19"),
]


@pytest.mark.parametrize(("statement", "error", "told"), WRONG, ids=[wrong for wrong, _, _ in WRONG])
def test_a_wrong_statement_is_refused_by_name_and_changes_nothing(
    here: Path, statement: str, error: type[TailbitError], told: str
) -> None:
    before = MetadataTable.open("flights/_tailbit").version
    with pytest.raises(error) as refused:
        tailbit.sql(statement)
    assert told in str(refused.value)
    assert MetadataTable.open("flights/_tailbit").version == before
    assert not (here / "trips" / "_tailbit").exists()


def test_an_error_within_a_function_of_options_points_at_its_column(here: Path) -> None:
    with pytest.raises(StatementError) as refused:
        tailbit.sql("CREATE INDEX i ON trips (rider) OPTIONS (expr = 'floor')")
    assert "at character 26" in str(refused.value)


def test_an_index_of_another_release_is_refused_by_name(here: Path) -> None:
    index = f"{unpack(2, here)}/_tailbit"
    with pytest.raises(CorruptIndexError, match="older release"):
        tailbit.sql("CREATE INDEX i ON flights (dest)", index=index)


def test_if_not_exists_describes_the_index_that_there_is(here: Path) -> None:
    (described,) = tailbit.sql("CREATE INDEX IF NOT EXISTS carrier ON flights (dest)")
    assert described["terms"] == ["carrier"]


# Each process waits until all are ready, so that they look for the name at the same moment.
RACER = """
import sys, tailbit
table = tailbit.open(sys.argv[1])
table.describe_index("carrier") if sys.argv[3] == "old" else None
print("ready", flush=True); sys.stdin.readline()
try:
    print(table.create_index("i", sys.argv[2]).state)
except tailbit.errors.IndexNameTakenError as taken:
    print(type(taken).__name__)
"""


@pytest.mark.parametrize("table", ["flights", "trips"])
def test_of_two_processes_that_create_one_name_at_once_one_wins_and_the_other_is_told(
    here: Path, table: str
) -> None:
    terms = {"flights": ("upper(dest)", "dest"), "trips": ("upper(rider)", "rider")}[table]
    code = "import tailbit.errors\n" + RACER
    old = "old" if table == "flights" else "new"
    racers = [
        Forked(
            ["-c", code, here / table, term, old], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for term in terms
    ]
    for racer in racers:
        assert racer.stdout is not None
        assert racer.stdout.readline() == "ready\n"
    results = [""] * len(racers)

    def run(number: int, racer: subprocess.Popen[str]) -> None:
        results[number] = racer.communicate("go\n")[0].strip()

    threads = [threading.Thread(target=run, args=pair) for pair in enumerate(racers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results.count("IndexNameTakenError") == 1
    assert [d.name for d in definitions(table)].count("i") == 1


def test_another_writer_that_takes_the_name_before_the_commit_is_not_overwritten(here: Path) -> None:
    from tailbit.index.maintenance.definitions import add

    index = MetadataTable.open("flights/_tailbit")
    tailbit.sql("CREATE INDEX i ON flights (dest)")
    taken, other = definitions("flights")[1], definitions("flights")[0]
    with pytest.raises(IndexNameTakenError):
        add(
            index,
            Definition("#12345678", taken.name, other.kind, other.terms),
            open_table("flights").snapshot().schema,
        )
    assert names("flights") == ["carrier", "i"]


def asked(*arguments: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(cli, arguments, input=stdin)


def said(*arguments: str, stdin: str | None = None) -> str:
    result = asked(*arguments, stdin=stdin)
    assert result.exit_code == 0, result.exception or result.output
    return result.stdout


def test_the_command_line_creates_lists_describes_rebuilds_and_drops(here: Path) -> None:
    created = json.loads(said("index", "create", "flights", "i", "--on", "lower(dest)", "--json"))
    assert created["state"] == "complete"
    assert said("index", "list", "flights").splitlines()[1:] == [
        "carrier\tbitmap\tcarrier\t\tcomplete\t0",
        "i\tbitmap\tlower(dest)\t\tcomplete\t0",
    ]
    assert "size          " in said("index", "describe", "flights", "i")
    assert "state         complete: every file is indexed\n" in said("index", "rebuild", "flights", "i")
    assert said("index", "drop", "flights", "i") == "dropped: i\n"
    assert said("index", "drop", "flights", "i", "--if-exists", "--json") == '{"dropped": false}\n'
    with pytest.raises(UnknownIndexError):
        raise asked("index", "drop", "flights", "i").exception or AssertionError


def test_several_terms_of_the_command_line_are_one_index(here: Path) -> None:
    said("index", "create", "flights", "route", "--on", "carrier", "--on", "dest")
    assert tailbit.open("flights").describe_index("route").terms == ("carrier", "dest")


def test_the_command_line_carries_out_statements_of_standard_input(here: Path) -> None:
    said("sql", "-", stdin="CREATE INDEX i ON flights (lower(dest));\n")
    listed = [json.loads(line) for line in said("sql", "SHOW INDEXES FROM flights", "--json").splitlines()]
    assert [index["name"] for index in listed] == ["carrier", "i"]
    assert said("sql", "DROP INDEX i ON flights", "--json") == ""
    assert names("flights") == ["carrier"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--on", "dest", "--option", "counts"), "write --option as KEY=VALUE"),
        ((), "name the index and its terms: NAME --on TERM; or --from FILE"),
    ],
)
def test_wrong_words_of_the_command_line_have_status_2_and_change_nothing(
    here: Path, arguments: tuple[str, ...], told: str
) -> None:
    done = command("index", "create", "flights", "i", *arguments)
    assert (done.returncode, told in done.stderr) == (2, True), done.stderr
    assert names("flights") == ["carrier"]


def test_a_build_tells_what_is_left_down_to_nothing(here: Path) -> None:
    told: list[tuple[int, int]] = []
    tailbit.open("flights").create_index("i", "lower(dest)", progress=lambda *left: told.append(left))
    assert told[0] == (2, 8)
    assert told[-1] == (0, 0)
    assert told == sorted(told, reverse=True)


def test_an_interrupted_build_keeps_the_index_and_a_rebuild_goes_on(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(files: int, rows: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tailbit.open("flights").create_index("i", "lower(dest)", progress=interrupt)
    answer = tailbit.open("flights").where("lower(dest) = 'sfo'")
    assert answer.count() == 3
    (rebuilt,) = tailbit.sql("ALTER INDEX i ON flights REBUILD")
    assert rebuilt["state"] == "complete"
    assert tailbit.open("flights").where("lower(dest) = 'sfo'").files_scanned == 0


def test_a_rebuild_of_partitions_extends_the_part_that_an_index_covers(here: Path) -> None:
    tailbit.sql("CREATE INDEX i ON trips (lower(rider)) WHERE year = 2023")
    for _ in range(2):
        tailbit.sql("ALTER INDEX i ON trips PARTITION (year = 2024) REBUILD")
    (index,) = definitions("trips")
    assert index.only == "year = 2023 OR year = 2024"
    assert tailbit.open("trips").where("lower(rider) = 'ann'").count() == 2


def test_any_number_of_partitions_is_added_to_the_part_that_an_index_covers(here: Path) -> None:
    tailbit.sql("CREATE INDEX i ON trips (rider) WHERE year = 0")
    (definition,), schema = definitions("trips"), open_table("trips").snapshot().schema
    for year in range(1, 120):
        statement = parse_statement(f"ALTER INDEX i ON trips PARTITION (year = {year}) REBUILD")
        assert isinstance(statement, RebuildIndex)
        definition = _begun(definition, statement, schema)
    assert definition.only == " OR ".join(f"year = {year}" for year in range(120))


def test_the_value_of_an_option_is_the_same_in_any_case(here: Path) -> None:
    (created,) = tailbit.sql("CREATE INDEX i ON trips (rider) OPTIONS (COUNTS = 'OFF')")
    assert created["options"] == {"counts": "off"}
    assert not definitions("trips")[0].has_counts


def test_a_deferred_index_is_rebuilt_partition_by_partition_and_at_last_as_a_whole(here: Path) -> None:
    def state() -> tuple[str, str]:
        (index,) = definitions("trips")
        return index.options.get("deferred", ""), index.only

    tailbit.sql("CREATE INDEX i ON TABLE trips (rider) AS 'BITMAP' WITH DEFERRED REBUILD")
    assert state() == ("true", "")
    tailbit.sql("ALTER INDEX i ON trips PARTITION (year = 2023) REBUILD")
    assert state() == ("by partition", "year = 2023")
    tailbit.sql("REFRESH INDEX i ON trips PARTITION (year = 2024)")
    assert state() == ("by partition", "year = 2023 OR year = 2024")
    tailbit.sql("ALTER INDEX i ON trips REBUILD")
    assert state() == ("", "")
    assert tailbit.open("trips").where("rider = 'Ann'").count() == 1


@pytest.mark.parametrize(
    ("partition", "at_last"),
    [("year = 2023", "year IN (2023, 2024)"), ("year = 2025", "year IN (2023, 2024) OR year = 2025")],
)
def test_a_deferred_index_of_a_part_is_rebuilt_partition_by_partition_and_at_last_as_that_part(
    here: Path, partition: str, at_last: str
) -> None:
    tailbit.sql("CREATE INDEX i ON trips (rider) WITH DEFERRED REBUILD WHERE year IN (2023, 2024)")
    tailbit.sql(f"ALTER INDEX i ON trips PARTITION ({partition}) REBUILD")
    (index,) = definitions("trips")
    assert index.only == partition
    tailbit.sql("ALTER INDEX i ON trips REBUILD")
    (index,) = definitions("trips")
    assert (index.only, index.options) == (at_last, {})


def test_a_wrong_partition_leaves_a_deferred_index_as_it_is(here: Path) -> None:
    tailbit.sql("CREATE INDEX i ON trips (rider) WITH DEFERRED REBUILD")
    with pytest.raises(StatementError, match="no partition column"):
        tailbit.sql("ALTER INDEX i ON trips PARTITION (rider = 'Ann') REBUILD")
    (index,) = definitions("trips")
    assert index.options["deferred"] == "true"


def test_a_statement_of_several_lines_is_shown_as_it_was_written(here: Path) -> None:
    with pytest.raises(StatementError) as refused:
        tailbit.sql("CREATE INDEX i ON flights\n (dest,\n foo(dest))")
    assert str(refused.value).startswith(r"statement 'CREATE INDEX i ON flights\n (dest,\n foo(dest))': ")


@pytest.mark.parametrize(
    ("given", "told"),
    [(b"SHOW INDEXES FROM \xff", "standard input is no text in UTF-8"), (None, "is closed")],
)
def test_standard_input_without_a_text_is_refused(
    here: Path, monkeypatch: pytest.MonkeyPatch, given: bytes | None, told: str
) -> None:
    monkeypatch.setattr(sys, "stdin", None if given is None else io.TextIOWrapper(io.BytesIO(given), "utf-8"))
    with pytest.raises(click.UsageError, match=told):
        cli(["sql", "-"], standalone_mode=False)
