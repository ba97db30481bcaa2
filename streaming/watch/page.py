"""The status page of an application: every table in HTML, those in trouble first. Made at each request.

The page has no script and loads nothing, so it needs no network; the browser asks again every few seconds.
On a narrow screen, as of a phone, the cells of a table stand one below the other, and none is out of sight.
Texts of tables and errors are escaped, and the page's policy forbids any script.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from html import escape
from urllib.parse import parse_qs

from tailbit.base.wording import counted, size_text, visible
from tailbit.checkpoints.builds import build_text
from tailbit.streaming.watch.view import Account, TableState, View

REFRESH_S = 5
"""Seconds between two requests of a page that is open."""

POLICY = "default-src 'none'; style-src 'unsafe-inline'"
"""The Content-Security-Policy of the page."""

ORDER = (
    TableState.REFUSED,
    TableState.STUCK,
    TableState.RETRYING,
    TableState.BEHIND,
    TableState.WAITING,
    TableState.BUILDING,
    TableState.FOLLOWING,
    TableState.PAUSED,
)
"""The states as they are shown, those that a person should see first."""

_STYLE = """
:root { color-scheme: light dark; --line: #8884; --bad: #c62828; --slow: #b26a00; --good: #2e7d32 }
@media (prefers-color-scheme: dark) { :root { --bad: #ff8a80; --slow: #ffb74d; --good: #81c784 } }
body { font: 14px/1.4 system-ui, sans-serif; margin: 1.5rem }
h1 { font-size: 1.3rem; margin: 0 0 .2rem } p { margin: .2rem 0 .8rem }
nav a { margin-right: .9rem } a { color: inherit }
nav a[aria-current] { font-weight: bold; text-decoration: none }
table { border-collapse: collapse; width: 100% }
th { text-align: left; position: sticky; top: 0; background: Canvas }
th, td { padding: .25rem .7rem .25rem 0; border-bottom: 1px solid var(--line); vertical-align: top }
.n { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums }
td:nth-child(2) { min-width: 13rem }
small { display: block; opacity: .75; overflow-wrap: anywhere }
.refused, .stuck { color: var(--bad) } .retrying, .behind, .waiting { color: var(--slow) }
.following { color: var(--good) }
@media (max-width: 60rem) {
  body { margin: .8rem } thead { display: none }
  table, tbody, tr, td { display: block }
  tr { border-bottom: 1px solid var(--line); padding: .5rem 0 }
  td, .n { border: 0; padding: .1rem 0; text-align: left; white-space: normal; overflow-wrap: anywhere }
  td:empty { display: none }
  td:nth-child(3)::before { content: "lag: " } td:nth-child(4)::before { content: "covered, head: " }
  td:nth-child(5)::before { content: "rows: " }
}
"""

_HEADS = (
    ("state", ""),
    ("table", ""),
    ("lag", "n"),
    ("covered, head", "n"),
    ("rows", "n"),
    ("last error", ""),
)


def status_page(view: View, query: str = "") -> str:
    """Return the page; `query`: of its URL, where `state=behind` shows only the tables in that state."""
    accounts = view.accounts()
    counts = Counter(account["state"] for account in accounts)
    selected = parse_qs(query).get("state", [""])[0]
    shown = sorted((a for a in accounts if selected in ("", a["state"])), key=_rank)
    rows = (
        "".join(map(_row, shown)) or f'<tr><td colspan="{len(_HEADS)}">{_why_none(view, selected)}</td></tr>'
    )
    heads = "".join(f'<th scope="col" class="{kind}">{text}</th>' for text, kind in _HEADS)
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{_title(view, counts)}</title>'
        f'<meta name="viewport" content="width=device-width">'
        f'<meta http-equiv="refresh" content="{REFRESH_S}">'
        f"<style>{_STYLE}</style><h1>{_title(view, counts)}</h1>"
        f"<p>{_text(view.life.doing)} · {time.strftime('%H:%M:%S %Z')} · "
        f'<a href="/status.json">status.json</a> · <a href="/metrics">metrics</a></p>'
        f"<nav>{_choices(counts, selected)}</nav>"
        f"<table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>\n"
    )


def _text(value: object) -> str:
    return escape(visible(str(value)))


def _title(view: View, counts: Counter[str]) -> str:
    if not view.is_leading:
        return f"tailbit: {'standing by' if view.has_started else 'starting'}"
    well = counts[TableState.FOLLOWING.value] + counts[TableState.PAUSED.value]
    troubled = counts.total() - well
    return f"tailbit: {counted(counts.total(), 'table')}, {troubled or 'none'} not well"


def _why_none(view: View, selected: str) -> str:
    if not view.is_leading:
        return "The tables are shown by the application that is at work."
    return f"No table is {_text(selected)}." if selected else "The configuration has no table."


def _choices(counts: Counter[str], selected: str) -> str:
    """Return a link for each state that a table is in, and one for all tables."""
    links = [("", f"all {counts.total()}")]
    links += [(state.value, f"{state.value} {counts[state.value]}") for state in ORDER if counts[state.value]]
    return "".join(
        f'<a class="{state}" href="/?state={state}"{" aria-current=page" * (state == selected)}>{words}</a>'
        for state, words in links
    )


def _rank(account: Account) -> tuple[int, float, str]:
    """Return the key that sorts tables: by state, then by the part of the lag contract that is used up."""
    lag = account["lag"]
    used = lag["seconds"] / max(account["max_lag"], 0.001) if lag else 0.0
    return ORDER.index(TableState(account["state"])), -used, account["id"]


def _row(account: Account) -> str:
    state = account["state"]
    cells: Sequence[tuple[str, str]] = (
        (f'"{state}"', f"{state}{_build(account)}<small>{_ago(account['since'])}</small>"),
        ('""', f"{_text(account['id'])}<small>{_text(account['table'])}</small>"),
        ('"n"', _lag(account)),
        ('"n"', _versions(account)),
        ('"n"', f"{account['work']['rows']:,}"),
        ('""', _error(account)),
    )
    return "<tr>" + "".join(f"<td class={kind}>{text}</td>" for kind, text in cells) + "</tr>"


def _build(account: Account) -> str:
    """Return a bar and a line of the build at work for a table; empty for none."""
    build = account["build"]
    if build is None:
        return ""
    fraction = f"{build['part']:.3f}"
    return f' <progress value="{fraction}">{fraction}</progress><small>{_text(build_text(build))}</small>'


def _lag(account: Account) -> str:
    lag = account["lag"]
    if lag is None:
        return "–"
    allowed = f"of {account['max_lag']:g} s"
    if not lag["versions"] and not lag["seconds"]:
        return f"up to date<small>{allowed}</small>"
    behind = f"{counted(lag['versions'], 'commit')}, {size_text(lag['bytes'])}"
    if not lag["versions"]:
        behind = "not looked at since it was up to date"
    return f"{lag['seconds']:,.1f} s<small>{allowed}; {behind}</small>"


def _versions(account: Account) -> str:
    if account["head"] is None:
        return "–"
    covered = "none" if account["covered_name"] is None else account["covered_name"]
    return _text(f"{covered}, {account['head_name']}")


def _error(account: Account) -> str:
    """Return why the table is in its state, what to do, and when it is tried again; else its last error."""
    last = account["last_error"]
    if not account["reason"] and account["lost_indexes"]:
        return f"lost with an earlier index: {_text(', '.join(account['lost_indexes']))}"
    if not account["reason"]:
        return "" if last is None else f"<small>{_ago(last['at'])}, mended: {_text(last['reason'])}</small>"
    retry = account["retry_in"]
    again = "" if retry is None else f"; tried again in {retry:.0f} s"
    attempts = f" ({counted(account['failures'], 'attempt')} failed{again})" if account["failures"] else ""
    return f"{_text(account['reason'])}{attempts}<small>{_text(account['remedy'])}</small>"


def _ago(moment: float) -> str:
    """Return how long ago a moment was, in the largest unit that is whole."""
    seconds = max(0.0, time.time() - moment)
    for unit, name in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= unit:
            return f"{seconds // unit:.0f} {name} ago"
    return f"{seconds:.0f} s ago"
