"""The example of a configuration is one, and the page of operations names every key."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tailbit.streaming.config.model import Application, Defaults, IndexEntry, TableEntry
from tailbit.streaming.config.read import read_config

ROOT = Path(__file__).parents[4]


def test_the_example_is_read_without_a_warning() -> None:
    read = read_config(ROOT / "deploy/tailbit.toml", {"PARTNER_KEY_ID": "a", "PARTNER_SECRET": "b"})
    assert [table.id for table in read.config.table] == ["orders", "returns", "partner_visits"]
    assert not read.problems.warnings


@pytest.mark.parametrize("model", [Application, Defaults, TableEntry, IndexEntry])
def test_every_key_is_named_on_the_page_of_operations(model: type[Application]) -> None:
    page = (ROOT / "docs/operations.md").read_text(encoding="utf-8")
    section = page.partition("## Many tables in one application")[2].partition("\n## ")[0]
    assert set(model.model_fields) - set(re.findall(r"`(\w+)`", section)) == set()
