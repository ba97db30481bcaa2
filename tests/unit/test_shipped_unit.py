"""The shipped systemd units give an indexer places that it may write to, and are not restarted in vain."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from support.forked import command
from tailbit.errors import UnusableStorageError
from tailbit.streaming.query.launch import make_checkpoint_folder
from tailbit.streaming.settings import own_state
from tailbit.streaming.watch.watchdog import STALL_S, STALLS, START_S

if TYPE_CHECKING:
    from support.s3_server import Server

SYSTEMD = Path(__file__).parents[2] / "deploy" / "systemd"
UNITS = ("tailbit@.service", "tailbit.service")


@pytest.fixture(params=UNITS)
def unit(request: pytest.FixtureRequest) -> Path:
    """Of one table, and of a configuration."""
    return SYSTEMD / str(request.param)


def settings(unit: Path) -> dict[str, str]:
    lines = unit.read_text(encoding="utf-8").splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))


def test_the_unit_has_a_state_of_its_own_a_memory_limit_and_no_restart_of_a_configuration(
    unit: Path,
) -> None:
    values = settings(unit)
    assert values["StateDirectory"] == ("tailbit/%i" if "@" in unit.name else "tailbit")
    assert "78" in values["RestartPreventExitStatus"].split()
    assert "75" not in values["RestartPreventExitStatus"].split()
    assert values["Restart"] == "always"
    assert int(values["RestartMaxDelaySec"]) > int(values["RestartSec"])
    assert "MemoryMax" in values


def test_systemd_waits_for_signs_of_life_longer_than_the_run_does_and_a_start_may_take_its_time(
    unit: Path,
) -> None:
    values = settings(unit)
    assert values["Type"] == "notify"
    assert values["NotifyAccess"] == "main"
    assert int(values["WatchdogSec"]) >= STALLS * STALL_S
    assert int(values["TimeoutStartSec"]) > START_S


def test_the_unit_keeps_its_sandbox(unit: Path) -> None:
    values = settings(unit)
    assert values["ProtectSystem"] == "strict"
    for key in ("NoNewPrivileges", "ProtectHome", "PrivateTmp", "ProtectKernelTunables", "RestrictSUIDSGID"):
        assert values[key] == "true"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_itself_finds_no_fault_in_the_unit(unit: Path) -> None:
    done = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True, check=False)
    faults = [line for line in done.stderr.splitlines() if unit.name in line]
    # Known from systemd 254 on; older ones say that they go without.
    newer = ("RestartSteps", "RestartMaxDelaySec", "/opt/tailbit/bin/tailbit is not executable")
    assert [line for line in faults if not any(key in line for key in newer)] == []


def test_a_reload_of_the_unit_of_a_configuration_is_a_sighup() -> None:
    values = settings(SYSTEMD / "tailbit.service")
    assert values["ExecReload"] == "/bin/kill -HUP $MAINPID"
    assert values["ExecStart"].endswith("tailbit run --config /etc/tailbit/tailbit.toml")


def test_progress_is_kept_in_the_state_directory_that_systemd_gives() -> None:
    home = {"HOME": "/nowhere", "XDG_CACHE_HOME": "/cache"}
    assert own_state(home | {"STATE_DIRECTORY": "/var/lib/tailbit/orders:/other"}) == Path(
        "/var/lib/tailbit/orders"
    )
    assert own_state(home) == Path("/cache/tailbit")


def test_a_checkpoint_that_cannot_be_made_is_a_configuration_and_the_error_names_the_option() -> None:
    with pytest.raises(UnusableStorageError, match="cannot be made") as refused:
        make_checkpoint_folder("/proc/1/home-of-tailbit/checkpoints")
    assert not refused.value.retryable
    assert "--checkpoint" in refused.value.hint


def ran(table: str, *options: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """The command, which ends before it starts Spark, with these variables and none of systemd's."""
    environment = {name: value for name, value in os.environ.items() if name != "STATE_DIRECTORY"}
    return command("run", table, "--columns", "c", "--once", *options, env=environment | variables)


def test_a_checkpoint_of_a_table_on_disk_that_cannot_be_made_ends_the_run_with_78(tmp_path: Path) -> None:
    table = str(tmp_path / "t")
    write_deltalake(table, pa.table({"c": ["a", "b"]}))
    (tmp_path / "file").touch()
    for checkpoint in ("/proc/1/home-of-tailbit", str(tmp_path / "file"), str(tmp_path / "file" / "below")):
        done = ran(table, "--checkpoint", checkpoint)
        assert done.returncode == 78, done.stderr
        assert done.stderr.startswith(f"UnusableStorageError: storage at {checkpoint}: the Spark checkpoint")
        assert "--checkpoint PATH" in done.stderr


def test_a_checkpoint_of_a_configuration_that_cannot_be_made_ends_the_run_with_78(tmp_path: Path) -> None:
    write_deltalake(str(tmp_path / "t"), pa.table({"c": ["a", "b"]}))
    file = tmp_path / "tailbit.toml"
    application = '[application]\nmetrics = "off"\ncheckpoint = "/proc/1/home-of-tailbit"\n'
    file.write_text(f'{application}[[table]]\npath = "t"\ncolumns = ["c"]\n')
    done = command("run", "--config", file)
    assert done.returncode == 78, done.stderr
    assert "UnusableStorageError: storage at /proc/1/home-of-tailbit: the Spark checkpoint" in done.stderr
    assert "`checkpoint` of a configuration" in done.stderr
    assert "starting Spark" not in done.stderr


def test_a_folder_that_is_not_writable_is_no_place_for_a_checkpoint() -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o555)
        done = subprocess.run(
            [sys.executable, "-c", _AS_NOBODY, folder], capture_output=True, text=True, check=False
        )
        os.chmod(folder, 0o755)
    assert "UnusableStorageError" in done.stderr
    assert "Permission denied" in done.stderr


_AS_NOBODY = """
import os, sys
from tailbit.streaming.query.launch import make_checkpoint_folder
if os.geteuid() == 0:
    os.setuid(65534)
make_checkpoint_folder(sys.argv[1])
"""


def test_a_table_in_a_store_needs_a_home_or_a_state_directory(
    tmp_path: Path, s3_root: str, s3_server: Server
) -> None:
    write_deltalake(s3_root, pa.table({"c": ["a", "b"]}), storage_options=s3_server.options())
    home = {"HOME": "/proc/1/home-of-tailbit", "XDG_CACHE_HOME": ""}
    done = ran(s3_root, **home, **s3_server.options())
    assert done.returncode == 78, done.stderr
    assert done.stderr.startswith(
        f"UnusableStorageError: storage at {home['HOME']}/.cache/tailbit/checkpoints/"
    )
    assert "StateDirectory=" in done.stderr
    # Nobody answers at this master: it is asked after the checkpoint was made.
    state, nobody = tmp_path / "state", ("--master", "spark://127.0.0.1:1", "--stall-limit", "off")
    with subprocess.Popen(
        [sys.executable, "-m", "tailbit", "run", s3_root, "--columns", "c", *nobody],
        env=os.environ | home | s3_server.options() | {"STATE_DIRECTORY": str(state)},
        stderr=subprocess.PIPE,
        text=True,
    ) as run:
        assert run.stderr is not None
        said = run.stderr.readline()
        run.terminate()
    assert "spark://127.0.0.1:1" in said
    assert run.returncode == 0
    assert len(list((state / "checkpoints").iterdir())) == 1


def test_a_checkpoint_in_a_store_is_left_to_spark(tmp_path: Path) -> None:
    make_checkpoint_folder("s3a://bucket/checkpoint")
    make_checkpoint_folder(str(tmp_path / "a" / "b"))
    assert (tmp_path / "a" / "b").is_dir()
