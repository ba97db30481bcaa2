"""The example of a configuration is one."""

from __future__ import annotations

from pathlib import Path

from tailbit.streaming.config.read import read_config

ROOT = Path(__file__).parents[4]


def test_the_example_is_read_without_a_warning() -> None:
    read = read_config(ROOT / "deploy/tailbit.toml", {"PARTNER_KEY_ID": "a", "PARTNER_SECRET": "b"})
    assert [table.id for table in read.config.table] == ["orders", "returns", "partner_visits"]
    assert not read.problems.warnings
