"""Paths in a Delta log, percent-decoded exactly once. Source: Delta protocol, Add File and Remove File."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from urllib.parse import unquote

import numpy as np
import pyarrow as pa

from tailbit.base.errors import MalformedLogError
from tailbit.tables import compute as pc
from tailbit.tables.arrow import arrow_array, arrow_scalar
from tailbit.tables.storage import local_name

_STRAY_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")


def decode_path(path: str, file: str) -> str:
    """Percent-decode a path of the log exactly once; strip the scheme `file:`, keep other schemes.

    Raises:
        MalformedLogError: an escape is invalid or does not decode to UTF-8, or the path is empty.
    """
    if not path:
        raise MalformedLogError(file=file, reason="a file has an empty path")
    if path.startswith("file:"):
        return local_name(_checked(path, file))
    return unquote(_checked(path, file), errors="strict") if "%" in path else path


def _checked(path: str, file: str) -> str:
    try:
        unquote(path, errors="strict")
    except UnicodeDecodeError as wrong:
        raise MalformedLogError(file=file, reason=f"path {path!r} has an escape that is not UTF-8") from wrong
    if _STRAY_PERCENT.search(path):
        raise MalformedLogError(file=file, reason=f"path {path!r} has a % that escapes nothing")
    return path


def decode_paths(paths: pa.ChunkedArray, name: str) -> pa.Array:
    """Decode each path of the log once. Cost: a Python call only for a path with an escape or a scheme."""
    flat = paths.combine_chunks()
    if not _any_odd(flat):
        return flat
    odd = pc.or_(pc.match_substring(flat, "%"), pc.starts_with(flat, "file:"))
    odd = pc.or_(odd, pc.equal(pc.binary_length(flat), arrow_scalar(0)))
    folder = lru_cache(maxsize=4096)(decode_path)
    plain = [_decoded(folder, path, name) for path in pc.filter(flat, odd).to_pylist()]
    return pc.replace_with_mask(flat, odd, arrow_array(plain, pa.string()))


def _any_odd(paths: pa.StringArray) -> bool:
    """Return whether a path may hold an escape or a scheme, or is empty: one pass over all bytes."""
    data = paths.buffers()[2]
    if data is not None and (np.frombuffer(data, np.uint8) == ord("%")).any():
        return True
    odd = pc.or_(pc.starts_with(paths, "file:"), pc.equal(pc.binary_length(paths), arrow_scalar(0)))
    return bool(pc.any(odd).as_py())


def _decoded(folder: Callable[[str, str], str], path: str, name: str) -> str:
    """Percent-decode a path of the log; `folder` is a cached `decode_path`, since many files share a folder.

    Decoded as a whole: a path without a folder, with a % in its last part, or with the scheme `file:`.
    `name`: the log file that holds the path, for errors.
    """
    above, slash, own = path.rpartition("/")
    if not slash or not above or "%" in own or path.startswith("file:"):
        return decode_path(path, name)
    return f"{folder(above, name)}/{own}"
