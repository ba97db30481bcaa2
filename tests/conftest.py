"""Fixtures for all tests: one real Spark with Delta a run, and deterministic property tests."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from hypothesis import HealthCheck

hypothesis.settings.register_profile(
    "ci",
    derandomize=True,
    deadline=None,
    database=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
hypothesis.settings.register_profile(
    "deep", hypothesis.settings.get_profile("ci"), derandomize=False, max_examples=3000
)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

SPARK_FREE = ("unit", "property")
"""Folders whose tests start no JVM; they run first, so a plain mistake shows within seconds."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--support-page FILE`: write docs/delta-support.md from the marks of the collected tests."""
    parser.addoption("--support-page", metavar="FILE", help="write the support page made from the marks")


def pytest_collection_finish(session: pytest.Session) -> None:
    """Write the support page where it is asked for."""
    target = session.config.getoption("--support-page")
    if target:
        from support.support_page import claims, page

        Path(target).write_text(page(claims(session.items)))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Spark-free tests first; a test that asks for `spark` carries the marker."""
    here = Path(__file__).parent
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)
    items.sort(key=lambda item: item.path.relative_to(here).parts[0] not in SPARK_FREE)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A real Spark session with Delta Lake, shared by the run (by each worker of it)."""
    from support.spark_session import start_spark

    session = start_spark(tmp_path_factory.mktemp("spark"))
    yield session
    session.stop()


@pytest.fixture
def table_path(tmp_path: Path) -> str:
    """The path of a table that does not exist yet."""
    return str(tmp_path / "table")
