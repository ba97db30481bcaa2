"""Stores of obstore behind the door: the tests' are in memory, by name, for as long as the process lives."""

from __future__ import annotations

import io
import zlib
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import obstore
import pyarrow as pa
from obstore.exceptions import AlreadyExistsError
from obstore.store import MemoryStore

from tailbit.errors import StorageError, UnsafePathError
from tailbit.tables.storage import NO_OPTIONS, Entry, Stat, Storage, StorageOptions, Unfinished
from tailbit.tables.storage.door import WHOLE
from tailbit.tables.storage.ranges import whole

SCHEME = "memory"


class ObjectStorage(Storage):
    """The objects below `memory://<store>/<prefix>`."""

    def __init__(self, root: str, options: StorageOptions = NO_OPTIONS) -> None:
        self.root, self.options = root.rstrip("/"), options
        store, _, self._prefix = self.root.removeprefix(f"{SCHEME}://").partition("/")
        self.store = MEMORY.setdefault(store, MemoryStore())

    @property
    def uri(self) -> None:
        """Nothing but this process reaches the store."""

    def _key(self, rel: str) -> str:
        return "/".join(part for part in (self._prefix, rel) if part)

    def resolve(self, path: str) -> str:
        """The name itself."""
        if not path or "\0" in path or ".." in path.split("/"):
            raise UnsafePathError(file=path, path=self.root, reason="it leaves the table")
        if "://" in path or path.startswith("/"):
            raise StorageError(path=path, reason="it is in another store")
        return path

    def read(self, rel: str, limit: int = WHOLE) -> bytes:
        """All bytes of an object."""
        return whole(obstore.get(self.store, self._key(rel)), rel, limit)

    def read_range(self, rel: str, offset: int, length: int) -> bytes:
        """At most `length` bytes from `offset`."""
        size = int(obstore.head(self.store, self._key(rel))["size"])
        end = min(offset + length, size)
        if end <= offset:
            return b""
        return bytes(obstore.get_range(self.store, self._key(rel), start=offset, end=end))

    def contents(self) -> list[str] | None:
        """The names right below the root."""
        found = obstore.list_with_delimiter(self.store, self._prefix or None)
        paths = [o["path"] for o in found["objects"]] + list(found["common_prefixes"])
        return sorted(path.rpartition("/")[2] for path in paths)

    def walk(self, prefix_dir: str = "", skip: Collection[str] = ()) -> list[Entry]:
        """The objects below a prefix at any depth, sorted."""
        folder = self._key(prefix_dir)
        found = [o for page in obstore.list(self.store, folder or None) for o in page]
        names = [o["path"][len(folder) + 1 if folder else 0 :] for o in found]
        entries = [Entry(n, int(o["size"]), _nanos(o) // 10**6) for n, o in zip(names, found, strict=True)]
        return sorted(entry for entry in entries if not set(entry.name.split("/")[:-1]) & set(skip))

    def list(self, prefix_dir: str = "") -> list[Entry]:
        """The objects right below a prefix, sorted."""
        found = obstore.list_with_delimiter(self.store, self._key(prefix_dir) or None)["objects"]
        return sorted(Entry(o["path"].rpartition("/")[2], int(o["size"]), _nanos(o) // 10**6) for o in found)

    def stat(self, rel: str) -> Stat | None:
        """Size, time and a number made of the entity tag, which is new with every put."""
        try:
            found = obstore.head(self.store, self._key(rel))
        except FileNotFoundError:
            return None
        return Stat(int(found["size"]), _nanos(found), zlib.crc32(found["e_tag"].encode()))

    def exists(self, rel: str) -> bool:
        """Whether there is an object of that name, or one below it."""
        if rel and self.stat(rel) is not None:
            return True
        found = obstore.list_with_delimiter(self.store, self._key(rel) or None)
        return bool(found["objects"] or found["common_prefixes"])

    def open(self, rel: str, end: int = 0) -> pa.NativeFile:
        """The object for random access, a range request a read."""
        found = self.stat(rel)
        if found is None:
            raise FileNotFoundError(rel)
        return pa.PythonFile(_Ranges(self, rel, found.size), mode="r")

    @contextmanager
    def create(self, folder: str, stem: str) -> Iterator[Unfinished]:
        """An object that is put as a whole."""
        yield _Buffered(self, folder)

    def put_if_absent(self, rel: str, data: bytes) -> None:
        """Put an object that must not exist."""
        try:
            obstore.put(self.store, self._key(rel), data, mode="create")
        except AlreadyExistsError as other:
            raise FileExistsError(rel) from other

    def put(self, rel: str, data: bytes) -> None:
        """Put or replace an object."""
        obstore.put(self.store, self._key(rel), data)

    def delete(self, rel: str) -> None:
        """Remove an object."""
        with suppress(FileNotFoundError):
            obstore.delete(self.store, self._key(rel))

    def everything(self) -> dict[str, bytes]:
        """All objects below the root: name to bytes."""
        pages = obstore.list(self.store, self._prefix or None)
        keys = [found["path"] for page in pages for found in page]
        return {key[len(self._key("x")) - 1 :]: bytes(obstore.get(self.store, key).bytes()) for key in keys}


class _Buffered(Unfinished):
    """An object in this process until it is put."""

    def __init__(self, storage: ObjectStorage, folder: str) -> None:
        self.sink, self._storage, self._folder = pa.BufferOutputStream(), storage, folder

    def written(self) -> pa.NativeFile:
        self._data = self.sink.getvalue()
        return pa.BufferReader(self._data)

    def publish(self, name: str) -> None:
        self._storage.put_if_absent(f"{self._folder}/{name}", self._data.to_pybytes())


class _Ranges(io.RawIOBase):
    """An object as a Python file."""

    def __init__(self, storage: ObjectStorage, rel: str, size: int) -> None:
        self._storage, self._rel, self._size, self._at = storage, rel, size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        return self._at

    def read(self, size: int | None = -1) -> bytes:
        wanted = self._size - self._at if size is None or size < 0 else size
        found = self._storage.read_range(self._rel, self._at, wanted)
        self._at += len(found)
        return found


MEMORY: dict[str, MemoryStore] = {}
"""The stores of this process by name."""


def _nanos(found: Any) -> int:
    return int(found["last_modified"].timestamp() * 1_000_000) * 1_000
