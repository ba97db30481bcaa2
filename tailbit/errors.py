"""Every error of tailbit by its public name; see `tailbit.base.errors`."""

from __future__ import annotations

from tailbit.base.errors import *  # noqa: F403
from tailbit.base.errors import __getattr__  # noqa: F401
