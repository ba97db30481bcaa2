"""Names say what they hold, folders import one way, and imports and dataclasses are the plain ones."""

from __future__ import annotations

import json
import re

from support.house import RECORD, circles, empty_names, modules

RECORDED = json.loads(RECORD.read_text(encoding="utf-8"))
ANEW = "if names were mended or a room was moved: cd tests && python -m support.house"
LINES = 800


def test_a_folder_imports_none_that_imports_it_but_its_parent_and_its_children() -> None:
    assert circles() - {*RECORDED["circles"]} == set(), "errors and the like are imported from tailbit.base"


def test_no_folder_has_more_names_that_say_nothing_than_it_had() -> None:
    """`tests/unit/house.json` has the count of each folder, which only goes down."""
    recorded = RECORDED["empty names"]
    more = {folder: count for folder, count in empty_names().items() if count > recorded.get(folder, 0)}
    assert more == {}, ANEW


def test_a_module_is_one_noun_and_what_belongs_to_it() -> None:
    assert {path: lines for path, text in modules().items() if (lines := text.count("\n")) > LINES} == {}


def test_a_number_or_a_unit_is_named() -> None:
    # Where a text says "so many", the reader must look for what is meant: a parameter, a limit, a unit.
    unnamed = re.compile(r"\bso\W+many\b", re.I)
    assert [path for path, text in modules().items() if unnamed.search(text)] == []


def test_no_module_changes_how_others_are_imported() -> None:
    """A hook that one command needs is in the way of whatever runs after it in the same process."""
    changed = re.compile(
        r"sys\.(meta_path|path_hooks)\b|sys\.modules(\[[^]]*\] *=[^=]|\.(pop|update|setdefault))"
    )
    assert [path for path, text in modules().items() if changed.search(text)] == []


def test_dataclasses_are_those_whose_methods_are_made_at_their_first_use() -> None:
    theirs = re.compile(r"^from dataclasses import .*\bdataclass\b|\bdataclasses\.dataclass\b", re.M)
    ours = "tailbit/base/dataclass.py"
    assert [path for path, text in modules().items() if theirs.search(text)] == [ours]
