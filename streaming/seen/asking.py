"""Requests to the pages of an application, past any proxy: a page is on this machine or in its cluster."""

from __future__ import annotations

from urllib.request import OpenerDirector, ProxyHandler, build_opener


def direct() -> OpenerDirector:
    """Return an opener of URLs that takes no notice of the proxies that the environment names."""
    return build_opener(ProxyHandler({}))
