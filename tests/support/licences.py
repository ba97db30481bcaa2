"""The licences of all that is installed beside tailbit: `python -m support.licences [--write]`, in tests.

What a package needs is read from its own metadata, and so is its licence: an expression of SPDX, else its
classifiers, else the text that older packages give. NOTICE at the repository's root has the list.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

NOTICE = Path(__file__).parents[2] / "NOTICE"
SHIPPED = ("iceberg-catalogs", "spark")
"""Extras that people install to use tailbit; those for tests and benchmarks stay with us."""

ALLOWED = {
    "0BSD",
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "CC0-1.0",
    "ISC",
    "MIT",
    "MPL-2.0",
    "PSF-2.0",
    "Zlib",
}
"""Licences, by their names of SPDX, that go with a product under Apache-2.0 which links to what has them."""

_CLASSIFIERS = {
    "Apache Software License": "Apache-2.0",
    "BSD License": "BSD-3-Clause",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-2.0",
}
_FIELDS = ("License-Expression", "Classifier", "License")
_LINE = re.compile(r"^- (\S+): (.+)$", re.M)


def requirements(name: str, extras: Sequence[str]) -> dict[str, set[str]]:
    """What a package needs on this machine, directly or not, by name, and what each of it needs."""
    needs: dict[str, set[str]] = {}
    seen, remaining = set(), [(name, tuple(extras))]
    while remaining:
        package, of = remaining.pop()
        if (canonicalize_name(package), of) in seen:
            continue
        seen.add((canonicalize_name(package), of))
        try:
            metadata = distribution(package)
        except PackageNotFoundError as missing:
            raise SystemExit(f"{package} is not installed: make .venv/.test-installed") from missing
        direct = needs.setdefault(canonicalize_name(package), set())
        for requirement in map(Requirement, metadata.requires or ()):
            marker = requirement.marker
            if marker is None or any(marker.evaluate({"extra": extra}) for extra in ("", *of)):
                direct.add(canonicalize_name(requirement.name))
                remaining.append((requirement.name, tuple(sorted(requirement.extras))))
    return {package: direct - {package} for package, direct in sorted(needs.items())}


def needed(name: str, extras: Sequence[str]) -> dict[str, Distribution]:
    """What a package needs on this machine, directly or not, by name; without the package itself."""
    names = requirements(name, extras)
    return {package: distribution(package) for package in names if package != canonicalize_name(name)}


def licence(package: Distribution) -> str:
    """The licence of a package as an expression of SPDX, or what the package says where that is none."""
    said = {name: package.metadata.get_all(name) or [] for name in _FIELDS}
    listed = [_CLASSIFIERS.get(value.split(" :: ")[-1]) for value in said["Classifier"]]
    known = " OR ".join(one for one in listed if one)
    return next(filter(None, [*said["License-Expression"], known, *said["License"]]), "unknown").splitlines()[
        0
    ]


def refused(expression: str) -> list[str]:
    """The licences of an expression that leave no way to use the package.

    >>> refused("MPL-2.0 AND (Apache-2.0 OR MIT)"), refused("MIT AND GPL-2.0-only")
    ([], ['GPL-2.0-only'])
    """
    names = [re.split(r"\s+OR\s+", part) for part in re.split(r"\s+AND\s+", re.sub(r"[()]", "", expression))]
    return [choice[0] for choice in names if not ALLOWED & set(choice)]


def named(notice: str) -> dict[str, str]:
    """The packages that a notice names, with their licences."""
    return dict(_LINE.findall(notice))


def findings(notice: str, packages: dict[str, Distribution]) -> Iterator[str]:
    """What is wrong with a notice or with a licence, a line each."""
    listed = named(notice)
    for name, package in packages.items():
        found = licence(package)
        if listed.get(name) != found:
            yield f"{name} has the licence {found}; NOTICE says {listed.get(name)}: make licences"
        for one in refused(found):
            yield f"{name} has a licence that is not allowed here: {one}"


def main(given: Sequence[str] | None = None) -> int:
    """Check the list, or write it; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the list into NOTICE")
    asked = parser.parse_args(given)
    packages, text = needed("tailbit", SHIPPED), NOTICE.read_text(encoding="utf-8")
    if asked.write:
        # What other releases of Python need stays.
        listed = named(text) | {name: licence(package) for name, package in packages.items()}
        lines = "\n".join(f"- {name}: {expression}" for name, expression in sorted(listed.items()))
        text = f"{_LINE.sub('', text).rstrip()}\n\n{lines}\n"
        NOTICE.write_text(text, encoding="utf-8")
    found = list(findings(text, packages))
    print("\n".join(found or [f"{len(packages)} packages, all of licences that are allowed"]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
