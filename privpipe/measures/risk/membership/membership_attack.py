"""The membership attack by the closest released record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from annotated_types import Ge, Gt, Le, Lt
from typing_extensions import Doc

from privpipe.blocks import Verdict
from privpipe.blocks.guarantee import short
from privpipe.blocks.marks import Columns, Stricter
from privpipe.blocks.table_files import TableFiles, TableMeasure
from privpipe.measures.risk.identity.column_set import require_columns
from privpipe.measures.risk.membership.closest_records import closest, compared
from privpipe.tolerance import at_most

__all__ = ["MembershipAttack"]


@dataclass(frozen=True, kw_only=True, repr=False)
class MembershipAttack(TableMeasure):
    """Advantage of an intruder who infers membership of a person from the closest released record.

    Parameters
    ----------
    holdout : str, optional
        Table of records of the same population that the release was not made from; without it nothing is judged.
    at_most : float, optional
        In [0, 1]. Left out (under `measures:`), the advantage is reported.
    columns : tuple of str, optional
        What the intruder knows of a person. Default: all quasi-identifiers.
    sample : int, optional
        Members and others attacked, as many of each; None: as many as the smaller table has.
    confidence : float
        Of the upper limit that is compared, in (0, 1).

    Notes
    -----
    Distances as in `record_linkage` with the original's scale: Euclidean where all columns are numbers, else Gower's.
    The advantage is the largest difference of the true- and false-positive rates over thresholds; what is compared is
    its upper limit by the Dvoretzky-Kiefer-Wolfowitz inequality for both samples, since others are a sample always.
    No records are paired, so that synthetic releases are judged too. `delta_presence` covers generalized ones exactly.

    Source: Yeom, Giacomelli, Fredrikson, Jha, CSF 2018.

    Examples
    --------
    >>> import pyarrow as pa
    >>> people = pa.table({"a": np.arange(400.0)})
    >>> files = TableFiles(original=people, released=people, holdout=pa.table({"a": np.arange(400.0) + 0.5}))
    >>> verdict = MembershipAttack(holdout="others.csv", at_most=0.5).judge_tables(files)
    >>> verdict.outcome, verdict.observed["advantage"], verdict.observed["auc"]
    ('fail', 1.0, 1.0)
    """

    threshold_field: ClassVar[str | None] = "at_most"
    observes: ClassVar[object] = dict[str, Any]
    source: ClassVar[str] = "Yeom, Giacomelli, Fredrikson, Jha, CSF 2018"
    threat: ClassVar[str] = "An intruder learns from the release that a person is among the persons it was made from."
    formula: ClassVar[str] = "max over d of share(members within d) - share(others within d), and its upper limit"
    choose: ClassVar[str] = "0.1; the limit alone is 0.08 for 1,000 of each and 0.025 for 10,000."

    at_most: Annotated[
        float | None, Ge(0), Le(1), Stricter("smaller"), Doc("largest advantage (its upper limit) that is tolerated")
    ] = None
    sample: Annotated[
        int | None,
        Ge(1),
        Stricter("equal"),
        Doc("members and others attacked, as many of each; null: all of the smaller table"),
    ] = 10_000
    confidence: Annotated[float, Gt(0), Lt(1), Stricter("larger"), Doc("of the upper limit that is compared")] = 0.95

    columns: Annotated[
        tuple[str, ...] | None,
        Columns(),
        Stricter("equal"),
        Doc("what the intruder knows of a person; left out: all quasi-identifiers"),
    ] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        owner = "MembershipAttack"
        if self.columns is not None:
            object.__setattr__(self, "columns", require_columns(owner, self.columns))

    def judge_tables(self, files: TableFiles) -> Verdict:
        from privpipe.kernels.linkage.membership import advantage_limit, member_figures

        if files.holdout is None or not files.holdout.num_rows:
            return self._error("without a holdout of persons who are not in the data nothing is judged")
        if not files.original.num_rows or not files.released.num_rows:
            return self._error("there are no records to compare")
        found = compared(files, files.original.schema.names)
        if found is None:
            return self._error("no column tells records apart")
        size = min(len(found.original), len(found.holdout), self.sample or len(found.original))
        members, others = (
            closest(side.take(np.arange(size)), found.released, found.metric)
            for side in (found.original, found.holdout)
        )
        figures = member_figures(members, others)
        upper = advantage_limit(figures["advantage"], size, size, self.confidence)
        passed = not self.is_gate() or bool(at_most(upper, self.at_most))  # type: ignore[arg-type]
        asked = f", asked at most {short(self.at_most)}" if self.is_gate() else ""
        return Verdict(
            self,
            {"upper": upper, **figures, "attacked": size, "metric": found.metric},
            outcome="pass" if passed else "fail",
            threshold=self.demanded(),
            reason=(
                f"an advantage of at least {short(figures['advantage'])} by {found.metric} distance to the closest "
                f"released record, upper {self.confidence:g} limit {short(upper)} from {size:,} members and as many "
                f"others{asked}."
            ),
        )

    def _error(self, reason: str) -> Verdict:
        return Verdict(self, None, "error", self.demanded(), reason=f"{reason}.")

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(), cls(holdout="others.csv", at_most=0.1), cls(holdout="others.csv", columns=("age",), sample=None)]
