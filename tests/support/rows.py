"""Rows of Spark and of Arrow in one spelling, so that they can be compared as text."""

from __future__ import annotations

from datetime import datetime
from typing import Any


def canonical(value: Any) -> Any:
    """Values of Spark and of Arrow in one spelling."""
    if isinstance(value, datetime):
        return value.replace(tzinfo=None).isoformat()
    if isinstance(value, (bytes, bytearray)):
        return bytes(value).hex()
    if type(value).__name__ == "VariantVal":
        value = {"value": value.value, "metadata": value.metadata}
    if hasattr(value, "asDict"):
        value = value.asDict()
    if isinstance(value, dict):
        return sorted((str(k), canonical(v)) for k, v in value.items())
    if isinstance(value, list) and value and type(value[0]) is tuple:
        return canonical(dict(value))
    return [canonical(v) for v in value] if isinstance(value, (list, tuple)) else value
