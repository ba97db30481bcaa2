"""Messages to systemd, which starts, watches and restarts a run: ready, alive, status, stopping.

Datagrams with assignments, sent to the socket that the environment names. Source: sd_notify(3).
"""

from __future__ import annotations

import os
import socket
from collections.abc import MutableMapping
from contextlib import suppress

from tailbit.base.wording import visible

SOCKET, WATCHDOG_US, WATCHDOG_PID = "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"
"""Environment variables that systemd sets for a service with `Type=notify`."""

START_S = 120
"""Seconds by which each sign of life extends the time for a start, however long the start has taken."""

STALLS = 3
"""Stall limits that systemd waits at least for a sign of life, so that the run's own watchdog acts first."""

_SEND_S = 1.0
_STATUS_CHARACTERS = 500
"""Most characters of a status: systemd drops a message of more than 4,096 bytes."""


class ServiceManager:
    """The systemd that started this process.

    A message that cannot be delivered is dropped, but READY=1 is sent again with the next sign of life. Cost:
    one datagram per message; a full socket delays the sender for a second at most. Safe to use from any
    thread.
    """

    def __init__(self, address: str, watchdog_s: float = 0.0, stall_limit_s: float = 0.0) -> None:
        self._address = "\0" + address[1:] if address.startswith("@") else address
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        self._socket.settimeout(_SEND_S)
        longer = 0.0 < watchdog_s < STALLS * stall_limit_s
        self._up = ["READY=1"]
        if longer:
            self._up.append(f"WATCHDOG_USEC={round(STALLS * stall_limit_s * 1e6)}")
        self._is_up = self._up_is_told = self._is_ending = False
        self._progress = ""

    @classmethod
    def taken_from(
        cls, environment: MutableMapping[str, str] = os.environ, stall_limit_s: float = 0.0
    ) -> ServiceManager | None:
        """Return the service manager that the environment names; None without one.

        Removes the variables from the environment, so that Java and the workers do not inherit them.
        `stall_limit_s`: the run's own limit in seconds, 0 for none; systemd is told to wait at least `STALLS`
        times that long.
        """
        address = environment.pop(SOCKET, "")
        watchdog_us = environment.pop(WATCHDOG_US, "")
        environment.pop(WATCHDOG_PID, None)
        if not address.startswith(("/", "@")):
            return None
        watchdog_s = int(watchdog_us) / 1e6 if watchdog_us.isdecimal() else 0.0
        return cls(address, watchdog_s, stall_limit_s)

    def note(self, progress: str) -> None:
        """Save how far the index is, for the next status message."""
        self._progress = progress

    def up(self) -> None:
        """Send that the query runs; from then on systemd waits for signs of life."""
        self._is_up = True
        self._send()

    def lives(self, doing: str) -> None:
        """Send a sign of life with the current work; during the start, ask for more time."""
        sign = "WATCHDOG=1" if self._is_up else f"EXTEND_TIMEOUT_USEC={START_S * 1_000_000}"
        self._send(sign, self._status(doing))

    def ends(self) -> None:
        """Send once that the run is about to end."""
        if not self._is_ending:
            self._is_ending = True
            self._send("STOPPING=1")

    def _status(self, doing: str) -> str:
        text = " · ".join(phrase for phrase in (self._progress, doing) if phrase)
        return "STATUS=" + visible(" ".join(text.split()))[:_STATUS_CHARACTERS]

    def _send(self, *assignments: str) -> None:
        first = self._up if self._is_up and not self._up_is_told else []
        message = "\n".join([*first, *assignments])
        if not message:
            return
        with suppress(OSError):
            self._socket.sendto(message.encode(errors="replace"), self._address)
            self._up_is_told = self._is_up
