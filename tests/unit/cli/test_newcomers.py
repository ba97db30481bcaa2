"""What the fifteen most usual mistakes are told leads to the right command by the next try."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest
from click.testing import CliRunner

from support.tables import eight_flights, index_files
from tailbit.cli.main import cli
from tailbit.errors import TailbitError

UA = "carrier = 'UA'"


class Mistake(NamedTuple):
    """What is typed in a folder with the table `flights`, what is said, and what is typed next."""

    typed: tuple[str, ...]
    said: str
    next: tuple[str, ...]


MISTAKES = (
    Mistake(("cout", "flights", UA), "Did you mean 'count'?", ("count", "flights", UA)),
    Mistake(("query", "flights", UA), 'Write: tailbit count TABLE "carrier', ("count", "flights", UA)),
    Mistake(("create-index", "flights", "dest"), "index create TABLE NAME --on TERM; plain",
            ("index", "create", "flights", "by_dest", "--on", "dest")),
    Mistake(("help", "count"), "Write: tailbit COMMAND --help", ("count", "--help")),
    Mistake(("count", UA, "flights"), 'the table stands first, as in tailbit count TABLE "condition"',
            ("count", "flights", UA)),
    Mistake(("count", "flights", "carrier", "=", "UA"), f'A condition stands in quotes: "{UA}"',
            ("count", "flights", UA)),
    Mistake(("count", "flights", "carrier = UA"), "write it in single quotes: 'UA'",
            ("count", "flights", UA)),
    Mistake(("count", "flights", "carier = 'UA'"), "nearest: carrier", ("count", "flights", UA)),
    Mistake(("count", "flights", "flight = '5x'"), "A number stands without quotes",
            ("count", "flights", "flight = 5")),
    Mistake(("count", "flights", f"SELECT count(*) FROM flights WHERE {UA}"),
            'Write tailbit count TABLE "condition"', ("count", "flights", UA)),
    Mistake(("count", "flights/_delta_log", UA), "Give the folder of the table: ", ("count", "flights", UA)),
    Mistake(("facets", "flights", UA, "dest"), f'A condition is given by --where: --where "{UA}"',
            ("facets", "flights", "dest", "--where", UA)),
    Mistake(("run", "flights", "--columns", "carrier", "dest", "--once"),
            "joined by commas: --columns carrier,origin,dest",
            ("run", "flights", "--index", "other", "--columns", "carrier,dest", "--once")),
    Mistake(("run", "flights", "--column", "carrier"), "Write: --columns",
            ("run", "flights", "--columns", "carrier", "--once")),
    Mistake(("--index", "other", "count", "flights"), "behind the command: tailbit COMMAND TABLE --index",
            ("count", "flights", "--index", "flights/_tailbit")),
)  # fmt: skip


OTHERS = (
    Mistake(
        ("run", "flights", "--columns", "carrier", "--columns", "dest", "--once"),
        "--columns is given twice: names stand together, as --columns A,B",
        ("run", "flights", "--index", "other", "--columns", "carrier,dest", "--once"),
    ),
    Mistake(
        ("count", "flights", "--version", "0", "--version=1"),
        "--version is given twice",
        ("count", "flights", "--version=0"),
    ),
    Mistake(
        ("delete", "flights", UA),
        'tailbit erase TABLE --where "carrier',
        ("erase", "flights", "--where", UA, "--dry-run"),
    ),
    Mistake(
        ("lookup", "flights", "5"),
        "Write: tailbit locate TABLE --on COLUMN KEY",
        ("locate", "flights", "--on", "flight", "5"),
    ),
    Mistake(("flights", "count"), "the table behind it: tailbit count flights", ("count", "flights")),
    Mistake(
        ("index", "flights"),
        "The command stands first: tailbit index list flights",
        ("index", "list", "flights"),
    ),
    Mistake(("index", "ls", "flights"), "Write: tailbit index list TABLE", ("index", "list", "flights")),
    Mistake(
        ("facets", "flights", "dest", "--limit", "2"),
        "Write: --top",
        ("facets", "flights", "dest", "--top", "2"),
    ),
    Mistake(("read", "flights", "--json"), "Write: --format json", ("read", "flights", "--format", "json")),
    Mistake(
        ("read", "flights", "--sort", "dest"), "Write: --order-by", ("read", "flights", "--order-by", "dest")
    ),
    Mistake(("count", "flights", "--filter", UA), "Write: --where", ("count", "flights", "--where", UA)),
    Mistake(("count", "flights", "--version", "latest"), "by default the last", ("count", "flights")),
    Mistake(("count", "flights", "flight => 5"), "Write >=", ("count", "flights", "flight >= 5")),
    Mistake(
        ("count", "flights", "--as-of", "2999-01-01"), "leave --version or --as-of out", ("count", "flights")
    ),
    Mistake(
        ("count", "flights", f"DELETE FROM flights WHERE {UA}"),
        "Rows are deleted by tailbit erase",
        ("erase", "flights", "--where", UA, "--dry-run"),
    ),
)
"""What a person who had never seen the command did besides."""


@pytest.mark.parametrize("mistake", [*MISTAKES, *OTHERS], ids=lambda mistake: " ".join(mistake.typed))
def test_a_usual_mistake_leads_to_the_right_command_by_the_next_try(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mistake: Mistake
) -> None:
    eight_flights(str(tmp_path / "flights"))
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(cli, mistake.typed)
    error = done.exception
    said = f"{error}\n{error.hint}" if isinstance(error, TailbitError) else done.output
    assert done.exit_code != 0
    assert mistake.said in said
    again = CliRunner().invoke(cli, mistake.next)
    assert again.exit_code == 0, again.output


def test_the_usual_mistakes_are_fifteen_and_none_changes_anything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    eight_flights(str(tmp_path / "flights"))
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    for mistake in MISTAKES:
        CliRunner().invoke(cli, mistake.typed)
    assert len(MISTAKES) == 15
    assert sorted(tmp_path.rglob("*")) == before
    assert len(index_files("flights", "settings")) == 1


def test_rows_have_the_format_that_the_ending_of_their_file_names(tmp_path: Path) -> None:
    table, file = str(tmp_path / "flights"), tmp_path / "rows.parquet"
    eight_flights(table)
    for given, begin in {(): b"PAR1", ("--format", "csv"): b'"flight"'}.items():
        done = CliRunner().invoke(cli, ["read", table, "--columns", "flight", "-o", str(file), *given])
        assert done.exit_code == 0, done.output
        assert file.read_bytes().startswith(begin)


@pytest.mark.parametrize("condition", ["carrier == 'UA'", 'carrier = "UA"', "carrier='UA'"])
def test_what_others_write_is_read(tmp_path: Path, condition: str) -> None:
    eight_flights(str(tmp_path / "flights"))
    assert CliRunner().invoke(cli, ["count", str(tmp_path / "flights"), condition]).output == "4\n"


def test_a_newcomer_sees_the_commands_by_what_they_are_for() -> None:
    shown = CliRunner().invoke(cli, ["--help"]).output
    places = [shown.index(f"{purpose}:") for purpose in ("Ask", "Choose and keep indexes", "Look after them")]
    assert places == sorted(places)
    assert (
        shown.index("count ")
        < places[1]
        < shown.index("  run ")
        < shown.index("  alter ")
        < places[2]
        < shown.index("  verify ")
    )


@pytest.mark.parametrize(
    ("condition", "is_noted"),
    [
        ("carrier = NULL", True),
        ("carrier NOT IN ('UA', null)", True),
        ("flight > 0 AND carrier <> NULL", True),
        ("carrier = NULL OR flight > 0", False),
        ("carrier IS NULL", False),
        ("carrier IN ('UA', NULL)", False),
        ("1 = 0", False),
    ],
)
def test_a_condition_that_null_makes_true_of_no_row_is_noted(
    tmp_path: Path, condition: str, is_noted: bool
) -> None:
    eight_flights(str(tmp_path / "flights"))
    done = CliRunner().invoke(cli, ["count", str(tmp_path / "flights"), condition])
    assert done.exit_code == 0
    assert ("write IS NULL or IS NOT NULL" in done.stderr) == is_noted


def test_a_run_that_has_nothing_to_do_says_so(tmp_path: Path) -> None:
    eight_flights(str(tmp_path / "flights"))
    asked = ["run", str(tmp_path / "flights"), "--columns", "carrier", "--once"]
    assert CliRunner().invoke(cli, asked).stderr.endswith("flights: covered v2 of v2 · up to date\n")
    assert CliRunner().invoke(cli, [*asked, "--quiet"]).output == ""
