"""What lies outside of a table's root is read where an option allows it, and refused by name elsewhere.

Shallow clones and views name files of another table. Whoever may write a log could otherwise have any file
read that the user may read. The option is nowhere remembered: each opening gives it, or its environment does.
"""

from __future__ import annotations

import os
from stat import S_ISLNK
from time import monotonic

from tailbit.errors import UnsafePathError, UsageError
from tailbit.tables.storage.options import StorageOptions

OPTION, VARIABLE = "allow_outside", "TAILBIT_ALLOW_OUTSIDE"
"""The storage option, and the variable that stands for it where it is not given."""

_HINT = (
    "Shallow clones and views of `to_delta` name files of another table. Where you trust who writes the log,"
    f" allow it: --storage-option {OPTION}=true, storage_options={{'{OPTION}': 'true'}} or {VARIABLE}=true."
)
_KEPT_S, _KEPT_FOLDERS = 1.0, 10_000
_PLAIN: dict[tuple[str, str], float] = {}
"""Roots and folders below them without a link between: until when that is taken for known, by `monotonic`."""
_MEANINGS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False, "": False}


def refuse_outside(path: str, root: str, options: StorageOptions) -> None:
    """Pass a path that lies outside of a root if the options allow it, or else the environment does.

    Raises:
        UnsafePathError: neither does.
        UsageError: the option is no truth value.
    """
    if not _is_allowed(options):
        raise UnsafePathError(file=path, path=root, reason="it lies outside of the table's root", hint=_HINT)


def stat_inside(path: str, target: str, root: str, options: StorageOptions) -> os.stat_result | None:
    """The state of an absolute local `target` below a root, also by every symbolic link on its way.

    None where there is none. The root itself may lie behind links. Cost: one call of the system. What is
    known of folders is known for `_KEPT_S`: a folder that gives way to a link is seen then, a file at once.

    Raises:
        UnsafePathError: it is elsewhere, and is not allowed to be.
        UsageError: the option is no truth value.
        OSError: it cannot be looked at.
    """
    state = _state(target, links=False)
    if state is None or S_ISLNK(state.st_mode) or not _is_plainly_below(root, target):
        if not (_is_allowed(options) or _is_really_below(root, target)):
            refuse_outside(path, root, options)
        return _state(target, links=True)
    return state


def refuse_parts(path: str, name: str, root: str) -> None:
    """Pass a path whose parts lead nowhere but down; `name` is what is left of it without its scheme.

    Raises:
        UnsafePathError: it is empty, or holds `..` or a NUL.
    """
    if not name or "\0" in name:
        raise UnsafePathError(file=path, path=root, reason="it is empty or holds a NUL")
    if ".." in name and ".." in name.split("/"):
        raise UnsafePathError(file=path, path=root, reason="it holds `..`")


def _is_allowed(options: StorageOptions) -> bool:
    given = next((value for name, value in options if name.lower() == OPTION), None)
    text = os.environ.get(VARIABLE, "") if given is None else given
    if text.lower() not in _MEANINGS:
        name = VARIABLE if given is None else OPTION
        raise UsageError(reason=f"{name} is neither true nor false", hint="Give it as true.")
    return _MEANINGS[text.lower()]


def _is_plainly_below(root: str, target: str) -> bool:
    """Whether the folder of a path is below a root, or it, without a symbolic link behind the root."""
    folder = target[: target.rindex("/")]
    if _PLAIN.get((root, folder), 0.0) < monotonic():
        if not _is_plain_folder(root, folder):
            return False
        if len(_PLAIN) >= _KEPT_FOLDERS:
            _PLAIN.clear()
        _PLAIN[root, folder] = monotonic() + _KEPT_S
    return True


def _is_plain_folder(root: str, folder: str) -> bool:
    top = root.rstrip("/")
    while len(folder) > len(top):
        state = _state(folder, links=False)
        if state is None or S_ISLNK(state.st_mode):
            return False
        folder = folder[: folder.rindex("/")]
    return folder == top


def _state(path: str, links: bool) -> os.stat_result | None:
    """The state of a link itself, or of what it leads to; None where there is nothing."""
    try:
        return os.stat(path) if links else os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None


def _is_really_below(root: str, target: str) -> bool:
    real = os.path.realpath(root)
    return os.path.realpath(target).startswith(real if real.endswith("/") else f"{real}/")
