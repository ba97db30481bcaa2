"""Freed memory goes back to the system."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tailbit.streaming import memory
from tailbit.streaming.memory import EVERY_S, Freed

POOL = "ARROW_DEFAULT_MEMORY_POOL"
UNCHOSEN = {name: value for name, value in os.environ.items() if name != POOL}

_CHILD = """
import ctypes, psutil
from tailbit.streaming.memory import FREED, take_from_the_system
take_from_the_system()
keep, pieces = [], []
for _ in range(2000):
    pieces.append(ctypes.create_string_buffer(100_000))
    keep.append(ctypes.create_string_buffer(100))
held = psutil.Process().memory_info().rss
del pieces
assert FREED.give_back()
print(held - psutil.Process().memory_info().rss)
"""


def run(code: str, environment: dict[str, str]) -> list[str]:
    """What a process prints. It works elsewhere: the checkout has a folder of the package's name."""
    command = [sys.executable, "-c", code]
    return subprocess.check_output(
        command, env=environment, text=True, cwd=Path(sys.executable).parent
    ).split()


@pytest.mark.skipif(sys.platform != "linux", reason="glibc alone has to be asked")
def test_memory_freed_in_small_pieces_goes_back_to_the_system() -> None:
    [freed] = run(_CHILD, UNCHOSEN)
    assert int(freed) > 100_000_000


_THREADS = """
import ctypes, threading
from tailbit.streaming.memory import take_from_the_system
take_from_the_system()
malloc = ctypes.CDLL(None).malloc
malloc.restype = ctypes.c_void_p
ready = threading.Barrier(13)
def allocate():
    kept.append(malloc(1000))
    ready.wait()
    ready.wait()
kept = []
for _ in range(12):
    threading.Thread(target=allocate).start()
ready.wait()
# The first pages of an arena tell its heap: 64 MiB, aligned (glibc, HEAP_MAX_SIZE).
# That of the first arena is not.
print(len({each >> 26 if each >> 40 == 0x7F else 0 for each in kept}))
ready.wait()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="glibc alone has arenas")
@pytest.mark.parametrize("chosen", [None, "8"])
def test_threads_share_two_arenas_unless_somebody_has_chosen(chosen: str | None) -> None:
    environment = {name: value for name, value in UNCHOSEN.items() if name != "MALLOC_ARENA_MAX"}
    [arenas] = run(_THREADS, environment | ({} if chosen is None else {"MALLOC_ARENA_MAX": chosen}))
    assert (int(arenas) > 2) == (chosen is not None)


def test_memory_is_given_back_at_most_every_two_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(memory, "time", SimpleNamespace(monotonic=lambda: now[0]))
    freed = Freed()
    assert freed.give_back()
    assert not freed.give_back()
    assert freed.give_back(at_once=True)
    assert not freed.give_back()
    now[0] += EVERY_S
    assert freed.give_back()


@pytest.mark.parametrize(("chosen", "used"), [(None, "system"), ("mimalloc", "mimalloc")])
def test_arrow_takes_memory_from_the_system_unless_somebody_has_chosen(chosen: str | None, used: str) -> None:
    environment = UNCHOSEN | ({} if chosen is None else {POOL: chosen})
    child = "import pyarrow as pa; print(pa.default_memory_pool().backend_name)"
    code = (
        "import subprocess, sys, pyarrow as pa\n"
        "from tailbit.streaming.memory import take_from_the_system\n"
        "take_from_the_system()\n"
        "print(pa.default_memory_pool().backend_name, flush=True)\n"
        f"subprocess.run([sys.executable, '-c', {child!r}], check=True)"
    )
    assert run(code, environment) == [used, used]


@pytest.mark.parametrize("of", [["/no/such/table", "--columns", "a"], ["--config", "/no/such/file.toml"]])
def test_the_command_chooses_before_arrow_is_imported(of: list[str]) -> None:
    # Arrow chooses once what it takes for itself: it kept 24 MB of a merge.
    code = (
        "import os, sys\n"
        "class Told:\n"
        "    def find_spec(self, name, *rest):\n"
        "        if name in ('pyarrow', 'deltalake'):\n"
        f"            print(name, os.environ.get('{POOL}'), '_RJEM_MALLOC_CONF' in os.environ)\n"
        "sys.meta_path.insert(0, Told())\n"
        "from tailbit.cli.main import main\n"
        f"sys.argv = ['tailbit', 'run', *{of!r}]\n"
        "main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=UNCHOSEN,
        capture_output=True,
        text=True,
        cwd=Path(sys.executable).parent,
        check=False,
    )
    assert done.returncode != 0
    assert done.stdout.splitlines() == ["pyarrow system True"]


def test_delta_rs_is_told_to_keep_no_free_memory_before_it_is_imported() -> None:
    code = (
        "import os, sys\n"
        "import tailbit.streaming.job\n"
        "from tailbit.streaming.memory import take_from_the_system\n"
        "take_from_the_system()\n"
        "print('deltalake' in sys.modules, os.environ['_RJEM_MALLOC_CONF'])"
    )
    imported, told = run(code, UNCHOSEN)
    assert imported == "False"
    options = [option.partition(":") for option in told.split(",")]
    assert all(known_to_delta_rs(name, value) for name, _, value in options)
    assert not known_to_delta_rs("no_such_option", "1")


def known_to_delta_rs(option: str, value: str) -> bool:
    """Whether the allocator of delta-rs takes an option; it complains of what it does not know."""
    asked = UNCHOSEN | {"_RJEM_MALLOC_CONF": f"{option}:{value}"}
    ended = subprocess.run(
        [sys.executable, "-c", "import deltalake"],
        env=asked,
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(sys.executable).parent,
    )
    return "jemalloc" not in ended.stderr
