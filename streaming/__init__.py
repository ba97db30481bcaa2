"""A Spark Structured Streaming query tails the log of a table and brings the index up to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if __name__ != "tailbit.streaming":
    raise ImportError("import tailbit.streaming, not streaming: the folder is the package tailbit.streaming")

if TYPE_CHECKING:
    from tailbit.streaming.job import start

__all__ = ["start"]


def __getattr__(name: str) -> Any:
    """Load `start` on first use: reading the heartbeat needs no Spark."""
    if name == "start":
        from tailbit.streaming.job import start

        return start
    raise AttributeError(name)
