"""Object stores: `s3://`, `gs://` and `abfss://`, by way of obstore, which is imported when one is asked."""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property, partial
from typing import IO, Any, TypeVar, cast

import pyarrow as pa

from tailbit.errors import StorageError
from tailbit.tables.storage.conditional_puts import check_conditional_puts, put_once, repeated
from tailbit.tables.storage.door import WHOLE, Entry, Stat, Storage, Unfinished
from tailbit.tables.storage.locations import Location, connect, location_of, name_of, no_store, one_key
from tailbit.tables.storage.looks import SEEN, forget
from tailbit.tables.storage.options import NO_OPTIONS, StorageOptions
from tailbit.tables.storage.ranges import TAIL, Ranges, end_of, entry_of, stat_of, tag_of, whole
from tailbit.tables.storage.refusals import DENIED, is_without_bucket, refusal, status_of
from tailbit.tables.storage.spooled import Spooled

_AT_ONCE = 16 << 20
"""A larger object is put in parts of this size, some at a time."""

_IN_MEMORY = 64 << 20
"""An unfinished object of up to 64 MiB is held in memory; a longer one is in a private temporary file."""

_WITNESS = "_delta_log"
"""A folder that whoever may read anything of a table may read."""

R = TypeVar("R")


@dataclass(frozen=True)
class ObjectStorage(Storage):
    """The objects below one prefix of a bucket; a name that begins with `/` is a key of the whole bucket.

    Raises:
        StorageError: `root` is no URL of an object store, or names no bucket.
    """

    root: str
    options: StorageOptions = NO_OPTIONS

    def __post_init__(self) -> None:
        location = location_of(self.root)
        if location is None or not location.bucket:
            raise no_store(self.root)
        object.__setattr__(self, "root", self.root.rstrip("/"))
        if location.key:
            one_key(location.key, self.root, self.root)

    def __getstate__(self) -> dict[str, Any]:
        return {"root": self.root, "options": self.options}

    remote = True

    @property
    def uri(self) -> None:
        """delta-rs is not asked to reach the store: commits are conditional puts of our own."""

    @cached_property
    def _location(self) -> Location:
        return cast(Location, location_of(self.root))

    @property
    def _store(self) -> Any:
        return connect(self._location, self.options)

    def _key(self, rel: str) -> str:
        if rel.startswith("/"):
            return rel[1:]
        return "/".join(part for part in (self._location.key, rel) if part)

    def resolve(self, path: str) -> str:
        """The name of a data file: below the root, or from another folder of the same bucket.

        Raises:
            UnsafePathError: a path that leaves the root and is not allowed to, or has a part that is empty,
                `.`, `..` or a NUL.
            StorageError: an absolute path in another store.
        """
        return name_of(path, self._location, self.root, self.options)

    def is_of_one_file(self, refused: StorageError) -> bool:
        """Whether one object is denied while the log of the table can be read: two requests."""
        if refused.fields.get("status") != DENIED:
            return False
        with suppress(StorageError, FileNotFoundError):
            return bool(self.read_range(self._asked(_WITNESS, self._witness), 0, 1))
        return False

    def _witness(self) -> str:
        for page in _obstore().list(self._store, self._key(_WITNESS)):
            for item in page:
                return f"/{item['path']}"
        raise FileNotFoundError(_WITNESS)

    def read(self, rel: str, limit: int = WHOLE) -> bytes:
        """All bytes of an object, which are at most `limit`: one request."""
        return self._asked(rel, lambda: whole(_obstore().get(self._store, self._key(rel)), rel, limit))

    def read_range(self, rel: str, offset: int, length: int) -> bytes:
        """At most `length` bytes from `offset`: one request."""
        if length <= 0:
            return b""
        wanted = {"range": (offset, offset + length)}
        return self._ranged(rel, wanted, lambda reply: bytes(reply.bytes()), b"")

    def _ranged(self, rel: str, options: Any, content_of: Callable[[Any], R], none: R) -> R:
        def get() -> R:
            try:
                return content_of(_obstore().get(self._store, self._key(rel), options=options))
            except _errors().BaseError as wrong:
                # The range begins at the end of the object or behind it.
                if status_of(wrong) == 416:
                    return none
                raise

        return self._asked(rel, get)

    def contents(self) -> list[str] | None:
        """The names right below the root, sorted."""
        objects, folders = self._listed("")
        return sorted(path.rpartition("/")[2] for path in [*(o["path"] for o in objects), *folders])

    def list_after(self, prefix_dir: str, name: str) -> list[Entry]:
        """The objects right below a prefix whose names follow `name`, sorted: a request a thousand."""
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

        return self._asked(prefix_dir, listed)

    def list(self, prefix_dir: str = "") -> list[Entry]:
        """The objects right below a prefix, sorted: a request a thousand."""
        objects = self._listed(prefix_dir)[0]
        if SEEN.stats is not None:
            folder = f"{prefix_dir}/" if prefix_dir else ""
            SEEN.stats.update({(self, f"{folder}{entry_of(o).name}"): stat_of(o) for o in objects})
        return sorted(map(entry_of, objects))

    def _listed(self, prefix_dir: str) -> tuple[Sequence[Any], Sequence[str]]:
        """Objects and folders right below a prefix, without what some writers put there for the folder."""
        key = self._key(prefix_dir)
        listing = self._asked(prefix_dir, lambda: _obstore().list_with_delimiter(self._store, key or None))
        objects = [o for o in listing["objects"] if o["path"] != key]
        return objects, [path for path in listing["common_prefixes"] if path != key]

    def stat(self, rel: str) -> Stat | None:
        """Size, time, a number made of the entity tag; one request, none in a look that has seen it."""
        seen = SEEN.stats
        if seen is None:
            return self._head(rel)
        key = (self, rel)
        if key not in seen:
            seen[key] = self._head(rel)
        return cast("Stat | None", seen[key])

    def _head(self, rel: str) -> Stat | None:
        try:
            head = self._asked(rel, lambda: _obstore().head(self._store, self._key(rel)))
        except FileNotFoundError:
            return None
        except StorageError as refused:
            if refused.fields.get("status") in (400, DENIED):
                # Such an answer to HEAD has no body, which would say why: that to GET has one.
                with suppress(FileNotFoundError):
                    self.read_range(rel, 0, 1)
            raise
        return stat_of(head)

    def exists(self, rel: str) -> bool:
        """Whether there is an object of that name, or one below it: one or two requests."""
        key = self._key(rel)

        def any_below() -> bool:
            return any(len(page) for page in _obstore().list(self._store, key or None))

        return self._asked(rel, any_below) or (bool(rel) and self.stat(rel) is not None)

    def open(self, rel: str) -> pa.NativeFile:
        """The object for random access; its end comes with the first request."""
        if self._location.kind == "az":
            size, tag, tail = self._size(rel)
        else:
            size, tag, tail = self._ranged(rel, {"range": {"suffix": TAIL}}, end_of, (0, "", b""))

        def fetch(start: int, end: int) -> bytes:
            options: dict[str, Any] = {"range": (start, end)}
            if tag:
                options["if_match"] = tag
            return self._ranged(rel, options, lambda reply: bytes(reply.bytes()), b"")

        return pa.PythonFile(Ranges(size, tail, fetch), mode="r")

    def _size(self, rel: str) -> tuple[int, str, bytes]:
        """Size, tag and no bytes: Azure has no ranges from the end."""
        head = self._asked(rel, lambda: _obstore().head(self._store, self._key(rel)))
        return int(head["size"]), tag_of(head), b""

    @contextmanager
    def create(self, folder: str, stem: str) -> Iterator[Unfinished]:
        """An object that is put when it is published; nothing of it is in the store before."""
        with tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY) as spool:
            yield Spooled(cast("IO[bytes]", spool), partial(self._publish, folder))

    def put_if_absent(self, rel: str, data: bytes) -> None:
        """Put an object that must not exist; one that has these very bytes was put by this call.

        Raises:
            FileExistsError: another writer was first; its object is untouched.
        """
        forget()
        put_once(
            rel,
            data,
            put=lambda: _obstore().put(self._store, self._key(rel), data, mode="create", use_multipart=False),
            read=lambda: self.read(rel),
            refusal=lambda wrong: self._refusal(rel, wrong),
        )

    def put(self, rel: str, data: bytes) -> None:
        """Put or replace an object."""
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

        self._asked(rel, put)

    def delete(self, rel: str) -> None:
        """Remove an object; nothing where it is gone already."""
        forget()
        with suppress(FileNotFoundError):
            self._asked(rel, lambda: _obstore().delete(self._store, self._key(rel)))

    def clock_ms(self) -> int:
        """The time by the clock of the store, in ms since 1970: that of an object put now. Three requests."""
        rel = f"_clock-{uuid.uuid4().hex}"
        self.put(rel, b"")
        probe = self._head(rel)
        self.delete(rel)
        return super().clock_ms() if probe is None else probe.mtime_ns // 1_000_000

    def check_commits(self) -> None:
        """Pass if a conditional put is refused where there is an object: asked of one made for it.

        Raises:
            NoConditionalPutError: it is not: of two writers neither would know that the other was first.
            StorageError: the store refuses to write there.
        """
        check_conditional_puts(self)

    def _refusal(self, rel: str, wrong: BaseException) -> StorageError:
        place = f"{self._location.scheme}://{self._location.bucket}/{self._key(rel)}"
        return refusal(place, wrong, self.options)

    def _asked(self, rel: str, request: Callable[[], R]) -> R:
        """What a request gives; a refusal of the store is a StorageError, a missing object is none."""
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
