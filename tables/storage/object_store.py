"""Object stores (`s3://`, `gs://` and `abfss://`) through obstore, which is imported on first use.

Random access to an object: ranges that are read together are fetched together. The end of a Parquet file
holds its footer and page indexes, so the first request fetches the end; a read also fetches the bytes behind
it, since the pages of a lookup are adjacent.

A commit is a conditional put: of several writers of one object exactly one wins. If the reply is lost, or the
store reports an error after it has applied the put, the object is read back: if it holds the bytes of this
put, the put succeeded. So a writer must make the bytes of such an object unlike those of any other writer.
"""

from __future__ import annotations

import io
import random
import tempfile
import time
import uuid
import zlib
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import field, replace
from functools import cached_property, partial
from typing import IO, Any, TypeAlias, TypeVar, cast

import pyarrow as pa

from tailbit.base.dataclass import dataclass
from tailbit.base.errors import NoConditionalPutError, StorageError, UnusableStorageError
from tailbit.tables.cache import Cache, share
from tailbit.tables.storage.locations import (
    RETRY_S,
    Location,
    connect,
    location_of,
    name_of,
    no_store,
    one_key,
)
from tailbit.tables.storage.refusals import (
    DENIED,
    is_uncertain,
    is_unrepeated,
    is_without_bucket,
    nothing_written,
    refusal,
    status_of,
)
from tailbit.tables.storage.requests import SEEN, at_once, forget
from tailbit.tables.storage.store import (
    NO_OPTIONS,
    WHOLE,
    Entry,
    Stat,
    Storage,
    StorageOptions,
    Unfinished,
    decoded,
    refuse_oversized,
)

TAIL = 64 << 10
"""Bytes of the end that are fetched with the size. A smaller object takes one request."""

AHEAD, FAR_AHEAD = 256 << 10, 8 << 20
"""Least read-ahead in bytes: on a network it costs less than a second request. If a read continues the last
fetch, the read-ahead doubles, up to the second number."""

_CACHED_RANGES = 4

Fetch = Callable[[int, int], bytes]

End: TypeAlias = tuple[int, str, bytes]
"""Size, tag and last bytes of an object."""


class Ranges(io.RawIOBase):
    """A file over byte ranges of an object; the last `_CACHED_RANGES` fetched ranges are cached.

    One thread reads at a time.

    Memory: `_CACHED_RANGES` fetched ranges.
    """

    def __init__(self, size: int, tail: bytes, fetch: Fetch) -> None:
        self._size, self._fetch, self._offset = size, fetch, 0
        self._ahead, self._newest = AHEAD, (size, b"")
        self._ranges = [(size - len(tail), tail)]

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._offset

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._offset = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._offset, io.SEEK_END: self._size}[whence]
        return self._offset

    def read(self, size: int | None = -1) -> bytes:
        """Read at most `size` bytes from the current offset; fewer at the end."""
        end = self._size if size is None or size < 0 else min(self._size, self._offset + size)
        if end <= self._offset:
            return b""
        start, data_read = self._range(self._offset, end)
        data = data_read[self._offset - start : end - start]
        self._offset += len(data)
        return data

    def _range(self, start: int, end: int) -> tuple[int, bytes]:
        """Return a kept range that holds these bytes, else fetch one."""
        for begin, data in self._ranges:
            if begin <= start and end <= begin + len(data):
                return begin, data
        begun = self._begun(start)
        self._ahead = AHEAD if begun is None else min(2 * self._ahead, FAR_AHEAD)
        beginning = begun or b""
        last = min(self._size, max(end, start + len(beginning) + self._ahead))
        self._newest = start, beginning + self._fetch(start + len(beginning), last)
        self._ranges = [self._newest, *self._ranges[: _CACHED_RANGES - 1]]
        return self._newest

    def _begun(self, start: int) -> bytes | None:
        """Return the newest fetched bytes from `start` on; None if `start` is not in or right after them."""
        begin, data = self._newest
        return data[start - begin :] if begin <= start <= begin + len(data) else None


def end_of(reply: Any) -> End:
    """Return size, tag and last bytes from obstore's reply to a request for the end of an object."""
    return int(reply.meta["size"]), tag_of(reply.meta), bytes(reply.bytes())


def whole(reply: Any, rel: str, limit: int) -> bytes:
    """Return all bytes from obstore's reply to a request for an object; the reply's size is checked first."""
    refuse_oversized(rel, int(reply.meta["size"]), limit)
    return bytes(reply.bytes())


def tag_of(meta: Any) -> str:
    """Return the tag or version by which a later request recognises the same object."""
    return meta["e_tag"] or meta["version"] or ""


def entry_of(meta: Any) -> Entry:
    """Return a listed object from obstore's metadata."""
    return Entry(_name(meta), int(meta["size"]), _seconds(meta) * 1000)


def _name(meta: Any) -> str:
    name: str = meta["path"].rpartition("/")[2]
    return name


def stat_of(meta: Any) -> Stat:
    """Return an object's stat, equal whether listed or requested, with a quoted tag or not."""
    tag = tag_of(meta).removeprefix("W/").strip('"')
    return Stat(int(meta["size"]), _seconds(meta) * 1_000_000_000, zlib.crc32(tag.encode()))


def _seconds(meta: Any) -> int:
    """Return the modification time in whole seconds since 1970: some stores list no finer times."""
    return int(meta["last_modified"].timestamp())


Publish = Callable[[str, IO[bytes], int], None]
"""A function that puts a file: takes the name, the file, read from its first byte, and its size in bytes."""


class Spooled(Unfinished):
    """An object written to a private file of this process until it is put."""

    def __init__(self, spool: IO[bytes], publish: Publish) -> None:
        self._spool, self._publish = spool, publish
        self.sink = pa.PythonFile(_Open(spool), mode="w")

    def written(self) -> pa.NativeFile:
        """Close the sink and return the written bytes to read back."""
        self.sink.close()
        self._spool.seek(0)
        return pa.PythonFile(_Open(self._spool), mode="r")

    def publish(self, name: str) -> None:
        """Put the object under its name."""
        size = self._spool.seek(0, 2)
        self._spool.seek(0)
        self._publish(name, self._spool, size)


class _Open:
    """A file that stays open when its user closes it."""

    closed = False

    def __init__(self, file: IO[bytes]) -> None:
        self.read, self.write, self.flush = file.read, file.write, file.flush
        self.seek, self.tell = file.seek, file.tell

    def close(self) -> None:
        """Do nothing: the file stays open."""


_AT_ONCE = 16 << 20
"""The part size of a multipart put; a smaller object is put in one request."""

_IN_MEMORY = 64 << 20
"""Most bytes of an unfinished object in memory; a larger one goes to a private temporary file."""

_AN_END = 500
"""Bytes of memory of the end of an object, without its bytes."""

_ENDS: Cache[tuple[Storage, str, Stat | None], End] = Cache(share(1 / 64))
"""The ends of objects in one state, at most `TAIL` bytes of each, by store, name and stat."""

R = TypeVar("R")

_NOT_IMPLEMENTED = 501

_PUTS = 5
"""Attempts at a conditional put whose outcome is unknown: obstore does not retry non-idempotent requests."""


def repeated(request: Callable[[], R]) -> R:
    """Make an idempotent request; retry it where obstore does not, as after a lost reply to a delete."""
    began = time.monotonic()
    for attempt in range(_PUTS):
        try:
            return request()
        except _errors().BaseError as wrong:
            if not is_unrepeated(wrong) or time.monotonic() - began > RETRY_S:
                raise
        _pause(attempt)
    return request()


def _pause(attempt: int) -> None:
    time.sleep(random.uniform(0.5, 1.0) * 0.1 * 2**attempt)


@dataclass(frozen=True)
class ObjectStorage(Storage):
    """The objects below one prefix of a bucket; a name that begins with `/` is a key of the whole bucket.

    Raises:
        StorageError: `root` is not the URL of an object store, or names no bucket.
    """

    root: str
    options: StorageOptions = NO_OPTIONS
    witness: str = field(default="", compare=False)
    """A folder (of the log) that whoever can read any file of the table can read; empty if unknown."""

    def __post_init__(self) -> None:
        location = location_of(self.root)
        if location is None or not location.bucket:
            raise no_store(self.root)
        object.__setattr__(self, "root", self.root.rstrip("/"))
        if location.key:
            one_key(location.key, self.root, self.root)

    def __getstate__(self) -> dict[str, Any]:
        return {"root": self.root, "options": self.options, "witness": self.witness}

    def of_table(self, log: str) -> ObjectStorage:
        """Return the store with the log's folder as `witness`: it shows if the table may be read at all."""
        return replace(self, witness=log)

    remote = True

    @property
    def uri(self) -> None:
        """None: the credentials of the store are not handed to other engines."""

    @cached_property
    def _location(self) -> Location:
        return cast(Location, location_of(self.root))

    @property
    def _store(self) -> Any:
        return connect(self._location, self.options)

    def _key(self, rel: str) -> str:
        if rel.startswith("/"):
            return rel[1:]
        return "/".join(step for step in (self._location.key, rel) if step)

    def resolve(self, path: str) -> str:
        """Return the name of a data file: below the root, or in another folder of the same bucket."""
        return name_of(decoded(path), self._location, self.root, self.options)

    def is_of_one_file(self, refused: StorageError) -> bool:
        """Return whether one object is denied although the table's log can be read. Cost: two requests."""
        if refused.fields.get("status") != DENIED or not self.witness:
            return False
        with suppress(StorageError, FileNotFoundError):
            return bool(self.read_range(self._requested(self.witness, self._in_witness), 0, 1))
        return False

    def _in_witness(self) -> str:
        for page in _obstore().list(self._store, self._key(self.witness)):
            for item in page:
                return f"/{item['path']}"
        raise FileNotFoundError(self.witness)

    def read(self, rel: str, limit: int = WHOLE) -> bytes:
        """Read all bytes of an object, at most `limit`, in one request."""
        return self._requested(rel, lambda: whole(_obstore().get(self._store, self._key(rel)), rel, limit))

    def read_stated(self, rel: str, limit: int = WHOLE) -> tuple[bytes, Stat | None]:
        """Return all bytes of an object, at most `limit`, and its stat, in one request."""

        def get() -> tuple[bytes, Stat]:
            reply = _obstore().get(self._store, self._key(rel))
            return whole(reply, rel, limit), stat_of(reply.meta)

        data, stat = self._requested(rel, get)
        if SEEN.stats is not None:
            SEEN.stats[self, rel] = stat
        return data, stat

    def read_range(self, rel: str, offset: int, length: int) -> bytes:
        """Read at most `length` bytes from `offset` in one request."""
        if length <= 0:
            return b""
        options = {"range": (offset, offset + length)}
        return self._ranged(rel, options, lambda reply: bytes(reply.bytes()), b"")

    def _ranged(self, rel: str, options: Any, content_of: Callable[[Any], R], none: R) -> R:
        def get() -> R:
            try:
                return content_of(_obstore().get(self._store, self._key(rel), options=options))
            except _errors().BaseError as wrong:
                # The range begins at the end of the object or behind it.
                if status_of(wrong) == 416:
                    return none
                raise

        return self._requested(rel, get)

    def contents(self) -> list[str] | None:
        """Return the names directly below the root, sorted."""
        objects, folders = self._listed("")
        return sorted(path.rpartition("/")[2] for path in [*(o["path"] for o in objects), *folders])

    def walk(self, prefix_dir: str = "", skip: Collection[str] = ()) -> list[Entry]:
        """Return the objects below a prefix, sorted by name.

        Cost: one request per thousand objects, skipped ones included.
        """
        folder = self._key(prefix_dir)
        start = len(folder) + 1 if folder else 0

        def listed() -> list[Entry]:
            pages = _obstore().list(self._store, folder or None)
            return [entry_of(item)._replace(name=item["path"][start:]) for page in pages for item in page]

        skipped = frozenset(skip)
        entries = self._requested(prefix_dir, listed)
        return sorted(e for e in entries if e.name and skipped.isdisjoint(e.name.split("/")[:-1]))

    def list_after(self, prefix_dir: str, name: str) -> list[Entry]:
        """Return the objects directly below a prefix, with names after `name`: a request per thousand."""
        folder = self._key(prefix_dir)

        def listed() -> list[Entry]:
            pages = _obstore().list(self._store, folder or None, offset=f"{folder}/{name}".lstrip("/"))
            start = len(folder) + 1 if folder else 0
            return sorted(
                entry_of(o)
                for page in pages
                for o in page
                if "/" not in o["path"][start:] and o["path"] != folder
            )

        return self._requested(prefix_dir, listed)

    def list(self, prefix_dir: str = "") -> list[Entry]:
        """Return the objects directly below a prefix, sorted by name: a request per thousand."""
        objects = self._listed(prefix_dir)[0]
        if SEEN.stats is not None:
            folder = f"{prefix_dir}/" if prefix_dir else ""
            SEEN.stats.update({(self, f"{folder}{entry_of(o).name}"): stat_of(o) for o in objects})
            SEEN.stats[self, folder] = None
        return sorted(map(entry_of, objects))

    def _listed(self, prefix_dir: str) -> tuple[Sequence[Any], Sequence[str]]:
        """List objects and folders directly below a prefix, without the marker object of the prefix."""
        key = self._key(prefix_dir)
        listing = self._requested(
            prefix_dir, lambda: _obstore().list_with_delimiter(self._store, key or None)
        )
        objects = [o for o in listing["objects"] if o["path"] != key]
        return objects, [path for path in listing["common_prefixes"] if path != key]

    def stat(self, rel: str) -> Stat | None:
        """Return size, time and a checksum of the entity tag; one request, or none if the look has it.

        A look that has listed the folder of a name knows whether the name is there.
        """
        seen = SEEN.stats
        if seen is None:
            return self._head(rel)
        key, folder = (self, rel), (self, rel[: rel.rfind("/") + 1])
        if key not in seen:
            seen[key] = None if folder in seen else self._head(rel)
        return cast("Stat | None", seen[key])

    def look_at(self, names: Collection[str]) -> None:
        """Request the stats of names that the look does not have yet, at once."""
        if SEEN.stats is not None:
            for _ in at_once(self, [partial(self._look, name) for name in names]):
                pass

    def _look(self, rel: str) -> None:
        # Who needs the stat asks again, and says of which file the store refuses it.
        with suppress(StorageError):
            self.stat(rel)

    def _head(self, rel: str) -> Stat | None:
        try:
            head = self._requested(rel, lambda: _obstore().head(self._store, self._key(rel)))
        except FileNotFoundError:
            return None
        except StorageError as refused:
            if refused.fields.get("status") in (400, DENIED):
                # An error response to HEAD has no body that says why; the response to GET has one.
                with suppress(FileNotFoundError):
                    self.read_range(rel, 0, 1)
            raise
        stat = stat_of(head)
        if self._location.kind == "az":
            _ENDS.hold((self, rel, stat), (stat.size, tag_of(head), b""), _AN_END)
        return stat

    def exists(self, rel: str) -> bool:
        """Return whether there is an object of that name, or one below it. Cost: two requests at once."""
        key = self._key(rel)

        def any_below() -> bool:
            return any(len(page) for page in _obstore().list(self._store, key or None))

        probes: list[Callable[[], bool]] = [partial(self._requested, rel, any_below)]
        if rel:
            probes.append(lambda: self.stat(rel) is not None)
        return any(list(at_once(self, probes)))

    def open(self, rel: str, end: int = 0) -> pa.NativeFile:
        """Open the object for random access; the first request fetches its end.

        Within a look that has seen its stat, an object is in one state: its end is cached.
        """
        stat = None if SEEN.stats is None else SEEN.stats.get((self, rel))
        return self._opened(rel, self._end(rel, end) if stat is None else self._known_end(rel, end, stat))

    def open_fixed(self, rel: str, end: int = 0) -> pa.NativeFile:
        """Open the object for random access; its end is cached, so that opening it again is no request."""
        return self._opened(rel, self._known_end(rel, end, None))

    def _known_end(self, rel: str, end: int, stat: Stat | None) -> End:
        """Return the end of an object in one state, cached; `stat`: None if it has only one."""
        cached = _ENDS.cached((self, rel, stat))
        if cached is None:
            size, tag, tail = cached = self._end(rel, end)
            _ENDS.hold((self, rel, stat), (size, tag, tail[-TAIL:]), _AN_END + min(len(tail), TAIL))
        return cached

    def _end(self, rel: str, end: int) -> End:
        """Return size, tag and last bytes of an object: at least `end` of them, except in Azure."""
        if self._location.kind == "az":
            return self._size(rel)
        return self._ranged(rel, {"range": {"suffix": max(TAIL, end)}}, end_of, (0, "", b""))

    def _opened(self, rel: str, known: End) -> pa.NativeFile:
        size, tag, tail = known

        def fetch(start: int, end: int) -> bytes:
            options: dict[str, Any] = {"range": (start, end)}
            if tag:
                options["if_match"] = tag
            return self._ranged(rel, options, lambda reply: bytes(reply.bytes()), b"")

        return pa.PythonFile(Ranges(size, tail, fetch), mode="r")

    def _size(self, rel: str) -> End:
        """Return size, tag and no bytes: Azure has no ranges from the end."""
        head = self._requested(rel, lambda: _obstore().head(self._store, self._key(rel)))
        return int(head["size"]), tag_of(head), b""

    @contextmanager
    def create(self, folder: str, stem: str) -> Iterator[Unfinished]:
        """Yield an object that is put when it is published; nothing of it is in the store before."""
        with tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY) as spool:
            yield Spooled(cast("IO[bytes]", spool), partial(self._publish, folder))

    def put_if_absent(self, rel: str, data: bytes) -> None:
        """Put an object that must not exist; an object with the same bytes counts as put by this call."""
        forget()
        for attempt in range(_PUTS):
            try:
                _obstore().put(self._store, self._key(rel), data, mode="create", use_multipart=False)
                return
            except (_errors().BaseError, OSError, ValueError) as wrong:
                if not isinstance(wrong, _errors().AlreadyExistsError) and not is_uncertain(wrong):
                    raise self._refusal(rel, wrong) from None
                last = wrong
            with suppress(FileNotFoundError):
                if self.read(rel) == data:
                    return
                raise FileExistsError(rel)
            _pause(attempt)
        raise self._refusal(rel, last) from None

    def put(self, rel: str, data: bytes) -> None:
        self._put(rel, data, len(data))

    def _publish(self, folder: str, name: str, file: IO[bytes], size: int) -> None:
        self._put(f"{folder}/{name}", file if size > _AT_ONCE else file.read(), size)

    def _put(self, rel: str, data: Any, size: int) -> None:
        forget()
        how = {"use_multipart": size > _AT_ONCE, "chunk_size": _AT_ONCE, "max_concurrency": 4}

        def put() -> None:
            if not isinstance(data, bytes):
                data.seek(0)
            _obstore().put(self._store, self._key(rel), data, **how)

        self._requested(rel, put)

    def delete(self, rel: str) -> None:
        forget()
        with suppress(FileNotFoundError):
            self._requested(rel, lambda: _obstore().delete(self._store, self._key(rel)))

    def clock_ms(self) -> int:
        """Return the time in ms since 1970 by the store's clock, from a probe object: three requests."""
        rel = f"_clock-{uuid.uuid4().hex}"
        self.put(rel, b"")
        probe = self._head(rel)
        self.delete(rel)
        return super().clock_ms() if probe is None else probe.mtime_ns // 1_000_000

    def check_commits(self) -> None:
        """Check that a conditional put of an existing object is refused, with a probe object.

        Else two concurrent writers could both believe that they were first.
        """
        rel = f"_probe-{uuid.uuid4().hex}"
        try:
            self.put_if_absent(rel, b"first")
            self.put_if_absent(rel, b"second")
        except FileExistsError:
            self.delete(rel)
            return
        except StorageError as wrong:
            with suppress(StorageError):
                self.delete(rel)
            if isinstance(wrong, UnusableStorageError):
                raise nothing_written(self.root, wrong) from wrong
            if wrong.fields.get("status") != _NOT_IMPLEMENTED:
                raise
        else:
            self.delete(rel)
        raise NoConditionalPutError(path=self.root)

    def _refusal(self, rel: str, wrong: BaseException) -> StorageError:
        place = f"{self._location.scheme}://{self._location.bucket}/{self._key(rel)}"
        return refusal(place, wrong, self.options)

    def _requested(self, rel: str, request: Callable[[], R]) -> R:
        """Make a request, with retries; refusals become StorageError, a missing object FileNotFoundError."""
        try:
            return repeated(request)
        except FileNotFoundError as gone:
            if is_without_bucket(gone):
                raise self._refusal(rel, gone) from None
            raise FileNotFoundError(rel) from None
        except (_errors().BaseError, ValueError, OSError) as wrong:
            raise self._refusal(rel, wrong) from None


def _obstore() -> Any:
    import obstore

    return obstore


def _errors() -> Any:
    from obstore import exceptions

    return exceptions
