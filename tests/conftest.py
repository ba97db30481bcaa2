"""Fixtures for all tests: one real Spark with Delta a run, and deterministic property tests."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import sys
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from hypothesis import HealthCheck

from support.spark_session import quick_java

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
# A shell starts what runs in its background deaf to Ctrl-C, and so would be every command that a test starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

IN_MEMORY, ROOM = Path("/dev/shm"), 6 << 30
"""Where temporary files are kept if it has this room: to wait for a disk at every commit of a table takes as
long as half of the tests compute. What TMPDIR says holds."""

if (
    IN_MEMORY.is_dir()
    and shutil.disk_usage(IN_MEMORY).free > ROOM
    and not os.statvfs(IN_MEMORY).f_flag & os.ST_NOEXEC
):
    os.environ.setdefault("TMPDIR", str(IN_MEMORY))
    tempfile.tempdir = None

FIRST = "integration"
"""What starts first: all of it is one worker's, which has the shared Spark and is busy with it to the end."""

COMPUTING = ("unit", "property")
"""What computes. The other folders mostly wait, for Spark to start or for a limit. Files of both kinds
take turns, so that of the other workers one waits while one computes, and a plain mistake shows soon."""

LONGEST = (
    *("test_many_tables.py", "test_kill_points.py", "test_hangs.py", "test_hangs_many.py"),
    *("test_spark_deployments.py", "test_spark_releases.py", "test_kill_spark.py", "test_silent_cluster.py"),
    *("test_demo.py", "test_faulty_store.py", "test_examples.py", "test_endings.py", "test_odd_logs.py"),
    *("test_azure_tables.py", "test_mending.py", "test_main.py", "test_proposals.py"),
    *("test_packed_hudi_tables.py", "test_fuzzed_histories.py", "test_fuzzed_keys.py"),
)
"""Files that take longest of their kind. They start first, so that no worker idles in the end."""

ASKED = "asked of Spark"
"""The property of a test that counts its questions without a recorded answer."""

MANY = 500
"""More tests that ask Spark than these are worth the optimising compiler: those of a commit are not, those
with the suites of the night are."""


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Files go to the workers one by one, but all tests of one Spark to one worker."""
    from support.scheduling import OneSpark

    return OneSpark(config, log)


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--support-page FILE`: write docs/delta-support.md from the marks; `--hudi-support-page` and
    `--iceberg-support-page` likewise.

    `--since-proof`: leave out the suites of the night that no change since the last proof concerns.
    """
    parser.addoption("--since-proof", action="store_true", help="leave unchanged suites to `make proof`")
    for option in ("--support-page", "--hudi-support-page", "--iceberg-support-page"):
        parser.addoption(option, metavar="FILE", help="write a support page made from the marks")


def pytest_sessionstart() -> None:
    """What is made by collecting stays to the end: no garbage is looked for among it."""
    gc.disable()


def pytest_collection_finish(session: pytest.Session) -> None:
    """Write the support page where it is asked for."""
    gc.enable()
    from support.support_page import DELTA, HUDI, ICEBERG, claims, page

    pages = {"--support-page": DELTA, "--hudi-support-page": HUDI, "--iceberg-support-page": ICEBERG}
    for option, of in pages.items():
        target = session.config.getoption(option)
        if target:
            Path(target).write_text(page(claims(session.items, of), of))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say how many questions without a recorded answer Spark was asked, and which suites the night has."""
    reports = [report for reports in terminalreporter.stats.values() for report in reports]
    properties = [p for report in reports for p in getattr(report, "user_properties", ())]
    # A report of each phase of a test has its properties, and other tests have properties of their own.
    asked = dict(value for name, value in properties if name == ASKED)
    if asked:
        number, tests = sum(asked.values()), ", ".join(asked)
        terminalreporter.write_line(
            f"{number} questions of {tests} have no recorded answer and were asked of Spark: make verdicts"
        )
    if config.getoption("--since-proof"):
        from support.suites import left_out, summary

        for line in summary(left_out()):
            terminalreporter.write_line(line)
        from support.profiles import PARTS, TURN

        part = f"commit {TURN} has part {TURN % PARTS + 1} of {PARTS}"
        terminalreporter.write_line(f"of tests by thirds, {part}: make proof has all")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put files in the order in which they start; a test that asks for `spark` carries the marker."""
    if config.getoption("--since-proof"):
        _leave_to_the_night(config, items)
        _leave_two_thirds(config, items)
    tests = Path(__file__).parent
    folders = {path: path.relative_to(tests).parts[0] for path in dict.fromkeys(item.path for item in items)}
    ranks = {name: n for n, name in enumerate(LONGEST)}
    starting = sorted(
        folders, key=lambda path: (folders[path] == "property", ranks.get(path.name, len(ranks)))
    )
    turns = dict.fromkeys(folders, 0.0)
    for computes in (True, False):
        kind = [p for p in starting if folders[p] != FIRST and (folders[p] in COMPUTING) is computes]
        turns |= {path: n / len(kind) for n, path in enumerate(kind)}
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)
    items.sort(key=lambda item: (folders[item.path] != FIRST, turns[item.path]))


def _leave_to_the_night(config: pytest.Config, items: list[pytest.Item]) -> None:
    from support.suites import is_of, left_out

    omitted = left_out()
    nightly = {item for item in items if any(is_of(item.nodeid, suite) for suite in omitted)}
    items[:] = [item for item in items if item not in nightly]
    config.hook.pytest_deselected(items=list(nightly))


def _leave_two_thirds(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Take the part of the tests marked `by_thirds` whose turn it is; of each function one at least."""
    from support.profiles import of_turn

    functions: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("by_thirds"):
            functions.setdefault(item.nodeid.partition("[")[0], []).append(item)
    left = {item for own in functions.values() for item in own} - {
        own[number] for own in functions.values() for number in of_turn(len(own))
    }
    items[:] = [item for item in items if item not in left]
    config.hook.pytest_deselected(items=list(left))


def pytest_runtest_setup() -> None:
    """Every JVM starts as quickly as it can by now."""
    quick_java()


@pytest.fixture(scope="session")
def spark(spark_session: Any) -> Any:
    """A real Spark session with Delta Lake, shared by the run (by each worker of it)."""
    return spark_session


@pytest.fixture(scope="module")
def accelerated(spark: Any) -> Iterator[Any]:
    """The acceleration of the shared session, for the tests of a module."""
    from support.acceleration import patiently_accelerated

    with patiently_accelerated(spark) as acceleration:
        yield acceleration


@pytest.fixture(scope="session")
def spark_session(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The session that `spark` and `replayed_spark` share."""
    from support.scheduling import asks_spark
    from support.spark_session import start_spark

    with_spark = (item for item in request.session.items if item.get_closest_marker("spark"))
    many = sum(asks_spark(item.nodeid) for item in with_spark) > MANY
    session = start_spark(tmp_path_factory.mktemp("spark"), lives_long=many)
    yield session
    session.stop()
    if (judged := sys.modules.get("support.judged")) is not None:
        judged.check_served()


@pytest.fixture(scope="module")
def _verdicts_of_module(request: pytest.FixtureRequest) -> Iterator[Any]:
    from support.verdicts import FOLDER, Verdicts

    recorded = Verdicts(FOLDER / f"{Path(request.node.path).stem}.arrow")
    yield recorded
    recorded.save()


@pytest.fixture
def verdicts(request: pytest.FixtureRequest, _verdicts_of_module: Any) -> Iterator[Any]:
    """Spark's recorded answers to the questions of a test module (see `support.verdicts`)."""
    yield _verdicts_of_module
    if number := _verdicts_of_module.unrecorded:
        _verdicts_of_module.unrecorded = 0
        request.node.user_properties.append((ASKED, (request.node.nodeid, number)))


@pytest.fixture
def replayed_spark(request: pytest.FixtureRequest, verdicts: Any, tmp_path: Path) -> Iterator[Any]:
    """The session of `spark`, which starts only for what is not recorded (see `support.replay`)."""
    from support.replay import Replay, ReplayedSpark

    replay = Replay(verdicts, request.node.nodeid, tmp_path)
    yield ReplayedSpark(lambda: request.getfixturevalue("spark_session"), replay)
    replay.close()


@pytest.fixture(scope="module")
def replayed_once(
    request: pytest.FixtureRequest, _verdicts_of_module: Any, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Any, Path]]:
    """A session as `replayed_spark`, and the folder in which it makes what the tests of a module share."""
    from support.replay import Replay, ReplayedSpark

    folder = tmp_path_factory.mktemp("shared")
    replay = Replay(_verdicts_of_module, request.node.nodeid, folder)
    yield ReplayedSpark(lambda: request.getfixturevalue("spark_session"), replay), folder
    replay.close()


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A real S3 server on loopback, shared by the run (by each worker of it)."""
    pytest.importorskip("obstore", reason="obstore has no wheel for Python 3.10")
    from support.s3_server import seaweed

    with seaweed(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture
def s3(s3_server: Any) -> Iterator[Any]:
    """A proxy before the S3 server that counts requests and can be told to fail; no test shares it."""
    from support.faulty_proxy import proxy_to

    with proxy_to(s3_server.port) as proxy:
        yield proxy


@pytest.fixture
def s3_options(s3: Any, s3_server: Any) -> dict[str, str]:
    """The storage options that lead to the S3 server by way of the proxy."""
    return {**s3_server.options(s3.port), "max_retries": "4"}


@pytest.fixture
def s3_root(s3_server: Any) -> str:
    """A place in the S3 server where nothing is yet."""
    return f"s3://bucket/{uuid.uuid4().hex}"


@pytest.fixture
def outside_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables of the test may name files outside of their roots, as shallow clones do."""
    monkeypatch.setenv("TAILBIT_ALLOW_OUTSIDE", "true")


@pytest.fixture
def table_path(tmp_path: Path) -> str:
    """The path of a table that does not exist yet."""
    return str(tmp_path / "table")


@pytest.fixture(scope="session")
def feature_table(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A table of every type and feature, with an index; nobody changes it."""
    from support.every_feature import every_feature

    path = str(tmp_path_factory.mktemp("a folder ä+#") / "table")
    every_feature(path)
    return path
