"""`tailbit run --config` on real Spark: tables followed at once, one that fails, kill and restart, SIGHUP."""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import signal
import socket
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import tailbit
from support.application import Application
from support.forked import command
from support.shipped import covered
from support.tables import rows, three_commits
from support.waiting import HANG_S, wait_until
from tailbit.cli.config_status import live_accounts

pytestmark = pytest.mark.spark

SOURCES = "org.apache.spark.sql.sources.DataSourceRegister"
"""The class of which jars name the data sources that they hold."""

NAMES = ("orders", "returns", "visits")


@pytest.fixture
def application(tmp_path: Path) -> Iterator[Application]:
    """Three tables of three commits each, and nothing started yet."""
    made = Application.of_three_commits(tmp_path, *NAMES)
    yield made
    made.end_of_test()


def documented_metrics() -> set[str]:
    page = Path(__file__).parents[2].joinpath("docs/operations.md").read_text(encoding="utf-8")
    return set(re.findall(r"`(tailbit_\w+)`", page))


def append(table: str, first: int = 1000) -> None:
    write_deltalake(table, rows(first, 10), mode="append")


def sound(*tables: str) -> None:
    """Each index is sound and answers from bitmaps alone what DuckDB or the data say."""
    for table in tables:
        opened = tailbit.open(table)
        assert opened.verify(samples=50).sound
        answer = opened.where("v = 'v1'")
        values = DeltaTable(table).to_pyarrow_table(columns=["v"])["v"].to_pylist()
        assert answer.count() == values.count("v1")
        assert answer.files_scanned == 0


def test_three_tables_are_followed_by_one_application_that_drains_on_sigterm(
    application: Application,
) -> None:
    tables = [application.table(name) for name in NAMES]
    application.start()
    application.wait_for_head(*NAMES)
    for table in tables:
        append(table)
    application.wait_for_head(*NAMES)
    wait_until(lambda: application.page("readyz") == "ready\n", application.death)
    assert application.page("livez") == "alive\n"
    series = application.page("metrics")
    exported = set(re.findall(r"^(tailbit_\w+)", series, re.M))
    of_builds = {name for name in documented_metrics() if name.startswith("tailbit_table_build_")}
    assert exported | of_builds == documented_metrics()
    assert not exported & of_builds, "no build is at work"
    assert 'tailbit_table_state{state="following",table="orders"} 1.0' in series
    assert re.search(r'^tailbit_table_rows_total{table="visits"} [1-9]', series, re.M)
    assert {table["id"] for table in json.loads(application.page("status.json"))["tables"]} == set(NAMES)
    assert application.end() == 0, application.said.read_text()
    sound(*tables)


def test_one_table_that_cannot_be_indexed_is_its_own_state_and_the_others_go_on(
    application: Application,
) -> None:
    application.start()
    application.wait_for_head(*NAMES)
    log = Path(application.table("returns"), "_delta_log", f"{3:020}.json")
    log.write_text('{"protocol": {"minReaderVersion": 99, "minWriterVersion": 99}}')
    application.wait_for_state("returns", "refused")
    append(application.table("orders"))
    application.wait_for_head("orders")
    shutil.move(application.table("visits"), application.folder / "away")
    application.wait_for_state("visits", "waiting")
    assert "visits: waiting: NoIndexError" not in application.said.read_text()
    append(application.table("orders"), 2000)
    application.wait_for_head("orders")
    shutil.rmtree(application.table("visits"), ignore_errors=True)
    shutil.move(application.folder / "away", application.table("visits"))
    append(application.table("visits"))
    application.wait_for_head("visits")
    log.unlink()
    append(application.table("returns"))
    assert application.process is not None
    application.process.send_signal(signal.SIGHUP)
    application.wait_for_head("returns")
    assert application.end() == 0, application.said.read_text()
    sound(*map(application.table, NAMES))


def test_a_killed_application_goes_on_where_the_ledgers_are(application: Application) -> None:
    application.start()
    application.wait_for_head("orders")
    application.kill()
    for name in NAMES:
        append(application.table(name))
    application.start()
    application.wait_for_head(*NAMES)
    application.kill()
    shutil.rmtree(application.folder / "checkpoint")
    append(application.table("orders"), 2000)
    application.start()
    application.wait_for_head(*NAMES)
    assert application.end() == 0, application.said.read_text()
    sound(*map(application.table, NAMES))


def test_sighup_adds_changes_and_removes_tables_and_a_bad_file_keeps_the_old_one(
    application: Application,
) -> None:
    application.configure("orders", "returns")
    application.start()
    application.wait_for_head("orders", "returns")
    assert application.process is not None

    def reload(said: str) -> None:
        assert application.process is not None
        application.process.send_signal(signal.SIGHUP)
        wait_until(lambda: said in application.said.read_text(), application.death)

    application.configure("orders", "nothing", orders='colour = "red"')
    reload("there is no key colour")
    append(application.table("returns"))
    application.wait_for_head("returns")
    application.configure("orders", "visits", orders='max_lag = "1s"')
    reload("added visits; changed orders; removed returns")
    application.wait_for_head("visits")
    append(application.table("returns"), 2000)
    append(application.table("orders"))
    application.wait_for_head("orders")
    assert covered(application.table("returns")) == 3
    assert application.end() == 0, application.said.read_text()
    sound(application.table("orders"), application.table("visits"))


def test_a_wrong_configuration_ends_with_78_and_starts_nothing(application: Application) -> None:
    application.configure("orders", "returns", returns='index = "orders/_tailbit"')
    application.start()
    assert application.process is not None
    assert application.process.wait(HANG_S) == 78
    assert "tailbit.toml:" in application.said.read_text()
    assert not Path(application.table("orders"), "_tailbit").exists()


def test_a_jar_that_cannot_be_loaded_ends_with_78_and_what_java_says(application: Application) -> None:
    three_commits(application.table("orders"))
    jar = application.folder / "of-another-spark.jar"
    with zipfile.ZipFile(jar, "w") as sources:
        sources.writestr(f"META-INF/services/{SOURCES}", "example.Missing\n")
    application.configure("orders", more=f'[application.spark]\n"spark.jars" = "{jar}"')
    application.start()
    wait_until(lambda: application.death() or application.state("orders") == "following")
    assert application.process is not None
    said = application.said.read_text()
    assert application.process.poll() == 78, said
    assert "RequirementError: Spark cannot load the data sources of its jars: " in said
    assert "example.Missing" in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    "setting",
    [
        '"spark.driver.port" = "no number"',
        '"spark.sql.streaming.checkpointFileManagerClass" = "org.example.Missing"',
    ],
)
def test_a_spark_that_does_not_start_is_named_and_tried_again_by_the_supervisor(
    application: Application, setting: str
) -> None:
    application.configure("orders", more=f"[application.spark]\n{setting}")
    application.start()
    assert application.process is not None
    assert application.process.wait(HANG_S) == 75
    said = application.said.read_text()
    assert "StreamError: " in said
    assert "Java process is gone" not in said
    assert "Traceback" not in said


def one_at_work_and_one_standing_by(application: Application, standby: Application) -> None:
    application.start()
    application.wait_for_head(*NAMES)
    standby.start()
    standby.wait_for_words("standing by")


def test_a_second_application_takes_over_when_the_first_is_killed_and_when_it_is_stopped(
    application: Application, standby: Application
) -> None:
    one_at_work_and_one_standing_by(application, standby)
    application.kill()
    append(application.table("orders"))
    standby.wait_for_words("taken over from")
    standby.wait_for_head(*NAMES)
    application.start()
    application.wait_for_words("standing by")
    append(application.table("returns"))
    standby.wait_for_head(*NAMES)
    assert standby.end() == 0
    append(application.table("visits"))
    application.wait_for_words("taken over from")
    application.wait_for_head(*NAMES)
    assert application.end() == 0, application.said.read_text()
    sound(*map(application.table, NAMES))


def test_a_configuration_that_changed_holds_for_the_application_that_takes_over(
    application: Application, standby: Application
) -> None:
    one_at_work_and_one_standing_by(application, standby)
    application.configure("orders", "visits", orders='id = "sales"')
    assert application.end() == 0, application.said.read_text()
    append(application.table("orders"))
    append(application.table("returns"))
    standby.wait_for_words("taken over from", "sales: covered v3 of v3")
    standby.wait_for_head("orders", "visits")
    assert covered(application.table("returns")) == 2
    assert standby.end() == 0


def test_an_application_that_was_taken_over_while_it_slept_stands_by_and_nothing_is_lost_or_twice(
    application: Application, standby: Application
) -> None:
    one_at_work_and_one_standing_by(application, standby)
    assert application.process is not None
    application.process.send_signal(signal.SIGSTOP)
    append(application.table("orders"))
    standby.wait_for_words("taken over from")
    standby.wait_for_head(*NAMES)
    application.process.send_signal(signal.SIGCONT)
    append(application.table("returns"))
    application.wait_for_words("another application has taken over", "standing by")
    standby.wait_for_head(*NAMES)
    standby.kill()
    application.wait_for_words("taken over from")
    append(application.table("orders"), 2000)
    application.wait_for_head(*NAMES)
    assert application.end() == 0, application.said.read_text()
    sound(*map(application.table, NAMES))


def test_pages_are_served_by_the_one_at_work_after_it_took_over_from_one_that_sleeps(
    application: Application, standby: Application
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        metrics = f"127.0.0.1:{free.getsockname()[1]}"
    application.file.write_text(application.file.read_text().replace("127.0.0.1:0", metrics))
    one_at_work_and_one_standing_by(application, standby)
    lease = f"{application.folder}/checkpoint"
    assert not json.loads(standby.page("status.json"))["leading"]
    assert application.process is not None
    application.process.send_signal(signal.SIGSTOP)
    standby.wait_for_words("taken over from")
    wait_until(lambda: live_accounts(metrics, lease) is not None, standby.death)
    assert "tailbit_leading 1.0" in standby.page("metrics")
    application.process.send_signal(signal.SIGKILL)
    wait_until(lambda: standby.url() == f"http://{metrics}", standby.death)
    assert "tailbit_leading 1.0" in standby.page("metrics")
    assert standby.end() == 0


LIMIT = 150_000
"""Bytes of a file that can be written: enough for all but the postings of many values."""


def test_a_table_without_room_for_its_next_commit_stays_retrying_with_its_true_lag_until_there_is_room(
    application: Application,
) -> None:
    application.configure(*NAMES, orders='max_lag = "1s"')
    application.start()
    application.wait_for_head(*NAMES)
    assert application.process is not None
    before = resource.prlimit(application.process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(application.process.pid, resource.RLIMIT_FSIZE, (LIMIT, before[1]))
    many = pa.table(
        {"k": pa.array(range(40_000), pa.int64()), "v": [os.urandom(20).hex() for _ in range(40_000)]}
    )
    write_deltalake(application.table("orders"), many, mode="append")

    def account() -> dict[str, Any]:
        told = json.loads(application.page("status.json"))["tables"]
        return next(table for table in told if table["id"] == "orders")

    wait_until(lambda: account()["failures"] >= 4, application.death)
    for _ in range(20):
        seen = account()
        assert seen["state"] == "retrying", application.said.read_text()
        assert seen["lag"]["versions"] == 1
    assert seen["lag"]["seconds"] > seen["max_lag"]
    series = application.page("metrics")
    assert 'tailbit_table_state{state="retrying",table="orders"} 1.0' in series
    (lag,) = re.findall(r'^tailbit_table_lag_seconds{table="orders"} (\S+)', series, re.M)
    assert float(lag) > 1.0
    told = status(application)["orders"]
    assert not told["within_max_lag"]
    assert told["application"]["state"] == "retrying"
    append(application.table("visits"))
    application.wait_for_head("visits")
    assert application.said.read_text().count("orders: following, after retrying") == 0
    resource.prlimit(application.process.pid, resource.RLIMIT_FSIZE, before)
    application.wait_for_head("orders")
    application.wait_for_state("orders", "following")
    assert application.end() == 0, application.said.read_text()
    sound(application.table("orders"))


def test_the_newest_job_in_the_spark_ui_says_up_to_date_once_the_tables_are(
    application: Application,
) -> None:
    application.file.write_text(application.file.read_text().replace("ui = false", "ui = true"))
    application.start()
    application.wait_for_head(*NAMES)
    (ui,) = re.findall(r"Spark UI: (http://\S+)", application.said.read_text())

    def newest() -> str:
        with urlopen(f"{ui}/api/v1/applications", timeout=HANG_S) as answer:
            base = f"{ui}/api/v1/applications/{json.load(answer)[0]['id']}"
        with urlopen(f"{base}/jobs", timeout=HANG_S) as answer:
            return str(json.load(answer)[0].get("description"))

    for first in (1000, 2000):
        append(application.table("orders"), first)
        append(application.table("visits"), first)
        application.wait_for_head(*NAMES)
        wait_until(lambda: newest().endswith("up to date"), application.death)
    assert application.end() == 0, application.said.read_text()


def test_a_column_that_was_dropped_from_one_table_keeps_no_other_from_a_reload(
    application: Application,
) -> None:
    application.configure("orders", "returns")
    application.start()
    application.wait_for_head("orders", "returns")
    without = DeltaTable(application.table("orders")).to_pyarrow_table().drop_columns(["v"])
    write_deltalake(application.table("orders"), without, mode="overwrite", schema_mode="overwrite")
    application.wait_for_head("orders")
    application.configure("orders", "returns", "visits", returns='max_lag = "7s"')
    assert application.process is not None
    application.process.send_signal(signal.SIGHUP)
    application.wait_for_words("no column v in the table", "added visits; changed returns")
    application.wait_for_head("orders", "returns", "visits")
    assert application.end() == 0, application.said.read_text()


def pipe_as_commit(application: Application, name: str) -> Path:
    """Let the next commit of a table be a pipe: to read it never ends, as nobody writes to it."""
    version = DeltaTable(application.table(name)).version() + 1
    log, pipe = (
        Path(application.table(name), "_delta_log", f"{version:020}.json"),
        application.folder / "pipe",
    )
    os.mkfifo(pipe)
    os.link(pipe, log)
    return log


def status(application: Application) -> dict[str, dict[str, Any]]:
    """What `tailbit status --config` says of each table."""
    told = command("status", "--config", application.file, "--json").stdout.splitlines()
    return {account["id"]: account for account in map(json.loads, told)}


def test_a_table_whose_store_never_answers_is_stuck_and_holds_up_no_other(application: Application) -> None:
    application.configure(*NAMES, more='threads = 1\n[defaults]\nstuck_after = "3s"')
    application.start()
    application.wait_for_head(*NAMES)
    log = pipe_as_commit(application, "returns")
    for first in (1000, 2000):
        append(application.table("orders"), first)
        application.wait_for_head("orders")
    application.wait_for_state("returns", "stuck")
    append(application.table("visits"))
    application.wait_for_head("orders", "visits")
    assert "returns: stuck: no sign of life for" in application.said.read_text()
    told = status(application)
    assert told["returns"]["application"]["state"] == "stuck"
    assert "no answer" in told["returns"]["error"]
    assert told["orders"]["within_max_lag"]
    log.unlink()
    append(application.table("returns"))
    (application.folder / "pipe").open("wb").close()
    application.wait_for_head("returns")
    application.wait_for_state("returns", "following")
    (application.folder / "pipe").unlink()
    pipe_as_commit(application, "returns")
    application.wait_for_state("returns", "stuck")
    assert application.end() == 0, application.said.read_text()
    sound(application.table("orders"), application.table("visits"))
