"""Rows and files are served where they take less time than Spark's own scan, and left to Spark elsewhere."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from support.tables import index_of
from tailbit.api import open_indexed
from tailbit.spark import request as requests
from tailbit.spark.request import (
    MOST_FOOTERS,
    Declined,
    Pages,
    Request,
    Scan,
    check_files,
    check_gain,
    pages_of,
    speed,
    told_costs,
)

FILES, ROWS = 70, 10
MB = 1 << 20


def request(**fields: Any) -> Request:
    given = {"want": "rows", "root": "/t", "table": "id", "version": 1, "cores": 2}
    return Request.of(given | fields)


def reason(pages: Pages, **fields: Any) -> str | None:
    """Return why rows are declined, or None."""
    try:
        check_gain(pages, request(**fields))
    except Declined as declined:
        return declined.reason
    return None


@pytest.fixture(autouse=True)
def _machine_of_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "_speeds", [1.0])


def test_pages_of_many_files_are_estimated_by_the_footers_of_few(tmp_path: Path) -> None:
    for number in range(FILES):
        rows = pa.table({"k": [f"k{row % 5}" for row in range(ROWS)], "v": [number] * ROWS})
        write_deltalake(tmp_path, rows, mode="append")
    index_of(tmp_path, ["k"])
    selection = open_indexed(str(tmp_path)).where("k = 'k2'")._selection
    wanted = [(hit.slice_, hit.positions) for hit in selection.hits()]
    columns = selection.schema.resolve_all(["k", "v"])
    # Only what is looked at is there: every third file.
    for file, _ in wanted:
        if file not in [looked_at for looked_at, _ in wanted[:: FILES // MOST_FOOTERS + 1]]:
            (tmp_path / file.path).unlink()
    pages = pages_of(selection.storage, wanted, columns)
    assert (pages.files, pages.rows) == (FILES, FILES * ROWS // 5)
    assert (pages.whole.files, pages.whole.rows) == (FILES, FILES * ROWS)
    assert 0 < pages.touched <= pages.whole.bytes
    assert pages.whole.bytes > FILES * ROWS * 8


def test_rows_in_most_pages_of_a_large_scan_are_worth_it_and_in_those_of_a_small_one_too() -> None:
    scattered = Pages(16, 22, 100 * MB, Scan(16, 3_000_000, 180 * MB))
    assert reason(scattered) is None
    assert reason(Pages(1, 5, 4 * MB, Scan(1, 100_000, 4 * MB))) is None


def test_rows_that_take_longer_than_a_scan_of_their_columns_are_left_to_spark() -> None:
    narrow = Scan(16, 750_000, 6 * MB)
    assert reason(Pages(16, 619, 6 * MB, narrow)) is None
    assert reason(Pages(60, 9_000, 20 * MB, Scan(60, 750_000, 20 * MB)), cores=8) == "no-gain"


def test_a_session_of_many_cores_scans_more_quickly() -> None:
    pages = Pages(40, 600, 120 * MB, Scan(40, 4_000_000, 300 * MB))
    assert reason(pages, cores=2) is None
    assert reason(pages, cores=40) == "no-gain"


def test_files_that_delta_has_listed_and_that_hold_no_row_are_scanned_too() -> None:
    pages = Pages(40, 600, 120 * MB, Scan(40, 4_000_000, 300 * MB))
    assert reason(pages, cores=40, files=40) == "no-gain"
    assert reason(pages, cores=40, files=1000) is None


def test_the_share_of_sparks_time_overrides_the_choice() -> None:
    pages = Pages(40, 600, 120 * MB, Scan(40, 4_000_000, 300 * MB))
    assert reason(pages, cores=40, share=100) is None
    assert reason(pages, cores=2, share=0.0) == "no-gain"
    for wrong in (-1, "0.5", None, True):
        with pytest.raises(Declined, match="share"):
            request(share=wrong)


def test_the_driver_is_told_longer_times_on_a_slower_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    pages, before = Pages(100, 1000, 40 * MB, Scan(100, 9_000_000, 400 * MB)), told_costs()
    estimates = check_gain(pages, request())
    monkeypatch.setattr(requests, "_speeds", [5.0])
    assert told_costs() == {name: pytest.approx(5 * cost) for name, cost in before.items()}
    assert check_gain(pages, request())["spark_ms"] == pytest.approx(5 * estimates["spark_ms"], rel=0.01)


@pytest.mark.parametrize(
    ("kept", "everything", "told"),
    [
        (Scan(16, 0, 400 * MB), Scan(16, 0, 400 * MB), "keeps-all"),
        (Scan(9_999, 0, 398 * MB), Scan(10_000, 0, 398 * MB), "no-gain"),
        (Scan(12, 0, 300 * MB), Scan(16, 0, 400 * MB), None),
        (Scan(0, 0, 0), Scan(1, 0, MB), None),
    ],
)
def test_files_are_named_where_leaving_the_others_out_saves_time(
    kept: Scan, everything: Scan, told: str | None
) -> None:
    found = None
    try:
        check_files(kept, everything, request())
    except Declined as declined:
        found = declined.reason
    assert found == told


def test_the_speed_of_the_machine_is_measured_once_and_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = {"XDG_CACHE_HOME": str(tmp_path)}
    monkeypatch.setattr(requests, "_speeds", [])
    measured = speed(environment)
    assert 0.01 < measured < 1000
    kept = tmp_path / "tailbit" / "speed.json"
    assert json.loads(kept.read_text()) == {"speed": measured}
    kept.write_text('{"speed": 3.5}')
    monkeypatch.setattr(requests, "_speeds", [])
    assert speed(environment) == 3.5
    kept.write_text("{")
    monkeypatch.setattr(requests, "_speeds", [])
    assert speed(environment) != 3.5
    assert json.loads(kept.read_text())["speed"] == speed(environment)


def test_a_machine_without_a_folder_for_it_measures_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tailbit").touch()
    monkeypatch.setattr(requests, "_speeds", [])
    assert speed({"XDG_CACHE_HOME": str(tmp_path)}) > 0
