"""What the private record keeps of a passed audit, so that it can be proved again without the solver."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privpipe.tables.audit_problem import UNBOUNDED, AuditProblem, Levels
from privpipe.tables.exact_audit import AuditResult
from privpipe.tables.families import Family
from privpipe.tables.table import measures_of

__all__ = ["StoredProofs", "stored_proofs"]


@dataclass(frozen=True, repr=False, eq=False)
class StoredProofs:
    """The audits of one guarantee. Private: they hold true figures.

    Parameters
    ----------
    audits : sequence of (Family, AuditProblem, AuditResult)
    """

    audits: Sequence[tuple[Family, AuditProblem, AuditResult]]

    def to_dict(self) -> dict[str, Any]:
        """The document: numbers as texts, one for each array, `-` for no bound."""
        return {"edition": "private", "audits": [_document(*each) for each in self.audits]}


def _document(family: Family, problem: AuditProblem, result: AuditResult) -> dict[str, Any]:
    none = np.zeros(0, dtype=np.int64)
    levels = problem.levels if problem.levels is not None else Levels(none, none, none, none)
    matrix = problem.relations
    return {
        "figure": family.key,
        "whole": problem.whole,
        "tables": _places(family),
        "relations": {
            "rows": [_text(matrix.indices[a:b]) for a, b in pairwise(matrix.indptr.tolist())],
            "entries": [_text(matrix.data[a:b]) for a, b in pairwise(matrix.indptr.tolist())],
        },
        "low": _text(problem.low),
        "high": _text(problem.high),
        "true": None if problem.true is None else _text(problem.true),
        "levels": {
            "variables": _text(levels.variables),
            "lower": _text(levels.lower),
            "upper": _text(levels.upper),
            "span": _text(levels.span),
            "denominator": levels.denominator,
        },
        "moves": {
            "variables": [_text(move.columns) for move in result.moves],
            "numerators": [_text(move.numerators) for move in result.moves],
            "denominators": _text([move.denominator for move in result.moves]),
        },
    }


def _places(family: Family) -> list[dict[str, Any]]:
    """Which variable each row of a published table is, by the columns that show figures of the family."""
    found = []
    for table, variables in zip(family.tables[: family.published], family.cells.variables, strict=False):
        measure = table.measures[family.key]
        for response in table.responses:
            if response.kind in ("count", "sum") and measures_of(response)[-1] == family.key:
                found.append(
                    {
                        "table": table.name,
                        "column": response.name,
                        "decimals": measure.places,
                        "variables": _text(variables),
                        "hidden": _text(measure.hidden.astype(np.int64)),
                        "shown": ""
                        if measure.status == "published"
                        else _text(np.where(measure.hidden, 0, measure.shown)),
                    }
                )
    return found


def _text(values: NDArray[Any] | Sequence[int]) -> str:
    return " ".join("-" if value == UNBOUNDED else str(value) for value in np.asarray(values, dtype=object).tolist())


def stored_proofs(verdicts: Iterable[Any]) -> dict[str, dict[str, Any]]:
    """The document of the passed audits among some verdicts, by its name; nothing without one."""
    found = [verdict.evidence.to_dict() for verdict in verdicts if verdict.passed and verdict.evidence is not None]
    if not found:
        return {}
    return {"proofs": {"edition": "private", "audits": [audit for each in found for audit in each["audits"]]}}
