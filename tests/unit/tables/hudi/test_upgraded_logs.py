"""Log files that a release wrote before a table's upgrade: their names hold the instants of base files."""

from __future__ import annotations

from pathlib import Path

import pytest

import tailbit
from support.drive import Drive
from support.hudi_made import GROUP, Made, deletions, updates
from tailbit.errors import UnsupportedFeatureError


@pytest.mark.supports_hudi("MERGE_ON_READ", "log files from before an upgrade from table version 6", "exact")
def test_log_files_from_before_an_upgrade_are_read_at_each_version(tmp_path: Path) -> None:
    made = Made(tmp_path)
    Drive(made.path, tmp_path / "index", ["city"]).drain()
    states = [
        (updates([0, 1], 6), 1, {"Lima": 2, "Oslo": 3}),
        (deletions(("1", 7)), 2, {"Lima": 1, "Oslo": 3}),
        (updates([0, 2], 8, "Pune"), 0, {"Pune": 2, "Oslo": 2}),
    ]
    names = []
    for blocks, number, cities in states:
        made.write(blocks, log=f".{GROUP}_{made.base.requested}.log.{number}_0-1-1" if number else "")
        Drive(made.path, tmp_path / "index", ["city"]).drain()
        answer = tailbit.open(made.path, tmp_path / "index").where()
        assert answer.facets("city") == cities
        names.append(answer.version_name)
    found = [tailbit.open(made.path).where(version=name).facets("city") for name in names]
    assert found == [cities for *_, cities in states]


@pytest.mark.parametrize("kept", [20, -9, None])
def test_what_a_task_that_was_run_again_left_before_an_upgrade_changes_no_row(
    kept: int | None, tmp_path: Path
) -> None:
    made = Made(tmp_path)
    log = made.write(updates([0], 6), log=f".{GROUP}_{made.base.requested}.log.1_0-1-1")
    whole = (Path(made.path) / log).read_bytes()
    (Path(made.path) / log.replace("_0-1-1", "_0-1-0")).write_bytes(whole[:kept])
    assert made.cities() == {0: "Lima", 1: "Oslo", 2: "Oslo", 3: "Oslo", 4: "Oslo"}


@pytest.mark.supports_hudi(
    "MERGE_ON_READ",
    "log files from before an upgrade that were written while a compaction was pending",
    "refused",
)
def test_log_files_of_an_instant_that_was_pending_when_they_were_written_are_refused(tmp_path: Path) -> None:
    made = Made(tmp_path)
    pending = made.builder.timeline.request("deltacommit")
    made.write(updates([0], 6), log=f".{GROUP}_{pending}.log.1_0-1-1")
    made._complete(pending, [])
    with pytest.raises(UnsupportedFeatureError, match="an instant that was pending") as refused:
        made.cities()
    assert "CALL run_compaction" in refused.value.hint
