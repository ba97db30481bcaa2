"""The usual mistakes of a first hour are told with what to write instead."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from support.tables import eight_flights
from tailbit.cli.main import cli
from tailbit.errors import TailbitError

MISTAKES = {
    ("carier = 'UA'",): "nearest: carrier",
    ("flight = 'abc'",): "A number stands without quotes",
    ("carrier", "=", "UA"): "A condition stands in quotes",
    ("--version", "99"): "Ask for a version between",
    ("--colums", "x"): "No such option",
}


@pytest.mark.parametrize("arguments", MISTAKES, ids=" ".join)
def test_a_usual_mistake_is_told_with_what_to_write(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    eight_flights(str(tmp_path / "flights"))
    done = CliRunner().invoke(cli, ["count", str(tmp_path / "flights"), *arguments])
    error = done.exception
    said = f"{error}\n{error.hint}" if isinstance(error, TailbitError) else done.output
    assert MISTAKES[arguments] in said


@pytest.mark.parametrize("condition", ["carrier == 'UA'", 'carrier = "UA"', "carrier='UA'"])
def test_what_others_write_is_read(tmp_path: Path, condition: str) -> None:
    eight_flights(str(tmp_path / "flights"))
    assert CliRunner().invoke(cli, ["count", str(tmp_path / "flights"), condition]).output == "4\n"
