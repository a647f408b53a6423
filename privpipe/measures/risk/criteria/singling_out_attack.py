"""Singling out: predicates that isolate a row of the release, and the people they isolate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import numpy as np
from annotated_types import Ge, Le
from typing_extensions import Doc

from privpipe.blocks import Verdict
from privpipe.blocks.arrays import Ints
from privpipe.blocks.file_pair import TableFiles
from privpipe.blocks.guarantee import short
from privpipe.blocks.marks import OwnColumns, Stricter
from privpipe.errors import UsageError
from privpipe.measures.risk.criteria.controlled_attack import ControlledAttack, keyed_rows
from privpipe.roles import Roles
from privpipe.tolerance import at_most

if TYPE_CHECKING:
    from privpipe.measures.risk.criteria.predicates import Coded, Predicates

__all__ = ["SinglingOutAttack"]

LEAST_PREDICATES = 100
HARDLY = "the release isolates hardly anyone within itself; this attack cannot judge it"


@dataclass(frozen=True, kw_only=True, repr=False)
class SinglingOutAttack(ControlledAttack):
    """Share of predicates, written by who sees the release alone, that match exactly one person of the original.

    Parameters
    ----------
    columns : tuple of str, optional
        Default: all released columns that are not identifiers.
    holdout : str, optional
        Table of records of the same population that the release was not made from: the control. It should be as large
        as the original or larger.
    at_most : float, optional
        In [0, 1]. Left out (under `measures:`), the figures are reported.
    figure : {"excess", "gain", "success"}, optional
        Over the control, over nothing, or neither. Default: excess with a holdout, else success.
    mode : {"multivariate", "univariate"}
        Conjunctions of the values of rows in `size` columns, or single values that are rare or extreme.
    size : int
        Columns of a conjunction, 1 to 8.
    attacks : int, optional
        Predicates to be tried, 100 to 100,000; None: all distinct ones, up to 5 million.
    confidence : float
        Of the limits that are compared, in (0, 1).
    if_no_predicates : {"error", "pass"}
        What it means that fewer than 100 predicates isolate a row of the release. `pass`: none is a pass, and of fewer
        than 100 the estimate is compared instead of its limit.

    Notes
    -----
    A number gives `>=` above the release's median, else `<=`; a missing value `is null`; others equality, and a label
    matches all values under it. Duplicates stay: who has a twin is not isolated. By chance a predicate isolates up to
    0.37 of the time, so lower thresholds need the excess. Of a larger holdout samples of the original's size are
    worked out exactly; a smaller one under-states the control, and the verdict states it.

    Examples
    --------
    >>> import pyarrow as pa
    >>> people = pa.table({"a": list(range(300)), "b": [each % 7 for each in range(300)]})
    >>> attack = SinglingOutAttack(mode="univariate", at_most=0.4)
    >>> verdict = attack.judge_tables(TableFiles(original=people, released=people))
    >>> verdict.outcome, verdict.observed["success"], verdict.observed["attacked"]
    ('fail', 1.0, 302)
    """

    source = "Giomi, Boenisch, Wehmeyer, Tasnadi, PoPETs 2023(2); Cohen, Nissim, PNAS 117, 2020"
    threat = "An attacker who sees the release alone describes a person so closely that no one else fits."
    formula = (
        "a = share of predicates unique in the release that match one original; (a - control)/(1 - control) <= at_most"
    )
    choose = (
        "0.1 for the excess over a holdout of the original's size, as a starting point; below 0.37 success and gain "
        "refuse what chance does."
    )

    columns: Annotated[
        OwnColumns, Doc("columns of predicates; left out: all released ones that are not identifiers")
    ] = None
    mode: Annotated[
        Literal["multivariate", "univariate"],
        Stricter("equal"),
        Doc("conjunctions over several columns, or rare and extreme values of one"),
    ] = "multivariate"
    size: Annotated[int, Ge(1), Le(8), Stricter("equal"), Doc("columns of a conjunction")] = 3
    attacks: Annotated[
        int | None,
        Ge(LEAST_PREDICATES),
        Le(100_000),
        Stricter("equal"),
        Doc("predicates wanted; null: all distinct ones"),
    ] = 2_000
    if_no_predicates: Annotated[
        Literal["error", "pass"],
        Stricter("equal"),
        Doc("what it means that fewer than 100 predicates isolate a row of the release"),
    ] = "error"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.hold_columns()
        if self.columns is not None and self.mode == "multivariate" and self.size > len(self.columns):
            raise UsageError(f"SinglingOutAttack: size {self.size} is more than the {len(self.columns)} columns")

    def compared_columns(self, roles: Roles) -> tuple[str, ...]:
        return self.columns or tuple(name for name in roles.columns if name not in roles.unreleased)

    def judge_tables(self, files: TableFiles) -> Verdict:
        from privpipe.measures.risk.criteria.predicates import coded

        reason = self.unjudgeable(files)
        if reason:
            return self.not_judged(reason)
        names = files.original.schema.names
        if self.mode == "multivariate" and self.size > len(names):
            return self.not_judged(f"predicates of {self.size} columns need as many, and there are {len(names)}")
        found = coded(files.with_others(files.holdout), files.original.num_rows, names, self.name())
        predicates = self._predicates(files, found)
        if predicates is None:
            from privpipe.measures.risk.criteria.predicates import MOST_PREDICATES

            return self.not_judged(
                f"there are more than {MOST_PREDICATES:,} distinct predicates; ask for a number of attacks"
            )
        return self._judged(files, found, predicates)

    def _predicates(self, files: TableFiles, coded: Coded) -> Predicates | None:
        from privpipe.measures.risk.criteria.predicates import all_predicates, drawn_predicates, single_values

        ids, stream = keyed_rows(files.released, files.order, self.name())
        if self.mode == "univariate":
            return single_values(coded, self.attacks, stream)
        if self.attacks is None:
            return all_predicates(coded, self.size)
        return drawn_predicates(coded, self.size, self.attacks, ids, stream)

    def _judged(self, files: TableFiles, coded: Coded, predicates: Predicates) -> Verdict:
        from privpipe.kernels.linkage.attack_figures import attack_figures
        from privpipe.kernels.linkage.criteria import isolated_once_of, matches

        n, kept = files.original.num_rows, len(predicates.kept)
        h = 0 if files.holdout is None else files.holdout.num_rows
        beside: dict[str, Any] = {
            "records": n,
            "released": files.released.num_rows,
            "holdout": h,
            "attacked": kept,
            "tried": predicates.tried,
        }
        if not kept:
            return self._without_predicates(beside)
        counts, last = matches(predicates.kept, predicates.parts, coded.tables[0])
        alone = counts == 1
        missed = np.zeros(0)
        if h:
            others, _ = matches(predicates.kept, predicates.parts, coded.tables[2])
            missed = isolated_once_of(others, h, n) if h > n else (others == 1).astype(np.float64)
        beside |= {
            "hits": float(alone.sum()),
            "control_hits": float(missed.sum()),
            "persons": len(np.unique(last[alone])) / n,
            "random": self._random(files, coded, kept),
        }
        found = attack_figures(
            beside["hits"],
            kept,
            control_hits=beside["control_hits"],
            controls=kept if h else 0,
            confidence=self.confidence,
        )
        few = kept < LEAST_PREDICATES
        notes = _notes(n, h, beside["random"])
        did = f"wrote {kept:,} predicates that isolate a row of the release, of {predicates.tried:,} tried"
        if few and self.if_no_predicates == "error":
            return self.verdict(found, beside, did, HARDLY)
        verdict = self.verdict(found, beside, did, notes=notes)
        estimate = found.observed(self.compared)
        if not few or verdict.outcome != "fail" or estimate is None or not bool(at_most(estimate, self.at_most or 0.0)):
            return verdict
        reason = f"{HARDLY}, and the policy passes that; estimate {short(estimate)}, without a limit."
        return Verdict(self, verdict.observed, "pass", self.demanded(), reason=reason)

    def _without_predicates(self, beside: dict[str, Any]) -> Verdict:
        if self.if_no_predicates == "error":
            return self.not_judged(HARDLY, beside)
        return Verdict(self, beside, "pass", self.demanded(), reason=f"{HARDLY}, and the policy passes that.")

    def _random(self, files: TableFiles, coded: Coded, count: int) -> float:
        """Success of equally many predicates of random columns, operators and released values; only reported."""
        from privpipe.kernels.linkage.criteria import matches
        from privpipe.measures.risk.criteria.predicates import random_predicates

        _, stream = keyed_rows(files.released.slice(0, 0), files.order, self.name())
        drawn = random_predicates(coded, self.size if self.mode == "multivariate" else 1, count, stream)
        counts: Ints = matches(drawn.kept, drawn.parts, coded.tables[0])[0]
        return float((counts == 1).mean())

    @classmethod
    def examples(cls) -> list[Self]:
        return [
            cls(columns=("age", "income", "illness"), size=2, attacks=None, if_no_predicates="pass"),
            cls(
                columns=("age", "income", "zip"),
                attacks=100,
                holdout="others.csv",
                at_most=0.9,
                if_no_predicates="pass",
            ),
            cls(columns=("age", "income"), mode="univariate", holdout="others.csv", if_no_predicates="pass"),
        ]


def _notes(n: int, h: int, random: float) -> tuple[str, ...]:
    notes = [f"random predicates isolate in {short(random)} of all tries; chance alone isolates up to 0.37"]
    if 0 < h < n:
        notes.append(
            f"the holdout has {h:,} records and the original {n:,}, so that the control is under-stated and the excess "
            "over-stated: give a larger one"
        )
    return tuple(notes)
