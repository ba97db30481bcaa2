"""What does an application with many idle tables take: CPU, memory, and requests of an object store?

`tailbit run --config` over small tables, each indexed and then left alone. Measured once looks at them have
become as rare as they do. CPU and memory (PSS) are those of the command and all that it started. With
`--object-store` the tables are in a real S3 server on this machine, behind a proxy that counts.

`settle`: seconds after the last table is indexed. A look comes after a tenth of the time since the last
commit, and every ten seconds at least: so 150. The first pass of upkeep of each table comes within ten
minutes, the next after three hours: so 700 for requests without one.

Usage: python workloads/idle_tables.py [tables] [seconds] [settle] [--object-store]. One line.
"""

from __future__ import annotations

import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack

import psutil
import pyarrow as pa
from deltalake import write_deltalake
from timing import tell

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests"))
from support.faulty_proxy import proxy_to
from support.s3_server import seaweed
from tailbit.streaming.config.read import read_config
from tailbit.streaming.many.states import lease_place, states_of

DAY_S = 86_400


def main() -> None:
    numbers = [int(word) for word in sys.argv[1:] if word.isdecimal()]
    tables, seconds, settle = (numbers + [200, 120, 150][len(numbers) :])[:3]
    with ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        root, options, proxy = str(folder), {}, None
        if "--object-store" in sys.argv:
            (folder / "s3").mkdir()
            server = stack.enter_context(seaweed(folder / "s3"))
            proxy = stack.enter_context(proxy_to(server.port))
            root, options = "s3://bucket", server.options(proxy.port)
        file = configuration(folder, root, options, tables)
        command = [sys.executable, "-m", "tailbit.cli", "run", "--config", str(file), "--quiet"]
        process = subprocess.Popen(command, start_new_session=True)
        try:
            measured(process, folder, tables, seconds, settle, proxy)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait()


def configuration(folder: pathlib.Path, root: str, options: dict[str, str], tables: int) -> pathlib.Path:
    """Write the tables, of one commit each, and the configuration of them."""
    lines = [f'[application]\ncheckpoint = "{folder}/checkpoint"\nlease = "{root}/lease"']
    lines += ["[defaults.storage_options]"]
    lines += [f'{name} = "{value}"' for name, value in options.items()]
    for number in range(tables):
        path = f"{root}/t{number}"
        rows = pa.table({"k": list(range(1000)), "v": [f"v{k % 7}" for k in range(1000)]})
        write_deltalake(path, rows, storage_options=options or None)
        lines.append(f'[[table]]\npath = "{path}"\ncolumns = ["v"]')
    file = folder / "tailbit.toml"
    file.write_text("\n".join(lines) + "\n")
    return file


def measured(process, folder: pathlib.Path, tables: int, seconds: int, settle: int, proxy) -> None:
    """Wait until every table is followed, and for `settle` seconds more, then measure for `seconds`."""
    began = time.monotonic()
    file = f"{folder}/tailbit.toml"
    place = lease_place(read_config(file).config, file)
    while sum(s["state"] == "following" for s in states_of(place).values()) < tables:
        if process.poll() is not None:
            raise SystemExit("the command has ended")
        time.sleep(0.5)
    ready = time.monotonic() - began
    time.sleep(settle)
    seen = 0 if proxy is None else len(proxy.seen)
    before, start = cpu_of(process), time.monotonic()
    time.sleep(seconds)
    passed = time.monotonic() - start
    used = cpu_of(process)
    pss = {name: sum(part) for name, part in pss_of(process).items()}
    line: dict[str, object] = {
        "tables": tables,
        "all indexed after s": round(ready, 1),
        "% of a core": round(100 * sum((used - before).values()) / passed, 1),
        "% by process": {n: round(100 * s / passed, 1) for n, s in (used - before).items() if s > 0.01},
        "PSS MB": round(sum(pss.values()) / 1e6),
        "PSS MB by process": {name: round(size / 1e6) for name, size in pss.items()},
    }
    if proxy is not None:
        requests = proxy.seen[seen:]
        line["requests a day and table"] = round(len(requests) * DAY_S / passed / tables)
        line["requests a day"] = round(len(requests) * DAY_S / passed)
        line["by what"] = dict(Counter(map(shape, requests)).most_common())
    tell(line)


def shape(request) -> str:
    """Return the method of a request, and its path without table, version and random names."""
    path = re.sub(r"^/bucket/(t\d+/)?", "", re.sub(r"[0-9a-f-]{30,}", "…", request.path))
    return f"{request.method} {re.sub(r'[0-9]{10,}', '…', path) or 'list'}"


def tree(process: subprocess.Popen) -> list[psutil.Process]:
    return [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]


def cpu_of(process: subprocess.Popen) -> Counter[str]:
    """Return the CPU seconds of the command's processes, by name."""
    used: Counter[str] = Counter()
    for one in tree(process):
        times = one.cpu_times()
        used[one.name() if one.pid != process.pid else "driver"] += times.user + times.system
    return used


def pss_of(process: subprocess.Popen) -> dict[str, list[int]]:
    """Return the proportional set sizes of the command's processes, by name."""
    sizes: dict[str, list[int]] = {}
    for one in tree(process):
        name = one.name() if one.pid != process.pid else "driver"
        sizes.setdefault(name, []).append(one.memory_full_info().pss)
    return sizes


if __name__ == "__main__":
    main()
