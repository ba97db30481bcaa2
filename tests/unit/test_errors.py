"""Every error has a remedy, crosses process boundaries whole, and is raised by a test."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys
import traceback
from pathlib import Path

import pytest

from tailbit import errors
from tailbit.errors import TailbitError

TESTS = Path(__file__).parents[1]
FIELDS = re.compile(r"{(\w+)")


def concrete_errors() -> list[type[TailbitError]]:
    """Every error class with a message of its own, in the order of the module."""
    found: list[type[TailbitError]] = []
    pending = [TailbitError]
    while pending:
        cls = pending.pop()
        pending += cls.__subclasses__()
        # The examples have errors of their own.
        is_ours = cls.__module__.startswith("tailbit.")
        if is_ours and "template" in vars(cls) and cls is not TailbitError and cls not in found:
            found.append(cls)
    return sorted(found, key=lambda cls: cls.__name__)


def fields_of(cls: type[TailbitError]) -> dict[str, object]:
    """A value for each field that the message and the hint name."""
    names = FIELDS.findall(cls.template) + FIELDS.findall(cls.hint)
    return dict.fromkeys(names, 7)


@pytest.mark.parametrize("cls", concrete_errors(), ids=lambda cls: cls.__name__)
def test_an_error_says_what_was_found_and_what_to_do(cls: type[TailbitError]) -> None:
    message, remedy = cls(**fields_of(cls)).describe().split("\n", 1)
    assert cls.__name__ in message
    assert "{" not in message + remedy
    assert remedy.strip() not in ("", TailbitError.hint)


@pytest.mark.parametrize("cls", concrete_errors(), ids=lambda cls: cls.__name__)
def test_an_error_survives_pickling(cls: type[TailbitError]) -> None:
    error = cls(**fields_of(cls))
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy), copy.hint, copy.fields) == (cls, str(error), error.hint, error.fields)


@pytest.mark.parametrize("cls", [TailbitError, *concrete_errors()], ids=lambda cls: cls.__name__)
def test_an_error_is_shown_and_pickled_by_the_module_that_users_import(cls: type[TailbitError]) -> None:
    assert cls.__module__ == "tailbit.errors"
    assert getattr(errors, cls.__name__) is cls
    assert b"tailbit.base" not in pickle.dumps(cls)


def test_errors_are_an_attribute_of_the_package() -> None:
    code = "import tailbit; print(tailbit.errors.UsageError)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "<class 'tailbit.errors.UsageError'>\n"


def test_a_missing_field_is_shown_by_name_instead_of_hiding_the_error() -> None:
    assert "{path}" in str(errors.NoIndexError())


def test_a_hint_may_be_given_for_one_occasion() -> None:
    assert errors.NoIndexError(path="t", hint="Look elsewhere.").describe().endswith("Look elsewhere.")
    assert errors.NoIndexError(path="t").hint == errors.NoIndexError.hint


def test_what_would_steer_a_terminal_is_spelled_out_in_messages() -> None:
    error = errors.DataFileError(file="a\x1b[2Jb\nc\u202e.parquet", reason="one\x07\ntwo ä", hint="\x9bno")
    for found in (error, pickle.loads(pickle.dumps(error))):
        assert str(found) == "data file a\\x1b[2Jb\\nc\\u202e.parquet: one\\x07\ntwo ä"
        assert found.hint == "\\x9bno"
        assert found.fields["file"] == "a\x1b[2Jb\nc\u202e.parquet"


def test_every_error_is_expected_by_a_test() -> None:
    texts = [path.read_text() for path in TESTS.rglob("*.py") if path != Path(__file__)]
    never = [cls.__name__ for cls in concrete_errors() if not any(cls.__name__ in text for text in texts)]
    assert never == []


def test_no_error_shadows_a_built_in_name() -> None:
    import builtins

    assert not [cls.__name__ for cls in concrete_errors() if hasattr(builtins, cls.__name__)]


@pytest.mark.skipif(sys.version_info < (3, 11), reason="tracebacks of Python 3.10 show no notes")
def test_a_traceback_ends_with_what_to_do() -> None:
    error = errors.VacuumedFileError(file="a.parquet", version=1, left=2, head=7)
    for found in (error, pickle.loads(pickle.dumps(error))):
        told = "".join(traceback.format_exception(found)).splitlines()
        assert told[-1] == "  Ask for version 7, the newest: its files are kept."
        assert found.__notes__ == [f"  {found.hint}"]
