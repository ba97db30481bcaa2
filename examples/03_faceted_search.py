"""Lesson 3: a search page with facets, as a shop has: filters, counts beside each value, pages of rows.

Run: python examples/03_faceted_search.py [FOLDER]    (after lesson 1, in the same folder)
"""

import functools
import operator
import sys

import tailbit
from tailbit import Condition, col

folder = sys.argv[1] if len(sys.argv) > 1 else "lessons"
orders = tailbit.open(f"{folder}/orders")
FACETS = ("country", "device", "status")


def condition_of(chosen: dict[str, list[str]], without: str = "") -> Condition | None:
    """Join the choices by AND; None, which is every row, where there are none."""
    conditions = [col(name).isin(values) for name, values in chosen.items() if name != without]
    return functools.reduce(operator.and_, conditions) if conditions else None


def page(chosen: dict[str, list[str]], number: int = 0, size: int = 3) -> None:
    """Print what a search page shows for the values that were chosen."""
    print("chosen:", chosen or "nothing")
    for facet in FACETS:
        # Each facet counts by the choices in the others, so that one may choose a second value of it.
        counts = orders.where(condition_of(chosen, without=facet)).top(facet, 3)
        print(f"  {facet:8}", ", ".join(f"{value} {count:,}" for value, count in counts.items()))
    matching = orders.where(condition_of(chosen))
    best_first = ["amount DESC", "day", "country"]
    rows = matching.read(["country", "amount"], order_by=best_first, offset=number * size, limit=size)
    print(f"  {matching.count():,} orders, page {number + 1}:", rows.to_pydict())


page({})
page({"country": ["SE"]})
page({"country": ["SE", "PL"], "status": ["open"]}, number=1)

# Every combination of two columns at once, with counts: GROUP BY country, status.
pairs = orders.where().facets("country", "status")
print("most frequent pairs:", list(pairs.items())[:2])

# With sums by group: of a column without an index, as `amount` is, its rows are read.
for country, told in orders.where("status = 'returned'").facets("country", sum="amount").items():
    print(f"  {country}: {told['count']:,} returned, {told['sum(amount)']:,} in all")
