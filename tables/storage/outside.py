"""Access to files outside of a table's root: allowed by an option, else refused by name.

Shallow clones and views name files of another table. Without this check, whoever can write the log could let
tailbit read any file that the user may read. The option is never stored: it is given at each opening, or in
the environment.
"""

from __future__ import annotations

import os
from stat import S_ISLNK
from time import monotonic

from tailbit.base.errors import UnsafePathError, UsageError
from tailbit.tables.storage.store import StorageOptions

OPTION, VARIABLE = "allow_outside", "TAILBIT_ALLOW_OUTSIDE"
"""The storage option, and the environment variable that replaces it if it is not given."""

_HINT = (
    "Shallow clones and views of `to_delta` name files of another table. Where you trust who writes the log,"
    f" allow it: --storage-option {OPTION}=true, storage_options={{'{OPTION}': 'true'}} or {VARIABLE}=true."
)
_KEPT_S, _KEPT_FOLDERS = 1.0, 10_000
_PLAIN: dict[tuple[str, str], float] = {}
"""Pairs of root and folder with no symbolic link between them, each valid until a time of `monotonic`."""
_MEANINGS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False, "": False}


def refuse_outside(path: str, root: str, options: StorageOptions) -> None:
    """Check that the options, or else the environment, allow a path outside of a root.

    Raises:
        UnsafePathError: neither options nor environment allow the path.
        UsageError: the option is not a boolean.
    """
    if not _is_allowed(options):
        raise UnsafePathError(file=path, path=root, reason="it lies outside of the table's root", hint=_HINT)


def stat_inside(path: str, target: str, root: str, options: StorageOptions) -> os.stat_result | None:
    """Return the stat of an absolute local `target` that lies below a root, also after symbolic links.

    The result is None if there is no such file. The root itself may lie behind links. Cost: one system call.
    Results for folders are cached for `_KEPT_S` seconds: a folder replaced by a link is noticed after that
    time, a file at once.

    Raises:
        UnsafePathError: the target is outside of the root without permission.
        UsageError: the option is not a boolean.
        OSError: the target cannot be inspected.
    """
    state = _state(target, links=False)
    if state is None or S_ISLNK(state.st_mode) or not _is_plainly_below(root, target):
        if not (_is_allowed(options) or _is_really_below(root, target)):
            refuse_outside(path, root, options)
        return _state(target, links=True)
    return state


def refuse_parts(path: str, name: str, root: str) -> None:
    """Check that a path has no part that leads upwards; an absolute path may pass.

    `name`: the path without its scheme, which is what is checked. The error names `path` and `root`.

    Raises:
        UnsafePathError: the path is empty, or holds `..` or a NUL.
    """
    if not name or "\0" in name:
        raise UnsafePathError(file=path, path=root, reason="it is empty or holds a NUL")
    if ".." in name and ".." in name.replace(os.sep, "/").split("/"):
        raise UnsafePathError(file=path, path=root, reason="it holds `..`")


def _is_allowed(options: StorageOptions) -> bool:
    given = next((value for name, value in options if name.lower() == OPTION), None)
    text = os.environ.get(VARIABLE, "") if given is None else given
    if text.lower() not in _MEANINGS:
        name = VARIABLE if given is None else OPTION
        raise UsageError(reason=f"{name} is neither true nor false", hint="Give it as true.")
    return _MEANINGS[text.lower()]


def _is_plainly_below(root: str, target: str) -> bool:
    """Return whether the folder of a path is the root or below it, without symbolic links below the root."""
    folder = os.path.dirname(target)
    if _PLAIN.get((root, folder), 0.0) < monotonic():
        if not _is_plain_folder(root, folder):
            return False
        if len(_PLAIN) >= _KEPT_FOLDERS:
            _PLAIN.clear()
        _PLAIN[root, folder] = monotonic() + _KEPT_S
    return True


def _is_plain_folder(root: str, folder: str) -> bool:
    while len(folder) > len(root):
        state = _state(folder, links=False)
        if state is None or S_ISLNK(state.st_mode):
            return False
        folder = os.path.dirname(folder)
    return folder == root


def _state(path: str, links: bool) -> os.stat_result | None:
    """Return the stat of a path, following a symbolic link if `links`; None if there is no such file."""
    try:
        return os.stat(path) if links else os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None


def _is_really_below(root: str, target: str) -> bool:
    real = os.path.realpath(root)
    return os.path.realpath(target).startswith(real if real.endswith(os.sep) else real + os.sep)
