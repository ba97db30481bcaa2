"""The folders for this user's rebuildable files: `$XDG_CACHE_HOME/tailbit`, else `~/.cache/tailbit`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path


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
