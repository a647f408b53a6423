"""The attack of an intruder who knows how the release was masked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import numpy as np
from annotated_types import Gt, Le
from typing_extensions import Doc

from privpipe.blocks import FilePair, FilePairMeasure, Verdict
from privpipe.blocks.arrays import Floats, Ints
from privpipe.blocks.guarantee import short
from privpipe.blocks.marks import Confidence, LargestShare, OptionalNumber, OwnColumns, PositiveNumber, Stricter
from privpipe.errors import DataError, UsageError
from privpipe.measures.risk.linkage.linkable_files import moments
from privpipe.tolerance import floor_share

if TYPE_CHECKING:
    from privpipe.kernels.linkage.transparency import Constraint, Left

__all__ = ["TransparencyAttack"]

Method = Literal["rank_swap", "microaggregation"]
STAGES: Mapping[Method, tuple[str, ...]] = {"rank_swap": ("rank_swap",), "microaggregation": ("microaggregate",)}
Numbers = dict[str, tuple[Floats, Floats]]


@dataclass(frozen=True, kw_only=True, repr=False)
class TransparencyAttack(FilePairMeasure):
    """Share of records re-identified by an intruder who knows the masking method, its parameters and original values.

    Parameters
    ----------
    columns : tuple of str, optional
        Masked number columns whose original values are known. Default: all quasi-identifiers.
    at_most : float, optional
        In [0, 1]. Left out (under `measures:`), the share is reported.
    method : {"rank_swap", "microaggregation"}, optional
        Default: that of the release's own plan.
    p : "from_plan" or float
        Of rank swapping: the window as a fraction of the records; `from_plan`: as the release was swapped.
    nearest : int
        Of microaggregation of several columns at once: groups that are looked at, those of the nearest means.
    sample : int, optional
        Attacked records; None: all. Then the upper confidence limit is compared.
    confidence : float
        Of that limit, in (0, 1).

    Notes
    -----
    The candidates of a record are the released ones that fit it in every column; a single one is certain, and among
    several the nearest is taken (ties 1/t). Kinds of rank swapping without a window leave the whole file, so that only
    the distance remains. `inside` is the share of records whose true one is among the candidates: 1 where p is right.

    Examples
    --------
    >>> import pyarrow as pa
    >>> x = pa.record_batch({"a": [1.0, 2.0, 3.0, 4.0], "b": [4.0, 1.0, 2.0, 3.0]})
    >>> y = pa.record_batch({"a": [2.0, 1.0, 4.0, 3.0], "b": [3.0, 2.0, 1.0, 4.0]})
    >>> files = FilePair(original=x, released=y, ids=np.zeros((4, 2), dtype=np.int64), records=4, released_records=4)
    >>> verdict = TransparencyAttack(columns=("a", "b"), method="rank_swap", p=0.25, at_most=0.5).judge_files(files)
    >>> verdict.outcome, verdict.observed["certain"], verdict.observed["inside"]
    ('fail', 0.75, 1.0)
    """

    observes = dict[str, Any]
    source = "Winkler, 2002; Nin, Herranz, Torra, DKE 67 and DKE 64(1), 2008"
    threat = "An intruder knows the method and its parameters, which good practice publishes."
    formula = "candidates = intersection over columns of the records that fit; share re-identified"
    choose = "As record_linkage, 0.05; swapping by buckets or by distribution resists this attack."

    at_most: Annotated[LargestShare, Doc("largest share of re-identified records that is tolerated")] = None
    method: Annotated[
        Method | None, Stricter("equal"), Doc("rank_swap or microaggregation; left out: that of the release's own plan")
    ] = None
    p: Annotated[
        Annotated[float, Gt(0), Le(1)] | Literal["from_plan"],
        Stricter("equal"),
        Doc("window of rank swapping as a fraction, or from_plan"),
    ] = "from_plan"
    nearest: Annotated[
        PositiveNumber, Doc("groups that are looked at where several columns were microaggregated together")
    ] = 2
    sample: Annotated[OptionalNumber, Doc("attacked records; null: all of them")] = 10_000
    confidence: Annotated[Confidence, Doc("of the upper limit that a sample is compared by")] = 0.95

    columns: Annotated[
        OwnColumns, Doc("masked number columns whose original values are known; left out: all quasi-identifiers")
    ] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        owner = "TransparencyAttack"
        self.hold_columns()
        if self.p != "from_plan" and self.method == "microaggregation":
            raise UsageError(f"{owner}: p is of rank swapping; leave it out for microaggregation")

    def judge_files(self, files: FilePair) -> Verdict:
        planned: list[Method] = [name for name, stages in STAGES.items() if files.stages_named(*stages)]
        method = self.method or next(iter(planned), None)
        if method is None:
            return self.not_judged("the plan has no stage of rank_swap or microaggregate; set `method:`")
        numbers = {name: self._numbers(files, name) for name in files.original.schema.names}
        attacked = files.sample(self.sample)
        found = self._constraints(files, method, numbers, attacked)
        if isinstance(found, str):
            return self.not_judged(found)
        return self._verdict(files, method, self._attack(numbers, found, attacked), attacked)

    def _numbers(self, files: FilePair, column: str) -> tuple[Floats, Floats]:
        found = files.finite_numbers(column, "transparency_attack")
        if found is None:
            raise DataError(f"transparency_attack: column {column!r} is not a number in both tables; leave it out")
        return found

    def _constraints(self, files: FilePair, method: str, numbers: Numbers, attacked: Ints) -> list[Constraint] | str:
        """What each column says, or why nothing can be said."""
        if method == "rank_swap":
            return self._windows(files, numbers, attacked)
        return self._groups(files, numbers, attacked)

    def _windows(self, files: FilePair, numbers: Numbers, attacked: Ints) -> list[Constraint] | str:
        from privpipe.kernels.linkage.transparency import window_constraint

        constraints = []
        for column, (before, after) in numbers.items():
            known = int((~np.isnan(after)).sum())
            window, bottom, top = known, 0, 0
            if self.p != "from_plan":
                window = floor_share(self.p, known)
            else:
                stages = [
                    stage for stage in files.stages_named("rank_swap") if column in stage["parameters"]["columns"]
                ]
                if not stages:
                    return f"the plan does not swap {column!r}; leave it out of columns, or give p"
                if "strata" in stages[-1]["detail"]:
                    return f"{column!r} was swapped within strata, which this attack does not judge"
                if stages[-1]["parameters"]["kind"] == "window":
                    detail = stages[-1]["detail"]["columns"][column]
                    # Several swaps of one column add up; the tails are those of the last.
                    window = sum(int(stage["detail"]["columns"][column]["window"]) for stage in stages)
                    bottom, top = int(detail["bottom"]), int(detail["top"])
            constraints.append(window_constraint(before[attacked], after, window, bottom, top))
        return constraints

    def _groups(self, files: FilePair, numbers: Numbers, attacked: Ints) -> list[Constraint] | str:
        from privpipe.kernels.linkage.transparency import centroid_constraint, nearest_constraint

        groups = _planned_groups(files, numbers)
        constraints = []
        for group in filter(None, groups):
            if len(group) == 1:
                before, after = numbers[group[0]]
                constraints.append(centroid_constraint(before[attacked], after))
                continue
            before, after = (_standardised([numbers[name] for name in group], side) for side in (0, 1))
            constraints.append(nearest_constraint(before[attacked], after, self.nearest))
        covered = {column for group in groups for column in group}
        missing = sorted(set(numbers) - covered)
        return f"the plan does not microaggregate {missing[0]!r}; leave it out of columns" if missing else constraints

    def _attack(self, numbers: Numbers, constraints: list[Constraint], attacked: Ints) -> Left:
        from privpipe.kernels.linkage.transparency import candidates_left

        own = [(before, after, before, after) for before, after in numbers.values()]
        before = np.column_stack([_by_own(column, scale) for column, _, scale, _ in own])
        after = np.column_stack([_by_own(column, scale) for _, column, _, scale in own])
        return candidates_left(constraints, before[attacked], after, attacked)

    def _verdict(self, files: FilePair, method: str, left: Left, attacked: Ints) -> Verdict:
        from privpipe.kernels.linkage.attack_figures import upper_share

        hits, released = float(left.scores.sum()), len(files) / files.records
        sampled = len(attacked) < len(files)
        estimate = hits / len(attacked) * released
        figure = (
            upper_share(min(hits, len(attacked)), len(attacked), self.confidence) * released if sampled else estimate
        )
        observed: dict[str, Any] = {
            "share": figure,
            **({"estimate": estimate} if sampled else {}),
            "certain": float(((left.counts == 1) & left.inside).mean()) * released,
            "candidates": float(left.counts.mean()),
            "inside": float(left.inside.mean()),
            "method": method,
        }
        limit = f" (upper {self.confidence:g} limit from {len(attacked):,} sampled records)" if sampled else ""
        return self.judged(
            figure,
            observed,
            reason=(
                f"at least {short(figure)} of the records are re-identified by an attacker who knows of the {method}"
                f"{limit}{self.asked}; {short(observed['candidates'])} candidates on average, the true one among them "
                f"for {short(observed['inside'])} of the records."
            ),
        )

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(), cls(at_most=0.1), cls(columns=("age",), method="rank_swap", p=0.05, at_most=0.5, sample=None)]


def _planned_groups(files: FilePair, numbers: Numbers) -> list[list[str]]:
    """The attacked columns of each list that the plan microaggregates together."""
    stages = files.stages_named("microaggregate")
    if not stages:
        return [[column] for column in numbers]  # known only from the policy: column by column
    groups = [group["columns"] for stage in stages for group in stage["detail"]["groups"]]
    return [[column for column in columns if column in numbers] for columns in groups]


def _by_own(values: Floats, scale: Floats) -> Floats:
    """Standardised by a column's own mean and deviation; missing values at the mean. A constant one is 0."""
    mean, sd = moments(scale)
    return np.nan_to_num((values - mean) / sd, nan=0.0) if sd > 0 else np.zeros(len(values))


def _standardised(columns: list[tuple[Floats, Floats]], side: int) -> Floats:
    """Columns of one side on the scale of the original, as the groups were formed on."""
    return np.column_stack([_by_own(pair[side], pair[0]) for pair in columns])
