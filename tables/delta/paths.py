"""Paths in a Delta log: URIs, of which each names a file of the table, percent-decoded exactly once.

Two URIs are the same file of a table where they are equal as `java.net.URI` compares them in normal form, as
Spark does: `./x` and `x`, `%2b` and `%2B`, `file:/x` and `/x` are equal, and `%2B` and `+` are not, although
both name one file on disk. Source: Delta protocol, Add File and Remove File; RFC 2396.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from urllib.parse import quote, unquote

import numpy as np
import pyarrow as pa

from tailbit.base.errors import MalformedLogError
from tailbit.tables import compute as pc
from tailbit.tables.arrow import arrow_array, arrow_scalar
from tailbit.tables.storage import SPELLED, local_name

_PLAIN = re.compile(
    r"/?[A-Za-z0-9_\-!~'()*@&=+$,;][A-Za-z0-9_\-!~'()*@&=+$,;.]*(?:/[A-Za-z0-9_\-!~'()*@&=+$,;][A-Za-z0-9_\-!~'()*@&=+$,;.]*)*"
)
"""A URI that is its own path: no part is empty or begins with a dot, and no character is ever escaped."""

_ODD_BYTES = [bytes([code]) for code in b'"#%<>?[\\]^`']
"""The characters from `!` to `z` that a URI's path cannot hold, or that escape others."""

_ESCAPED = re.compile(
    '[\x00-\x20"#%<>?\\[\\\\\\]^`{|}\x7f-\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]'
)
"""The characters that writers escape in a path, as `java.net.URI` does."""

_ESCAPE = re.compile("%[0-9A-Fa-f]{2}")
_AUTHORITY = re.compile("[A-Za-z][A-Za-z0-9+.-]*://[^/]*")
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


def file_path(uri: str, file: str) -> str:
    """Return the path of a data file from its URI in the log: equal URIs have one path, others have others.

    It is the decoded path where the URI is spelled as writers spell that path. A URI that is spelled in
    another way, as `%78` for x, is kept in normal form, behind `SPELLED`.

    Raises:
        MalformedLogError: an escape is invalid or does not decode to UTF-8, or the URI is empty.
    """
    if _PLAIN.fullmatch(uri):
        return uri
    if not uri:
        raise MalformedLogError(file=file, reason="a file has an empty path")
    text = _normal(_checked(uri, file))
    path = unquote(text)
    return path if _spelled(path) == text and not path.startswith(SPELLED) else SPELLED + text


def _spelled(path: str) -> str:
    """Return the URI of a path as writers spell it."""
    return _ESCAPED.sub(lambda found: quote(found[0], safe=""), path)


def _normal(uri: str) -> str:
    """Return a URI in normal form, without the scheme `file:`."""
    uri = _ESCAPE.sub(lambda found: found[0].upper(), uri)
    if uri.startswith("file:"):
        uri = "/" + uri[5:].lstrip("/")
    if "//" not in uri and "/." not in uri and not uri.startswith("."):
        return uri
    authority = _AUTHORITY.match(uri)
    begin = authority.end() if authority else 0
    *folders, name = uri[begin:].split("/")
    parts: list[str] = []
    for part in folders:
        if part == ".." and parts and parts[-1] != "..":
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    return uri[:begin] + "/" * uri.startswith("/", begin) + "/".join([*parts, name])


def file_paths(uris: pa.ChunkedArray, name: str) -> pa.Array:
    """Return the path of each URI in the log file `name`. Cost: a Python call only for an unusual URI."""
    flat = uris.combine_chunks()
    if not _any_odd(flat):
        return flat
    odd = pc.invert(pc.match_substring_regex(flat, f"^(?:{_PLAIN.pattern})$"))
    folder = lru_cache(maxsize=4096)(file_path)
    paths = [_in_folder(folder, uri, name) for uri in pc.filter(flat, odd).to_pylist()]
    return pc.replace_with_mask(flat, odd, arrow_array(paths, pa.string()))


def _any_odd(uris: pa.StringArray) -> bool:
    """Return whether a URI may be another text than its path. Cost: some passes over all bytes."""
    data = uris.buffers()[2]
    if data is not None and len(data):
        codes, whole = np.frombuffer(data, np.uint8), data.to_pybytes()
        if codes.min() < ord("!") or codes.max() > ord("z") or any(odd in whole for odd in _ODD_BYTES):
            return True
        after = codes[1:][np.flatnonzero(codes[:-1] == ord("/"))]
        if ((after == ord("/")) | (after == ord("."))).any():
            return True
    odd = pc.or_(pc.starts_with(uris, "."), pc.equal(pc.binary_length(uris), arrow_scalar(0)))
    if data is not None and b":" in data.to_pybytes():
        odd = pc.or_(odd, pc.or_(pc.starts_with(uris, "file:"), pc.starts_with(uris, SPELLED)))
    return bool(pc.any(odd).as_py())


def _in_folder(folder: Callable[[str, str], str], uri: str, name: str) -> str:
    """Return the path of a URI; `folder` is a cached `file_path`, since many files share a folder."""
    above, _, own = uri.rpartition("/")
    if above and _PLAIN.fullmatch(own):
        found = folder(above, name)
        if not found.startswith(SPELLED):
            return f"{found}/{own}"
    return file_path(uri, name)
