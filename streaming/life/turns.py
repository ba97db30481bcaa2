"""Short turns of threads at Python's interpreter, so that a small batch does not wait for a large one.

Each request of a store lets the interpreter go, and gets it back only when another thread ends its turn: 5 ms
by default, while some thread computes. A batch makes such a request for each file, and several to commit.
"""

from __future__ import annotations

import sys

TURN_S = 0.0005
"""Longest turn of a thread that computes while others wait, in seconds."""


def take_short_turns() -> None:
    """Let the threads of this process take turns of `TURN_S`, unless they are shorter already."""
    sys.setswitchinterval(min(sys.getswitchinterval(), TURN_S))
