"""Settings of a stream: limits of a batch, pace of polling, lengths of time as text, folders of this user."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from tailbit.base.dataclass import dataclass
from tailbit.base.errors import UsageError

DEFAULT_TRIGGER = "200ms"
"""Default interval between two polls for new commits."""

DEFAULT_MASTER = "local[2]"
"""URL of the Spark master if none is named."""

REMOTE_POLL_MS = 500
"""Milliseconds between two polls of an object store: each is a request, some 170,000 a day."""

_UNITS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000}


@dataclass(frozen=True, slots=True)
class StreamSettings:
    """Limits of a batch and the pace of polling.

    A batch reads at most `versions`, `files` and `bytes` of the log, but at least one version. The next
    commit is looked for every `poll_ms` milliseconds (one or two stats each). Tasks that read at most
    `inline_bytes` together run in the driver, without a Spark job.
    """

    versions: int = 500
    files: int = 2000
    bytes: int = 2 << 30
    poll_ms: int = 50
    inline_bytes: int = 16 << 20


def milliseconds(text: str) -> int:
    """Parse a length of time such as `500ms`, `2s`, `1 minute` or plain seconds; return milliseconds."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", text.lower())
    unit = _unit(match[2]) if match else None
    if match is None or unit is None:
        raise UsageError(reason=f"{text!r} is no length of time", hint="Write 500ms, 2s or 1m.")
    return round(float(match[1]) * unit)


def _unit(word: str) -> int | None:
    if word in ("", "s", "sec", "second", "seconds"):
        return 1000
    if word.startswith(("milli", "ms")):
        return 1
    return _UNITS.get(word) or _UNITS.get(word[:1] if word.startswith(("min", "hour")) else "")


def user_cache(environment: Mapping[str, str]) -> Path:
    """Return the cache folder of this user, which may not exist yet.

    Source: XDG Base Directory Specification.
    """
    home = environment.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(home, "tailbit")


def own_state(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the folder of an indexer's progress: the first of `$STATE_DIRECTORY`, else `user_cache`.

    Source: systemd.exec(5), StateDirectory=; several folders are joined by colons.
    """
    given = environment.get("STATE_DIRECTORY", "").partition(":")[0]
    return Path(given) if given else user_cache(environment)
