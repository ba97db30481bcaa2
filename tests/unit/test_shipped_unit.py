"""The shipped systemd unit gives an indexer places that it may write to, and is not restarted in vain."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tailbit.errors import UnusableStorageError
from tailbit.streaming.life.service_manager import STALLS, START_S
from tailbit.streaming.life.watchdog import STALL_S
from tailbit.streaming.query.launch import _can_be_made
from tailbit.streaming.user_cache import own_state

UNIT = Path(__file__).parents[2] / "deploy" / "systemd" / "tailbit@.service"


def settings() -> dict[str, str]:
    """The settings of the unit."""
    lines = UNIT.read_text(encoding="utf-8").splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))


def test_the_unit_has_state_and_cache_of_its_own_a_memory_limit_and_no_restart_of_a_configuration() -> None:
    values = settings()
    assert values["StateDirectory"] == "tailbit/%i"
    assert values["CacheDirectory"] == "tailbit"
    assert "78" in values["RestartPreventExitStatus"].split()
    assert "75" not in values["RestartPreventExitStatus"].split()
    assert values["Restart"] == "always"
    assert int(values["RestartMaxDelaySec"]) > int(values["RestartSec"])
    assert "MemoryMax" in values


def test_systemd_waits_for_signs_of_life_longer_than_the_run_does_and_a_start_may_take_its_time() -> None:
    values = settings()
    assert values["Type"] == "notify"
    assert values["NotifyAccess"] == "main"
    assert int(values["WatchdogSec"]) >= STALLS * STALL_S
    assert int(values["TimeoutStartSec"]) > START_S


def test_the_unit_keeps_its_sandbox() -> None:
    values = settings()
    assert values["ProtectSystem"] == "strict"
    for key in ("NoNewPrivileges", "ProtectHome", "PrivateTmp", "ProtectKernelTunables", "RestrictSUIDSGID"):
        assert values[key] == "true"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_itself_finds_no_fault_in_the_unit() -> None:
    done = subprocess.run(["systemd-analyze", "verify", UNIT], capture_output=True, text=True, check=False)
    faults = [line for line in done.stderr.splitlines() if UNIT.name in line]
    # Known from systemd 254 on; older ones say that they go without.
    newer = ("RestartSteps", "RestartMaxDelaySec")
    assert [line for line in faults if not any(key in line for key in newer)] == []


def test_progress_is_kept_in_the_state_directory_that_systemd_gives() -> None:
    home = {"HOME": "/nowhere", "XDG_CACHE_HOME": "/cache"}
    assert own_state(home | {"STATE_DIRECTORY": "/var/lib/tailbit/orders:/other"}) == Path(
        "/var/lib/tailbit/orders"
    )
    assert own_state(home) == Path("/cache/tailbit")


def test_a_checkpoint_that_cannot_be_made_is_a_configuration_and_the_error_names_the_option() -> None:
    with pytest.raises(UnusableStorageError, match="cannot be made") as refused:
        _can_be_made("/proc/1/home-of-tailbit/checkpoints")
    assert not refused.value.retryable
    assert "--checkpoint" in refused.value.hint


def test_a_checkpoint_in_a_store_is_left_to_spark(tmp_path: Path) -> None:
    _can_be_made("s3a://bucket/checkpoint")
    _can_be_made(str(tmp_path / "a" / "b"))
    assert (tmp_path / "a" / "b").is_dir()
