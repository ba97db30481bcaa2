"""Keys located in any history of commits and any state of the index are where DuckDB's join finds them."""

from __future__ import annotations

import pytest

from support.fuzzer.keys_run import run_keys
from support.profiles import seeds
from tailbit.index.postings import pages, postings

pytestmark = pytest.mark.usefixtures("outside_allowed")


@pytest.mark.by_thirds
@pytest.mark.parametrize("seed", seeds(2))
@pytest.mark.parametrize("writer", ["built", "deltalake"])
def test_keys_are_located_where_a_join_finds_them(seed: int, writer: str) -> None:
    report = run_keys(seed, 60, writer)
    assert report.findings == []
    assert report.checks == 60


@pytest.mark.by_thirds
@pytest.mark.parametrize("seed", seeds(2))
@pytest.mark.parametrize("cost_of_a_page", [0, 1, 9], ids=["by page", "mixed", "whole"])
def test_record_keys_of_many_small_pages_are_located_where_a_join_finds_them(
    seed: int, cost_of_a_page: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (postings, pages):
        monkeypatch.setattr(module, "PAGE_ROWS", 2)
    for name in ("_A_PAGE", "_OFTEN"):
        monkeypatch.setattr(pages, name, cost_of_a_page)
    monkeypatch.setattr(postings, "PAGED_GROUP_ROWS", 7)
    report = run_keys(seed + 200, 60)
    assert report.findings == []
    assert report.checks == 60
