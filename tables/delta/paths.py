"""Paths in a Delta log: URIs, of which each names a file of the table, percent-decoded exactly once.

Two URIs are the same file of a table where they are equal as `java.net.URI` compares them in normal form, as
Spark does: `./x` and `x`, `%2b` and `%2B`, `file:/x` and `/x` are equal, and `%2B` and `+` are not, although
both name one file on disk. Source: Delta protocol, Add File and Remove File; RFC 2396.
"""

from __future__ import annotations

import re
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

_ODD_BYTES = [bytes([code]) for code in b'"#:<>?[\\]^`']
"""Beside the percent sign, the characters from `!` to `z` of which a plain URI has none."""

_PIECE = 1 << 19
"""Bytes that are looked at together: they stay in the cache of a core."""

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
    """
    if "%" not in uri and _PLAIN.fullmatch(uri):
        return uri
    return _in_folder(uri, file, _PLAIN.fullmatch(uri, uri.rfind("/") + 1) is not None)


def _in_folder(uri: str, file: str, is_plain: bool) -> str:
    """Return the path of a URI; `is_plain`: whether its last part is its own path, as most are."""
    above, _, own = uri.rpartition("/")
    if above and is_plain:
        folder = _folder(above)
        if not folder.startswith(SPELLED):
            return f"{folder}/{own}"
    return _path(uri, file)


@lru_cache(maxsize=4096)
def _folder(uri: str) -> str:
    """Return the path of a folder that many files share; `SPELLED` if each file's own URI decides."""
    try:
        folder, slash, _ = _path(f"{uri}/x", "").rpartition("/")
    except MalformedLogError:
        return SPELLED
    return folder if slash else SPELLED


def _path(uri: str, file: str) -> str:
    if not uri:
        raise MalformedLogError(file=file, reason="a file has an empty path")
    text = _normal(_checked(uri, file))
    path = unquote(text)
    if uri.startswith("/"):
        # Spark gives it the scheme of its store, and spells it anew thereby.
        return path
    return path if _spelled(path) == text and not path.startswith(SPELLED) else SPELLED + text


def _spelled(path: str) -> str:
    """Return the URI of a path as writers spell it."""
    return _ESCAPED.sub(lambda match: quote(match[0], safe=""), path)


def _normal(uri: str) -> str:
    """Return a URI in normal form, without the scheme `file:`."""
    uri = _ESCAPE.sub(lambda match: match[0].upper(), uri)
    if uri.startswith("file:"):
        uri = "/" + uri[5:].lstrip("/")
    if "//" not in uri and "/." not in uri and not uri.startswith("."):
        return uri
    authority = _AUTHORITY.match(uri)
    begin = authority.end() if authority else 0
    *folders, name = uri[begin:].split("/")
    segments: list[str] = []
    for segment in folders:
        if segment == ".." and segments and segments[-1] != "..":
            segments.pop()
        elif segment not in ("", "."):
            segments.append(segment)
    return uri[:begin] + "/" * uri.startswith("/", begin) + "/".join([*segments, name])


def file_paths(uris: pa.ChunkedArray, name: str) -> pa.Array:
    """Return the path of each URI in the log file `name`. Cost: a Python call only for an unusual URI."""
    flat = uris.combine_chunks()
    escapes, other = _oddities(flat)
    if other:
        odd = pc.invert(pc.match_substring_regex(flat, f"^(?:{_PLAIN.pattern})$"))
        paths = [file_path(uri, name) for uri in pc.filter(flat, odd).to_pylist()]
    elif escapes:
        odd = pc.match_substring(flat, "%")
        listed = pc.filter(flat, odd).to_pylist()
        paths = [_in_folder(uri, name, "%" not in uri[uri.rfind("/") :]) for uri in listed]
    else:
        return flat
    return pc.replace_with_mask(flat, odd, arrow_array(paths, pa.string()))


def _oddities(uris: pa.StringArray) -> tuple[bool, bool]:
    """Return whether URIs have escapes, and whether one is not plain for another reason. Cost: few passes."""
    data = uris.buffers()[2]
    escapes = False
    other = _any(pc.starts_with(uris, ".")) or _any(pc.equal(pc.binary_length(uris), arrow_scalar(0)))
    size = 0 if data is None else len(data)
    for start in range(0, size, _PIECE):
        # A slash and what follows it are seen together.
        piece = data.slice(start, min(_PIECE + 1, size - start)).to_pybytes()
        codes = np.frombuffer(piece, np.uint8)
        escapes = escapes or b"%" in piece
        after = codes[1:][np.flatnonzero(codes[:-1] == ord("/"))]
        other = (
            other
            or bool(codes.min() < ord("!") or codes.max() > ord("z"))
            or any(odd in piece for odd in _ODD_BYTES)
            or bool(((after == ord("/")) | (after == ord("."))).any())
        )
    return escapes, other


def _any(mask: pa.BooleanArray) -> bool:
    return bool(pc.any(mask).as_py())
