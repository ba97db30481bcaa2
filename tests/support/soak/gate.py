"""Whoever uses the table passes the gate; whoever takes it away for a moment shuts it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass
class Gate:
    """Many may be inside at once; none is while it is shut."""

    _inside: int = 0
    _shut: bool = False
    _changed: threading.Condition = field(default_factory=threading.Condition)

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Pass when the gate is open."""
        with self._changed:
            self._changed.wait_for(lambda: not self._shut)
            self._inside += 1
        try:
            yield
        finally:
            with self._changed:
                self._inside -= 1
                self._changed.notify_all()

    @contextmanager
    def shut(self) -> Iterator[None]:
        """Shut it, and wait until nobody is inside."""
        with self._changed:
            self._changed.wait_for(lambda: not self._shut)
            self._shut = True
            self._changed.wait_for(lambda: not self._inside)
        try:
            yield
        finally:
            with self._changed:
                self._shut = False
                self._changed.notify_all()
