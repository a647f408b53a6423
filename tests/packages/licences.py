"""The licences of all direct dependencies, from installed metadata: `python -m tests.packages.licences`."""

from __future__ import annotations

import importlib.metadata
import re
from collections.abc import Iterator
from pathlib import Path

from packaging.utils import canonicalize_name

from tests.packages.asked import DEVELOPERS, PROJECT, asked_for, extras, of_extra, project

__all__ = ["ALLOWED", "PAGE", "direct", "licence_of", "main", "page", "rows_of"]

PAGE = PROJECT / "docs" / "reference" / "licences.md"
ALLOWED = {
    "0BSD",
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "CC0-1.0",
    "HPND",
    "ISC",
    "LLVM-exception",
    "MIT",
    "MPL-2.0",
    "PSF-2.0",
    "Python-2.0",
    "Unlicense",
    "Zlib",
}
"""Parts of expressions: what one may use, change and pass on, also in works under other licences."""
_SAID = (
    (r"apache(?!.*lgpl)", "Apache-2.0"),
    (r"new bsd|3-clause|bsd 3|modified bsd", "BSD-3-Clause"),
    (r"simplified bsd|2-clause|bsd 2", "BSD-2-Clause"),
    (r"\bbsd\b", "BSD-3-Clause"),
    (r"\bmit\b", "MIT"),
    (r"\bisc\b", "ISC"),
    (r"mozilla|mpl", "MPL-2.0"),
    (r"lgpl|lesser general", "LGPL-3.0-only"),
    (r"python software foundation|psf", "PSF-2.0"),
)
"""What metadata without an SPDX expression says."""


def direct(names: tuple[str, ...]) -> list[str]:
    """The names that these extras ask for next to the package."""
    return sorted({canonicalize_name(each.name) for name in names for each in of_extra(name)})


def licence_of(name: str) -> str | None:
    """The SPDX expression of what is installed, or its nearest; None where nothing is installed."""
    try:
        said = importlib.metadata.metadata(name)
    except importlib.metadata.PackageNotFoundError:
        return None
    expression = said.get("License-Expression")
    if expression:
        return str(expression)
    classified = [each.rpartition(":: ")[2] for each in said.get_all("Classifier") or [] if each.startswith("License")]
    for text in (*classified, (said.get("License") or "").partition("\n")[0]):
        for pattern, found in _SAID:
            if re.search(pattern, text.casefold()):
                return found
    return "unknown"


def rows_of(text: str) -> dict[str, str]:
    """The licence of each package that a page lists."""
    return dict(re.findall(r"^\| (?!package )([a-z0-9-]+) \| [^|]* \| ([^|]+) \|$", text, re.MULTILINE))


def page(known: dict[str, str]) -> str:
    """The page; `known` has the licences of what is not installed here."""
    return "\n".join(_lines(known)) + "\n"


def _lines(known: dict[str, str]) -> Iterator[str]:
    yield "# Licences"
    yield ""
    yield "privpipe is under Apache-2.0 (`LICENSE`); the data of the demo, UCI Adult, is under CC BY 4.0 (`NOTICE`)."
    yield "What it asks for directly, by the metadata of the packages (`make licences`); the bill of materials of an"
    yield "image (`make sbom`) lists what these ask for in turn."
    yield ""
    yield "| package | wanted by | licence |"
    yield "|---|---|---|"
    base = {canonicalize_name(each.name) for each in asked_for(())}
    served = [name for name in extras() if name not in ("all", *DEVELOPERS)]
    for name in sorted(base.union(direct(tuple(served)))):
        by = ["privpipe"] * (name in base) + [f"`[{extra}]`" for extra in served if name in direct((extra,))]
        yield f"| {name} | {', '.join(by)} | {licence_of(name) or known.get(name, 'unknown')} |"
    yield ""
    yield "Tests and documentation use more, which no user installs:"
    yield ""
    yield "| package | wanted by | licence |"
    yield "|---|---|---|"
    for name in sorted(set(direct(DEVELOPERS)) - base - set(direct(tuple(served)))):
        by = [f"`[{extra}]`" for extra in DEVELOPERS if name in direct((extra,))]
        yield f"| {name} | {', '.join(by)} | {licence_of(name) or known.get(name, 'unknown')} |"


def main(place: Path = PAGE) -> int:
    """Write the page; 1 where a licence is unknown."""
    known = rows_of(place.read_text(encoding="utf-8")) if place.exists() else {}
    text = page(known)
    place.write_text(text, encoding="utf-8")
    unknown = [name for name, licence in rows_of(text).items() if licence == "unknown"]
    print(f"{place}: {len(rows_of(text))} packages", *(f"unknown: {name}" for name in unknown), sep="\n")
    return int(bool(unknown or not project()))


if __name__ == "__main__":
    raise SystemExit(main())
