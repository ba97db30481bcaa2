"""The commands over a real S3 server that fails: for a moment, for good, for want of rights."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

pytest.importorskip("obstore", reason="obstore has no wheel for Python 3.10")

import tailbit
from support.drive import Drive
from support.faulty_proxy import Fault, Proxy, Request
from support.profiles import variants
from support.shipped import FAKETIME
from support.stored import on_disk, put_into
from tailbit.cli.main import cli
from tailbit.errors import StorageError, UnusableStorageError
from tailbit.streaming.settings import StreamSettings
from tailbit.tables.storage import StorageOptions

EVER = 10**6
"""More requests than any test makes."""

COMMANDS: Sequence[Sequence[str]] = (
    ("count", "v = 'v1'"),
    ("read", "v = 'v1'", "--format", "csv"),
    ("status", "--json"),
    ("verify",),
    ("compact",),
    ("alter", "--drop", "k"),
    ("vacuum", "--older-than", "0"),
    ("repair",),
)
"""What is asked, in this order."""


@pytest.fixture
def table(tmp_path: Path, s3_root: str, s3_options: dict[str, str]) -> str:
    """A table in the S3 server with an index of many small segments."""
    options = StorageOptions.of(s3_options)
    put_into(s3_root, options, on_disk(tmp_path / "written").path)
    settings = StreamSettings(files=1, poll_ms=0)
    Drive(s3_root, f"{s3_root}/_tailbit", ["k", "v"], settings, options=options).drain()
    return s3_root


def asked(table: str, options: dict[str, str], command: Sequence[str]) -> Result:
    given = [part for item in options.items() for part in ("--storage-option", "=".join(item))]
    return CliRunner().invoke(cli, [command[0], table, *command[1:], *given])


@pytest.mark.skipif(FAKETIME is None, reason="there is no library here that lets a clock go wrong")
def test_a_clock_that_differs_from_that_of_the_store_is_named_and_not_the_credentials(
    table: str, s3_options: dict[str, str]
) -> None:
    given = [part for item in s3_options.items() for part in ("--storage-option", "=".join(item))]
    done = subprocess.run(
        [sys.executable, "-m", "tailbit.cli", "count", table, *given],
        env=os.environ
        | {"LD_PRELOAD": str(FAKETIME), "FAKETIME": "+2h", "FAKETIME_DONT_FAKE_MONOTONIC": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (75, "")
    assert re.fullmatch(r"StorageError: .* the clock of this machine is not that .*\n  Set .*\n", done.stderr)


@pytest.mark.parametrize("fault", variants([Fault.REPLY_LOST, Fault.BUSY, Fault.CUT], 1))
def test_every_command_goes_on_where_each_ninth_request_fails(
    s3: Proxy, table: str, s3_options: dict[str, str], fault: Fault
) -> None:
    told: dict[bool, list[str]] = {}
    for failing in (True, False):
        told[failing] = []
        with s3.failing(fault, EVER if failing else 0, lambda request: len(s3.seen) % 9 == 0) as met:
            for command in COMMANDS[:4] if not failing else COMMANDS:
                done = asked(table, s3_options, command)
                assert done.exit_code == 0, (command, done.exception, done.output)
                told[failing].append(done.output)
        assert bool(met) == failing
    assert told[True][:2] == told[False][:2]
    opened = tailbit.open(table, storage_options=s3_options)
    assert opened.verify().sound
    assert list(opened.indexed().values()) == ["v"]


@pytest.mark.by_thirds
@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
@pytest.mark.parametrize("fault", variants([Fault.BUSY, Fault.DENIED], 1))
def test_every_command_over_a_store_that_fails_from_some_request_on_ends_by_name(
    s3: Proxy, table: str, s3_options: dict[str, str], command: Sequence[str], fault: Fault
) -> None:
    options = {**s3_options, "max_retries": "0"}
    kind = UnusableStorageError if fault is Fault.DENIED else StorageError
    after = 1
    while True:
        mark = len(s3.seen) + after

        def late(request: Request, mark: int = mark) -> bool:
            return len(s3.seen) > mark

        with s3.failing(fault, EVER, late) as met:
            done = asked(table, options, command)
        if not met:
            break
        error = done.exception
        assert isinstance(error, (StorageError, SystemExit, type(None))), (after, error, done.output)
        if isinstance(error, StorageError):
            assert isinstance(error, kind), (after, error)
            assert len(error.describe().splitlines()) == 2
            assert error.retryable == (kind is StorageError)
        after *= 2
    assert after > 4
    assert tailbit.open(table, storage_options=s3_options).verify().sound
