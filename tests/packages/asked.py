"""What pyproject.toml asks for: requirements by extra, at their lower bounds too.

`python -m tests.packages.asked EXTRA ...` prints the requirements of the package and of these extras, each at its
lowest version.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

__all__ = ["DEVELOPERS", "PROJECT", "asked_for", "extras", "lowest", "of_extra", "project"]

PROJECT = Path(__file__).parents[2]
DEVELOPERS = ("docs", "test")
"""Extras for those who work on privpipe; no code of the package needs them."""


def project() -> dict[str, Any]:
    """The table `project` of pyproject.toml."""
    found: dict[str, Any] = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return found


def extras() -> dict[str, list[str]]:
    """The requirements of each extra, as they are written."""
    found: dict[str, list[str]] = project()["optional-dependencies"]
    return found


def of_extra(name: str) -> Iterator[Requirement]:
    """What an extra asks for, also through other extras."""
    for written in extras()[name]:
        each = Requirement(written)
        if each.name == "privpipe":
            for other in sorted(each.extras):
                yield from of_extra(other)
        else:
            yield each


def asked_for(names: Iterable[str]) -> list[Requirement]:
    """What the package asks for with these extras."""
    return [*map(Requirement, project()["dependencies"]), *(each for name in names for each in of_extra(name))]


def lowest(names: Iterable[str]) -> list[str]:
    """The same, each name once and at the highest of its lower bounds.

    Examples
    --------
    >>> [line for line in lowest(["sklearn"]) if line.startswith("scikit")]
    ['scikit-learn==1.6']
    """
    bounds: dict[str, tuple[Version, str]] = {}
    for each in asked_for(names):
        found = re.search(r">=\s*([\d.]+)", str(each.specifier))
        if found is None:
            raise SystemExit(f"{each} says no lowest version")
        inside = f"[{','.join(sorted(each.extras))}]" if each.extras else ""
        name, low = canonicalize_name(each.name), Version(found[1])
        if name not in bounds or bounds[name][0] < low:
            bounds[name] = low, f"{each.name}{inside}=={found[1]}"
    return [line for _, line in bounds.values()]


if __name__ == "__main__":
    print(*lowest(sys.argv[1:]), sep="\n")
