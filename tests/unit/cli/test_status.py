"""The status of one index and of several, in an operator's words."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest
from click.testing import CliRunner

import tailbit
from support.drive import Drive
from support.tables import WRONG, eight_flights, gone, index_files, index_of, with_vectors
from tailbit.cli.main import cli

CODE = ("files to post", "uncounted", "row spaces", "round", "segments", "index version")


def run(*args: str) -> tuple[int, str]:
    done = CliRunner().invoke(cli, [*args], standalone_mode=False)
    assert done.exception is None, done.output
    return done.return_value or 0, done.stdout


@pytest.fixture
def tables(tmp_path: Path) -> tuple[str, str]:
    """One that is up to date, and one whose index is a version behind."""
    eight_flights(str(tmp_path / "flights"))
    late = str(tmp_path / "late")
    deltalake.write_deltalake(late, pa.table({"k": [1]}))
    index_of(late, ["k"])
    deltalake.write_deltalake(late, pa.table({"k": [2]}), mode="append")
    return str(tmp_path / "flights"), late


def test_status_speaks_of_files_and_lag_and_not_in_the_words_of_the_code(tables: tuple[str, str]) -> None:
    good, late = tables
    status, text = run("status", good)
    assert status == 0
    assert "state             complete: every file of the covered version is indexed\n" in text
    assert "lag               up to date\n" in text
    assert f"indexer           none runs: start one with tailbit run {good}\n" in text
    assert not [word for word in CODE if f"\n{word}" in text]
    assert "lag               1 version behind (1 file, " in run("status", late)[1]


def test_a_command_that_is_told_names_a_table_with_spaces_as_a_shell_takes_it(tmp_path: Path) -> None:
    table = str(tmp_path / "my flights")
    eight_flights(table)
    assert f"start one with tailbit run '{table}'\n" in run("status", table)[1]
    index = str(tmp_path / "an index")
    Drive(table, index, ["carrier"]).drain()
    told = f"tailbit run '{table}' --index '{index}'\n"
    assert told in run("alter", table, "--index", index, "--add", "dest")[1]


def test_status_of_several_tables_is_a_line_each_and_fails_where_one_is_late(tables: tuple[str, str]) -> None:
    good, late = tables
    assert run("status", good, good)[0] == 0
    status, text = run("status", good, late, "--max-lag", "0")
    assert status == 1
    assert [line.split("\t")[0] for line in text.splitlines()[1:]] == ["ok", "LATE"]
    assert run("status", good, late, "--max-lag", "9999")[0] == 0
    status, text = run("status", good, late, "/nowhere", "--max-lag", "0", "--json")
    accounts = [json.loads(line) for line in text.splitlines()]
    assert status == 1
    assert [account["within_max_lag"] for account in accounts] == [True, False, False]
    assert "no Delta table" in accounts[2]["error"]


def test_status_of_one_table_fails_on_lag_only_where_a_lag_is_named(tables: tuple[str, str]) -> None:
    _, late = tables
    assert run("status", late)[0] == 0
    assert run("status", late, "--max-lag", "0")[0] == 1
    assert run("status", late, "--max-lag", "9999")[0] == 0


def test_sums_by_group_and_cross_tabs_are_printed_with_their_labels(tables: tuple[str, str]) -> None:
    good, _ = tables
    _, text = run("facets", good, "carrier", "--sum", "dep_delay", "--max", "dest,flight", "--top", "1")
    assert text.splitlines() == [
        "carrier\tcount\tsum(dep_delay)\tmax(dest)\tmax(flight)",
        "UA\t4\t62\tSFO\t8",
    ]
    _, text = run("facets", good, "carrier,dest", "--avg", "dep_delay", "--json", "--where", "carrier = 'DL'")
    assert json.loads(text)["facets"] == [{"value": ["DL", "SFO"], "count": 1, "avg(dep_delay)": 12.0}]
    _, text = run("crosstab", good, "carrier", "dest", "--where", "carrier <> 'DL'")
    assert text.splitlines() == ["carrier / dest\tLAX\tORD\tSFO", "AA\t1\t1\t0", "UA\t2\t0\t2"]


def test_a_condition_is_given_as_argument_or_by_where_with_parameters(tables: tuple[str, str]) -> None:
    good, _ = tables
    assert run("count", good, "--where", "carrier = 'UA'") == (0, "4\n")
    assert run("count", good, "carrier = :c AND dep_delay > :d", "--param", "c=UA", "--param", "d=0") == (
        0,
        "2\n",
    )
    assert run("count", good, "carrier = :c", "--param", "c=' OR TRUE --") == (0, "0\n")
    for given, said in (
        (["c=UA", "c=AA"], "c is given twice"),
        (["=UA"], "NAME=VALUE"),
        (["UA"], "NAME=VALUE"),
    ):
        options = [option for value in given for option in ("--param", value)]
        done = CliRunner().invoke(cli, ["count", good, "carrier = :c", *options])
        assert (done.exit_code, said in done.output) == (2, True)
    done = CliRunner().invoke(cli, ["count", good, "a = 1", "--where", "b = 1"])
    assert done.exit_code == 2
    done = CliRunner().invoke(cli, ["cuont", good])
    assert "Did you mean" in done.output


def test_status_lists_indexes_that_are_no_columns_by_name(tables: tuple[str, str]) -> None:
    good, _ = tables
    table = tailbit.open(good)
    table.create_index("by_place", "lower(dest)")
    assert "\nindex by name     by_place: bitmap of lower(dest), complete\n" in run("status", good)[1]
    indexes = json.loads(run("status", good, "--json")[1])["indexes"]
    assert [(index["name"], index["terms"]) for index in indexes] == [
        ("carrier", ["carrier"]),
        ("by_place", ["lower(dest)"]),
    ]


def beats(index: str, place: str) -> None:
    """Leave the mark of an application that was killed on an index."""
    from tailbit.checkpoints.claim import Claim
    from tailbit.checkpoints.liveness import Liveness
    from tailbit.tables.storage import open_storage

    storage = open_storage(place)
    storage.make_root()
    lease = Claim(storage, life=Liveness(), of_application=True)
    lease.acquire()
    Claim(open_storage(index), lease=lease).acquire()
    lease.release()


def test_a_table_that_an_application_kept_is_never_told_to_be_run_by_itself(
    tables: tuple[str, str], tmp_path: Path
) -> None:
    beats(f"{tables[0]}/_tailbit", str(tmp_path / "lease"))
    text = run("status", tables[0])[1]
    assert "start the application that kept it again, tailbit run --config FILE\n" in text
    assert f"tailbit run {tables[0]}" not in text


def test_a_table_that_an_application_at_work_has_not_opened_yet_is_its_application_s(
    tables: tuple[str, str], tmp_path: Path
) -> None:
    from tailbit.checkpoints.claim import Claim
    from tailbit.checkpoints.liveness import Liveness
    from tailbit.tables.storage import open_storage

    new = str(tmp_path / "new")
    deltalake.write_deltalake(new, pa.table({"k": [1]}))
    file = tmp_path / "tailbit.toml"
    sections = "".join(f'[[table]]\npath = "{path}"\ncolumns = ["k"]\n' for path in (tables[1], new))
    file.write_text(f'[application]\nlease = "{tmp_path}/lease"\n{sections}')
    storage = open_storage(str(tmp_path / "lease"))
    storage.make_root()
    assert "the application makes it: tailbit run --config" in run("status", "--config", str(file))[1]
    lease = Claim(storage, life=Liveness(), of_application=True)
    lease.acquire()
    try:
        _, made, unmade = (line.split("\t") for line in run("status", "--config", str(file))[1].splitlines())
    finally:
        lease.release()
    assert made[5] == unmade[5] == lease.beat.owner
    assert unmade[4] == "no index yet: the application makes it"


def test_status_shows_how_far_an_index_is_built(tmp_path: Path) -> None:
    from tailbit.streaming.settings import StreamSettings

    path = str(tmp_path / "t")
    for number in range(4):
        deltalake.write_deltalake(path, pa.table({"k": [number], "s": ["a"]}), mode="append")
    drive = Drive(path, f"{path}/_tailbit", ["k", "s"], StreamSettings(files=1))
    drive.step()
    text = run("status", path)[1]
    assert "built             " in text
    assert "1 of 4 files, 1 of 4 rows\n" in text
    line = run("status", path, path)[1].splitlines()[1]
    assert "1 of 4 files" in line.split("\t")[2]


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Two files of ten rows, two rows of the first hidden; the column v is indexed."""
    path = str(tmp_path / "a table")
    with_vectors(path)
    return path


def said(*arguments: str) -> list[str]:
    return CliRunner().invoke(cli, list(arguments)).stdout.splitlines()


def told(path: str) -> list[str]:
    return [line for line in said("verify", path) if line.startswith("WRONG")]


@pytest.mark.by_thirds
@pytest.mark.parametrize("what", WRONG)
def test_a_damaged_part_of_an_index_is_one_line_with_the_command_that_repairs_it(
    path: str, what: str
) -> None:
    WRONG[what](path)
    lines = told(path)
    assert lines
    assert all(line.endswith(f"; do: tailbit repair {shlex.quote(path)}") for line in lines)
    wheres = [line.split(": ")[0] for line in lines]
    assert len(wheres) == len(set(wheres)) <= 2, "a part is told once; wrong postings make wrong counts"
    assert said("repair", path)[-1].endswith("built again")
    assert said("verify", path)[-1] == "sound"


def test_each_of_several_damaged_files_has_its_own_line(path: str) -> None:
    files = [index_files(path, kind)[0] for kind in ("bitmap_index", "value_counts", "hidden_rows")]
    for file in files:
        gone(file)
    assert len(told(path)) == len(files)


def test_lost_settings_are_told_with_a_command_that_names_columns(path: str) -> None:
    gone(index_files(path, "settings")[0])
    (line,) = told(path)
    assert f"do: tailbit repair {shlex.quote(path)} --columns " in line
    assert said("repair", path, "--columns", "v")[-1].endswith("built again")


def test_a_damaged_data_file_is_one_line_that_does_not_blame_the_index(path: str) -> None:
    (Path(path) / "f1.parquet").unlink()
    (line,) = told(path)
    assert line.startswith("WRONG file f1.parquet: ")
    assert "restore that file" in line
    assert "tailbit repair" not in line
    assert said("repair", path)[-1] == "nothing to repair in the index"


def test_the_command_names_the_index_that_was_given(path: str, tmp_path: Path) -> None:
    index = str(tmp_path / "index")
    Drive(path, index, ["v"]).drain()
    for file in Path(index, "kind=bitmap_index").glob("*.parquet"):
        file.unlink()
    lines = [line for line in said("verify", path, "--index", index) if line.startswith("WRONG")]
    assert [line.partition("; do: ")[2] for line in lines] == [
        f"tailbit repair {shlex.quote(path)} --index {shlex.quote(index)}"
    ]
