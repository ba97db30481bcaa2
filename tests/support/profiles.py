"""How many examples a property test tries: few in CI, as many as asked for by `make fuzz-properties`."""

from __future__ import annotations

import os

from hypothesis import settings

FACTOR = int(os.environ.get("TAILBIT_EXAMPLES", "1"))


def examples(count: int) -> settings:
    """A decorator: so many examples in CI, a multiple with TAILBIT_EXAMPLES."""
    return settings(max_examples=count * FACTOR)
