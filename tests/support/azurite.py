"""A real Azure Blob server on loopback: Azurite, which Microsoft keeps for this; it keeps all in memory.

`make test` installs it where npm is; it needs Node.
"""

from __future__ import annotations

import base64
import datetime
import hashlib
import hmac
import http.client
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from email.utils import format_datetime
from pathlib import Path

from support.s3_server import await_answer, free_ports, program, running

ACCOUNT = "testaccount"
KEY = base64.b64encode(b"the key of the tests, of an account of the tests").decode()
CONTAINER = "container"


@dataclass(frozen=True)
class Azurite:
    """An Azure Blob server at a port of this machine, with one account and one container."""

    port: int

    def options(self, port: int | None = None) -> dict[str, str]:
        """The storage options of this server, by way of another port of this machine where one is given."""
        return {
            "AZURE_STORAGE_ACCOUNT_NAME": ACCOUNT,
            "AZURE_STORAGE_ACCOUNT_KEY": KEY,
            "AZURE_STORAGE_ENDPOINT": f"http://127.0.0.1:{port or self.port}/{ACCOUNT}",
            "AZURE_ALLOW_HTTP": "true",
        }


def azurite() -> str | None:
    """The program, where it is installed."""
    installed = Path(sys.prefix, "azurite", "node_modules", ".bin", "azurite-blob")
    return str(installed) if installed.exists() else program("azurite-blob")


@contextmanager
def serving(folder: Path) -> Iterator[Azurite]:
    """Azurite with an empty container; it ends with the context."""
    found = azurite()
    assert found is not None, "npm install azurite"
    [port] = free_ports(1)
    command = [
        *(found, "--inMemoryPersistence", "--silent", "--skipApiVersionCheck", "--disableTelemetry"),
        *("--blobHost", "127.0.0.1", "--blobPort", str(port)),
    ]
    with running(command, folder / "azurite.log", {"AZURITE_ACCOUNTS": f"{ACCOUNT}:{KEY}"}) as process:
        await_answer(port, process, folder / "azurite.log")
        _make_container(port)
        yield Azurite(port)


def _make_container(port: int) -> None:
    """Create the container: no library of the project's does, so the request is signed here.

    Source: learn.microsoft.com/rest/api/storageservices/authorize-with-shared-key.
    """
    now = format_datetime(datetime.datetime.now(datetime.timezone.utc), usegmt=True)
    headers = {"x-ms-date": now, "x-ms-version": "2021-12-02"}
    signed = "".join(f"{name}:{value}\n" for name, value in headers.items())
    resource = f"/{ACCOUNT}/{ACCOUNT}/{CONTAINER}\nrestype:container"
    text = "PUT" + "\n" * 12 + signed + resource
    signature = hmac.new(base64.b64decode(KEY), text.encode(), hashlib.sha256).digest()
    headers["Authorization"] = f"SharedKey {ACCOUNT}:{base64.b64encode(signature).decode()}"
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=30)) as server:
        server.request("PUT", f"/{ACCOUNT}/{CONTAINER}?restype=container", headers=headers)
        made = server.getresponse()
        assert made.status == 201, made.read()
