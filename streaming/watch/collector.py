"""The metrics of an application by their names, as Prometheus scrapes them: made at each scrape, no state.

At most 30 series a table. The names and their meaning stand in docs/operations.md, which a test compares.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from importlib.metadata import version
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from tailbit.base.dataclass import dataclass
from tailbit.streaming.watch.view import Account, TableState, View

_Value = Callable[[Account], Any]


@dataclass(frozen=True, slots=True)
class Exported:
    """A metric of each table. `value`: returns its value from a table's account; None if not known yet.

    `counts`: whether the metric is a counter; else it is a gauge.
    """

    name: str
    meaning: str
    value: _Value
    counts: bool = False


def _of_lag(field: str) -> _Value:
    return lambda account: None if account["lag"] is None else account["lag"][field]


def _of(field: str) -> _Value:
    return lambda account: account[field]


def _of_work(field: str) -> _Value:
    return lambda account: account["work"][field]


def _of_build(field: str) -> _Value:
    return lambda account: None if account["build"] is None else account["build"][field]


OF_TABLES = (
    Exported("tailbit_table_lag_seconds", "Seconds that the oldest commit waits.", _of_lag("seconds")),
    Exported("tailbit_table_lag_versions", "Commits that are not indexed.", _of_lag("versions")),
    Exported("tailbit_table_lag_files", "Data files of these commits.", _of_lag("files")),
    Exported("tailbit_table_lag_bytes", "Bytes of these files.", _of_lag("bytes")),
    Exported("tailbit_table_max_lag_seconds", "The lag contract, max_lag.", _of("max_lag")),
    Exported("tailbit_table_build_files", "Data files of the build at work.", _of_build("files")),
    Exported("tailbit_table_build_files_done", "Those that are built.", _of_build("files_done")),
    Exported("tailbit_table_build_rows", "Rows of the build at work.", _of_build("rows")),
    Exported("tailbit_table_build_rows_done", "Those that are built.", _of_build("rows_done")),
    Exported(
        "tailbit_table_build_seconds_left",
        "Seconds that the build at work takes still, at its rate.",
        _of_build("seconds_left"),
    ),
    Exported("tailbit_table_head_version", "Newest version of the table.", _of("head")),
    Exported("tailbit_table_last_look_timestamp_seconds", "When the log was last looked at.", _of("looked")),
    Exported("tailbit_table_failures_total", "Attempts that failed.", _of_work("failures"), counts=True),
    Exported("tailbit_table_batches_total", "Batches that were indexed.", _of_work("batches"), counts=True),
    Exported("tailbit_table_files_total", "Data files that were indexed.", _of_work("files"), counts=True),
    Exported("tailbit_table_rows_total", "Rows that were indexed.", _of_work("rows"), counts=True),
    Exported(
        "tailbit_table_batch_seconds_total", "Seconds that batches took.", _of_work("seconds"), counts=True
    ),
)
"""The metrics with a series for each table, by the label `table`."""

STATE = "tailbit_table_state"
"""1 for the state that a table is in, 0 for the others: labels `table` and `state`."""

BUILD, LEADING, TABLES = "tailbit_build_info", "tailbit_leading", "tailbit_tables"
"""The metrics of the application."""


@cache
def _release() -> str:
    """Return the release that runs, as it was first asked for: another may be installed meanwhile."""
    return version("tailbit")


class ApplicationCollector(Collector):
    """The metrics of one application, for a registry of Prometheus."""

    def __init__(self, view: View) -> None:
        self._view = view

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics as they are now."""
        accounts = self._view.accounts()
        build = GaugeMetricFamily(BUILD, "The release that runs.", labels=["version"])
        build.add_metric([_release()], 1)
        yield build
        leading = "1 if the application is at work, 0 while it stands by."
        yield GaugeMetricFamily(LEADING, leading, value=float(self._view.is_leading))
        yield GaugeMetricFamily(TABLES, "Tables that are followed.", value=len(accounts))
        state = GaugeMetricFamily(STATE, "1 for the state of the table, else 0.", labels=["table", "state"])
        for account in accounts:
            for table_state in TableState:
                state.add_metric(
                    [account["id"], table_state.value], float(account["state"] == table_state.value)
                )
        yield state
        for exported in OF_TABLES:
            yield _family(exported, accounts)


def _family(exported: Exported, accounts: Any) -> Metric:
    kind = CounterMetricFamily if exported.counts else GaugeMetricFamily
    family = kind(exported.name, exported.meaning, labels=["table"])
    for account in accounts:
        value = exported.value(account)
        if value is not None:
            family.add_metric([account["id"]], value)
    return family
