"""Audits of tables, proved again from what the private record keeps: in Python's integers, without a solver.

Nothing here knows how the proofs were found. A move is a difference of two tables; where it adds up to nothing in every
relation, a reader cannot distinguish the true table from the one at its end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

__all__ = ["ProofFault", "proved_again"]

Document = Mapping[str, Any]
Ints = list[int]
FORMATS = {".parquet", ".csv"}
HIDDEN = "c"
EXACT = ("published", "zero")


class ProofFault(ValueError):
    """Why a stored audit is not proved; its text names no cell and no figure."""


@dataclass(frozen=True, repr=False)
class _Audit:
    """One stored audit as numbers."""

    relations: Sequence[Sequence[tuple[int, int]]]
    low: Sequence[int | None]
    high: Sequence[int | None]
    true: Ints
    whole: bool


def proved_again(document: Document, files: Mapping[str, Path]) -> tuple[int, int]:
    """Prove every sensitive cell of the stored audits again, and that they are about the published files.

    Parameters
    ----------
    document : mapping
        `proofs` of a private record.
    files : mapping of str to Path
        Published files by name.

    Returns
    -------
    tuple of int
        Sensitive cells, and audits.

    Raises
    ------
    ProofFault
        One is not proved, or the files show another table.
    """
    sensitive = 0
    if not document["audits"]:
        raise ProofFault("no audit was kept")
    for each in document["audits"]:
        relations = [
            list(zip(_numbers(cells), _numbers(entries), strict=True))
            for cells, entries in zip(each["relations"]["rows"], each["relations"]["entries"], strict=True)
        ]
        if each["true"] is None:
            raise ProofFault("an audit has no true figures to start from")
        audit = _Audit(relations, _bounds(each["low"]), _bounds(each["high"]), _numbers(each["true"]), each["whole"])
        _require_published(audit, each["tables"], files)
        _require_inside(audit)
        sensitive += _require_hidden(audit, each["levels"], _moves(each["moves"]))
    return sensitive, len(document["audits"])


def _require_published(audit: _Audit, tables: Sequence[Document], files: Mapping[str, Path]) -> None:
    """Whether the files show what the audit took readers to know: its blanks, and its figures elsewhere."""
    if not tables:
        raise ProofFault("an audit names no published table")
    for table in tables:
        found = [path for name, path in files.items() if Path(name).stem == table["table"]]
        if len(found) != 1 or found[0].suffix not in FORMATS:
            raise ProofFault("a table of an audit is not among the published files")
        figures, statuses = _columns(found[0], str(table["column"]))
        variables, hidden = _numbers(table["variables"]), _numbers(table["hidden"])
        if not len(figures) == len(variables) == len(hidden):
            raise ProofFault("a published table has another number of rows than was audited")
        unit = 10 ** int(table["decimals"])
        # Rounded and perturbed figures need not be possible themselves.
        changed: Sequence[int | None] = _numbers(table["shown"]) or [None] * len(figures)
        for figure, status, variable, blank, shown in zip(figures, statuses, variables, hidden, changed, strict=True):
            if (figure is None) != bool(blank) or (status == HIDDEN) != bool(blank):
                raise ProofFault("a published table hides other cells than were audited")
            if figure is not None and shown is not None:
                if Fraction(figure) * unit != shown or status in EXACT:
                    raise ProofFault("a published table shows other figures than were audited")
            elif figure is not None:
                _require_known(Fraction(figure) * unit, status, audit.low[variable], audit.high[variable])


def _require_known(value: Fraction, status: str, low: int | None, high: int | None) -> None:
    """Whether an audit took a published figure for what it is."""
    if (low is not None and value < low) or (high is not None and value > high):
        raise ProofFault("a published table shows other figures than were audited")
    if status == "published" and not low == high == value:
        raise ProofFault("an audit took a figure for uncertain that is published")


def _columns(path: Path, column: str) -> tuple[list[Any], list[Any]]:
    """The figures of a response and their statuses; figures as exact numbers."""
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    names = [column, f"{column}_status"]
    if path.suffix == ".parquet":
        table = pyarrow.parquet.read_table(path, columns=names)
        return table.column(0).to_pylist(), table.column(1).to_pylist()
    options = pyarrow.csv.ConvertOptions(include_columns=names, column_types=dict.fromkeys(names, pa.string()))
    table = pyarrow.csv.read_csv(path, convert_options=options)
    return [Decimal(text) if text else None for text in table.column(0).to_pylist()], table.column(1).to_pylist()


def _require_inside(audit: _Audit) -> None:
    """Whether the true table is one that a reader finds possible."""
    for low, value, high in zip(audit.low, audit.true, audit.high, strict=True):
        if (low is not None and value < low) or (high is not None and value > high):
            raise ProofFault("the true table does not agree with what is published")
    for relation in audit.relations:
        if sum(entry * audit.true[variable] for variable, entry in relation):
            raise ProofFault("the true table does not add up")


def _require_hidden(audit: _Audit, levels: Document, moves: Iterator[tuple[Ints, Ints, int]]) -> int:
    """Whether moves take every sensitive variable as far from its true value as its levels ask for."""
    up, down = ([Fraction(0)] * len(audit.true) for _ in range(2))
    by_variable: list[list[tuple[int, int]]] = [[] for _ in audit.true]
    for number, relation in enumerate(audit.relations):
        for variable, entry in relation:
            by_variable[variable].append((number, entry))
    for variables, numerators, denominator in moves:
        _require_move(audit, by_variable, variables, numerators, denominator)
        for variable, numerator in zip(variables, numerators, strict=True):
            far = Fraction(numerator, denominator)
            up[variable], down[variable] = max(up[variable], far), max(down[variable], -far)
    unit = int(levels["denominator"])
    sides = (_numbers(levels[name]) for name in ("variables", "lower", "upper", "span"))
    count = 0
    for variable, lower, upper, span in zip(*sides, strict=True):
        above, below = up[variable] * unit, down[variable] * unit
        if above < upper or below < lower or above + below < span or not above + below:
            raise ProofFault("no stored table shows that a sensitive cell stays hidden")
        count += 1
    return count


def _require_move(
    audit: _Audit,
    by_variable: Sequence[Sequence[tuple[int, int]]],
    variables: Ints,
    numerators: Ints,
    denominator: int,
) -> None:
    if denominator < 1 or (audit.whole and denominator != 1) or len(set(variables)) != len(variables):
        raise ProofFault("a stored table is not one that a reader finds possible")
    sums: dict[int, int] = {}
    for variable, numerator in zip(variables, numerators, strict=True):
        value = audit.true[variable] * denominator + numerator
        low, high = audit.low[variable], audit.high[variable]
        if (low is not None and value < low * denominator) or (high is not None and value > high * denominator):
            raise ProofFault("a stored table is beyond what a reader knows of its cells")
        for number, entry in by_variable[variable]:
            sums[number] = sums.get(number, 0) + entry * numerator
    if any(sums.values()):
        raise ProofFault("a stored table does not add up to what is published")


def _moves(document: Document) -> Iterator[tuple[Ints, Ints, int]]:
    columns = document["variables"], document["numerators"], _numbers(document["denominators"])
    for variables, numerators, denominator in zip(*columns, strict=True):
        yield _numbers(variables), _numbers(numerators), denominator


def _numbers(text: str) -> Ints:
    return [int(each) for each in text.split()]


def _bounds(text: str) -> list[int | None]:
    return [None if each == "-" else int(each) for each in text.split()]
