"""What a person looks at before a first release is kept: the checklist of each table, by the released files alone.

The released records are compared with the table of the source as a whole, never record by record: whoever gets the
release has no more.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

if TYPE_CHECKING:
    from .measure import Run

__all__ = ["CHECKS", "failures", "style_of", "styles_of"]

CHECKS = ("recovered", "blanked", "labels", "zeros", "means", "ages", "sensitive", "rows")
"""recovered: a generalized column is given back. blanked: a column has lost more than a fifth of its cells. labels:
a column has labels of several styles. zeros, means: numbers that are still numbers have another share of zeros or
another mean. ages: a label of ages has no place in their order. sensitive: no sensitive column is judged where the
policy by hand judges one. rows: fewer than 97 % of the records are released."""
MOST_BLANK = 0.2
MOST_ZEROS = 0.01
MOST_MEAN = 0.02
LEAST_ROWS = 0.97
MARK = "*"
OTHER = "other"
STYLES = (
    ("number", re.compile(r"-?\d+(-\d+| to -?\d+)?")),
    ("decimal", re.compile(r"-?\d+\.\d+(e[+-]?\d+)?")),
    ("interval", re.compile(r"[\[(]-?(\d|inf)[^A-Za-z]*")),
    ("time", re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:.*")),
    ("day", re.compile(r"\d{4}-\d\d-\d\d")),
    ("month", re.compile(r"\d{4}-(0\d|1[0-2])")),
    ("quarter", re.compile(r"\d{4}-Q[1-4]")),
    ("placeholder", re.compile(r"\d+[xX*_]+")),
)
TAIL = re.compile(r"(<|>=)-?\d+(\.\d+)?")
"""The label of the lowest or the highest values, which goes with every style."""
ALIKE = ({"day", "month", "quarter", "number"}, {"number", "decimal"})
"""Styles that are one: parts of dates, each shorter than the other; single numbers next to ranges of them."""
AGE = re.compile(
    r"-?\d+(\.\d+)?(-\d+| to -?\d+|\+)?|[<>=]+ ?-?\d+(\.\d+)?"
    r"|[\[(]-?(\d+(\.\d+)?|inf), ?(\d+(\.\d+)?|inf)[\])]|\d+ and (more|less)"
)


def style_of(label: str) -> str:
    """The style of a label; `text` of one that is none of those of numbers and dates.

    Examples
    --------
    >>> [style_of(label) for label in ("20-29", "-9 to -5", "2009-12", "192x", "[0, 16)", "Never-married")]
    ['number', 'number', 'month', 'placeholder', 'interval', 'text']
    """
    for name, pattern in reversed(STYLES):
        if pattern.fullmatch(label):
            return name
    return "text"


def styles_of(released: pa.ChunkedArray, original: pa.ChunkedArray) -> set[str]:
    """The styles of what a column was given: labels that its source does not have."""
    if not pa.types.is_string(released.type):
        return set()
    known = set(pc.unique(pc.cast(original, pa.string())).to_pylist())
    labels = [each for each in pc.unique(released).to_pylist() if each not in (None, MARK, OTHER)]
    labels = [each for each in labels if not TAIL.fullmatch(each)]
    found = {style_of(each) for each in labels if each not in known or style_of(each) != "text"}
    if pa.types.is_integer(original.type) and "interval" in found:
        found.add("interval of whole numbers")
    return found


def failures(run: Run, data: Path, place: Path, age: str, *, judged: bool) -> dict[str, str]:
    """The checks that a release fails, each with the columns it fails for.

    Parameters
    ----------
    data : Path
        The table as CSV.
    place : Path
        The folder of the run.
    age : str
        The column of ages, or another whose labels have an order.
    judged : bool
        Whether a sensitive column has to be judged.
    """
    if not run.met:
        return dict.fromkeys(CHECKS, "not released")
    original = _read(data, run.policy)
    folder = next(each for each in sorted((place / "published").iterdir()) if not each.name.startswith("."))
    released = pa.parquet.read_table(folder)
    found = {
        "recovered": ", ".join(_recovered(run.verdict)),
        "blanked": ", ".join(_blanked(run.columns)),
        "labels": ", ".join(_mixed(released, original)),
        "zeros": ", ".join(_moved(released, original, _zeros, MOST_ZEROS)),
        "means": ", ".join(_moved(released, original, _mean, MOST_MEAN)),
        "ages": ", ".join(_unordered(released, original, age)),
        "sensitive": "none judged" if judged and not _judged(run.policy) else "",
        "rows": "" if released.num_rows >= LEAST_ROWS * original.num_rows else f"{released.num_rows:,}",
    }
    return {name: each for name, each in found.items() if each}


def _read(data: Path, policy: Mapping[str, Any]) -> pa.Table:
    source = policy["source"]
    options = pa.csv.ParseOptions(delimiter=source.get("delimiter", ","), newlines_in_values=True)
    nulls = ["", *source.get("null_values", [])]
    return pa.csv.read_csv(
        data, parse_options=options, convert_options=pa.csv.ConvertOptions(null_values=nulls, strings_can_be_null=True)
    )


def _recovered(verdict: Mapping[str, Any]) -> Iterator[str]:
    """Recovery that does not hold: a release that is published has none, unless its policy asks for less."""
    for each in verdict["guarantees"]:
        if each["name"] == "recovery" and (each["outcome"] != "pass" or (each["threshold"] or 0) > 0.5):
            yield "recovery"


def _blanked(columns: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    for name, row in columns.items():
        if row["alarm"] in ("blank", "one label") or (row["blanked"] or 0) > MOST_BLANK:
            yield f"{name} {row['blanked'] or 1:.2f}"


def _mixed(released: pa.Table, original: pa.Table) -> Iterator[str]:
    for name in released.column_names:
        if name not in original.column_names:
            continue
        found = styles_of(released[name], original[name])
        clean = len(found) < 2 or any(found <= alike for alike in ALIKE)
        if not clean or found & {"placeholder", "time", "interval of whole numbers"}:
            yield f"{name} ({'/'.join(sorted(found))})"


def _numbers(table: pa.Table, name: str) -> pa.ChunkedArray | None:
    if name not in table.column_names or not _numeric(table[name].type):
        return None
    return pc.drop_null(pc.cast(table[name], pa.float64(), safe=False))


def _numeric(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _moved(released: pa.Table, original: pa.Table, figure: Any, most: float) -> Iterator[str]:
    for name in released.column_names:
        after, before = _numbers(released, name), _numbers(original, name)
        if after is not None and before is not None and len(after) and len(before):
            moved = figure(after, before)
            if moved > most:
                yield f"{name} {moved:.3f}"


def _zeros(after: pa.ChunkedArray, before: pa.ChunkedArray) -> float:
    shares = [(pc.sum(pc.equal(each, 0.0)).as_py() or 0) / len(each) for each in (after, before)]
    return abs(shares[0] - shares[1])


def _mean(after: pa.ChunkedArray, before: pa.ChunkedArray) -> float:
    """The change of the mean, in the mean size of a value."""
    size = pc.mean(pc.abs(before)).as_py()
    return float(abs(pc.mean(after).as_py() - pc.mean(before).as_py()) / size) if size else 0.0


def _unordered(released: pa.Table, original: pa.Table, age: str) -> Iterator[str]:
    if age not in released.column_names or age not in original.column_names:
        return
    if not pa.types.is_string(released[age].type) or not _numeric(original[age].type):
        return
    labels = [each for each in pc.unique(released[age]).to_pylist() if each not in (None, MARK)]
    if any(not AGE.fullmatch(each) for each in labels):
        yield age


def _judged(policy: Mapping[str, Any]) -> bool:
    sensitive = {
        name
        for name, spec in policy.get("columns", {}).items()
        if (spec if isinstance(spec, str) else spec.get("role")) == "sensitive"
    }
    entries = [entry for entry in policy.get("guarantees", ()) if isinstance(entry, Mapping)]
    return any(
        asked.get("column") in sensitive for entry in entries for asked in entry.values() if isinstance(asked, Mapping)
    )
