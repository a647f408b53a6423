"""Membership attacks by the closest released record and by the density of released ones."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import numpy as np
from annotated_types import Gt, Lt
from typing_extensions import Doc

from privpipe.blocks import Verdict
from privpipe.blocks.arrays import Floats
from privpipe.blocks.file_pair import TableFiles, TableMeasure
from privpipe.blocks.guarantee import short
from privpipe.blocks.marks import (
    Confidence,
    FilePath,
    LargestShare,
    OptionalNumber,
    OwnColumns,
    PositiveShare,
    Stricter,
)
from privpipe.errors import UsageError
from privpipe.measures.risk.linkage.linkable_files import plain
from privpipe.measures.risk.membership.record_distances import Compared, closest, compared, within

if TYPE_CHECKING:
    from privpipe.kernels.linkage.distance import LinkedFile

__all__ = ["MembershipAttack"]

LEAST_DIVIDED = 200
"""Records of a holdout that is divided into reference and attacked."""


@dataclass(frozen=True, kw_only=True, repr=False)
class MembershipAttack(TableMeasure):
    """Advantage of an intruder who infers membership of a person from the released records near this one.

    Parameters
    ----------
    holdout : str, optional
        Table of records of the same population that the release was not made from; without it nothing is judged.
    at_most : float, optional
        In [0, 1]. Left out (under `measures:`), the advantage is reported.
    columns : tuple of str, optional
        What the intruder knows of a person. Default: all quasi-identifiers.
    sample : int, optional
        Members attacked, and others, at most of each; None: all.
    confidence : float
        Of the upper limit that is compared, in (0, 1).
    score : {"closest", "density", "both"}
        By which a person is called member: the distance to the closest released record; the share of released records
        within `radius` over the same share of a reference, one added to each count; or the better of the two, each at
        half the risk of error.
    reference : str, optional
        Of `density` and `both`: table of the same population, disjoint from original and holdout. Left out, half of
        the holdout in keyed order is the reference and the other half is attacked: it needs 200 records.
    radius : float
        Mean Gower's distance over the columns, in (0, 1].
    false_positive_rate : float
        At which the true-positive rate is reported, at most: the average hides the few who are exposed. In (0, 1).

    Notes
    -----
    Distances as in `record_linkage` with the original's scale: Euclidean where all columns are numbers, else Gower's.
    The advantage is the largest difference of the true- and false-positive rates over thresholds; compared is
    its upper limit by the Dvoretzky-Kiefer-Wolfowitz inequality for both samples, since others are a sample always.
    No records are paired, so that synthetic releases are judged too. `delta_presence` covers generalized ones exactly.
    The density is by Gower's distance always. Attacks with models of the generator need the generator: they are not
    made, and a pass shows nothing about them.

    Examples
    --------
    >>> import pyarrow as pa
    >>> people = pa.table({"a": np.arange(400.0)})
    >>> files = TableFiles(original=people, released=people, holdout=pa.table({"a": np.arange(400.0) + 0.5}))
    >>> verdict = MembershipAttack(holdout="others.csv", at_most=0.5).judge_tables(files)
    >>> verdict.outcome, verdict.observed["advantage"], verdict.observed["auc"]
    ('fail', 1.0, 1.0)
    """

    threshold_field = "at_most"
    observes = dict[str, Any]
    source = (
        "Yeom, Giacomelli, Fredrikson, Jha, CSF 2018; van Breugel, Sun, Qian, van der Schaar, AISTATS 2023 "
        "(density); Carlini et al., IEEE S&P 2022"
    )
    threat = "An intruder learns from the release that a person is among the persons it was made from."
    formula = "max over d of share(members within d) - share(others within d), and its upper limit"
    choose = "0.1; the limit alone is 0.08 for 1,000 of each and 0.025 for 10,000."

    at_most: Annotated[LargestShare, Doc("largest advantage (its upper limit) that is tolerated")] = None
    sample: Annotated[OptionalNumber, Doc("members and others attacked, of each at most; null: all")] = 10_000
    confidence: Annotated[Confidence, Doc("of the upper limit that is compared")] = 0.95

    score: Annotated[
        Literal["closest", "density", "both"],
        Stricter("equal"),
        Doc("closest, density or both: by the closest released record, by how many are near, or the better of the two"),
    ] = "closest"
    reference: Annotated[
        str | None,
        FilePath(),
        Stricter("equal"),
        Doc("of density: table of the population, disjoint from original and holdout; left out: half of the holdout"),
    ] = None
    radius: Annotated[PositiveShare, Doc("of density: mean Gower distance within which records are counted")] = 0.1
    false_positive_rate: Annotated[
        float, Gt(0), Lt(1), Stricter("equal"), Doc("at which the true-positive rate is reported, at most")
    ] = 0.01

    columns: Annotated[OwnColumns, Doc("what the intruder knows; left out: all quasi-identifiers")] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        owner = "MembershipAttack"
        self.hold_columns()
        if self.reference is not None and self.score == "closest":
            raise UsageError(f"{owner}: reference: belongs to score density or both")
        if self.reference is not None and self.reference == self.holdout:
            raise UsageError(f"{owner}: reference: must hold no record that is attacked; it is the holdout")

    def table_of_reference(self) -> str | None:
        return self.reference

    def judge_tables(self, files: TableFiles) -> Verdict:
        if files.holdout is None or not files.holdout.num_rows:
            return self.not_judged("without a holdout of persons who are not in the data nothing is judged")
        if not files.original.num_rows or not files.released.num_rows:
            return self.not_judged("there are no records to compare")
        if self.score != "closest":
            divided = self._with_reference(files)
            if isinstance(divided, str):
                return self.not_judged(divided)
            files = divided
        found: dict[str, Compared] = {}
        for name in ("closest", "density") if self.score == "both" else (self.score,):
            scale = compared(files, files.original.schema.names, gower=name == "density")
            if scale is None:
                return self.not_judged("no column distinguishes records")
            found[name] = scale
        return self._verdict({name: self._attacked(name, scale, len(found)) for name, scale in found.items()})

    def _with_reference(self, files: TableFiles) -> TableFiles | str:
        """The tables with a reference; half of the holdout where none was given."""
        if self.reference is not None:
            has = files.reference is not None and files.reference.num_rows > 0
            return files if has else "the reference has no records"
        others = files.holdout
        if others is None or others.num_rows < LEAST_DIVIDED:
            return (
                f"density needs a reference; a holdout of {LEAST_DIVIDED} records or more is divided into the two, and "
                f"this one has {0 if others is None else others.num_rows:,}"
            )
        half = others.num_rows // 2
        return replace(files, reference=others.slice(0, half), holdout=others.slice(half))

    def _attacked(self, name: str, found: Compared, attacks: int) -> dict[str, Any]:
        """The figures of one attack, with its limit at its share of the risk of error."""
        from privpipe.kernels.linkage.attack_figures import advantage_limit, member_figures

        asked = [
            side.take(np.arange(min(len(side), self.sample or len(side)))) for side in (found.original, found.holdout)
        ]
        if name == "closest":
            members, others = (closest(side, found.released, found.metric) for side in asked)
        else:
            members, others = (-self._density(side, found) for side in asked)
        figures = member_figures(members, others, self.false_positive_rate)
        confidence = 1 - (1 - self.confidence) / attacks
        upper = advantage_limit(figures["advantage"], len(members), len(others), confidence)
        return {
            "upper": upper,
            **figures,
            "attacked": len(members),
            "others": len(others),
            "metric": found.metric,
            **({"reference": len(found.reference)} if name == "density" else {}),
        }

    def _density(self, asked: LinkedFile, found: Compared) -> Floats:
        # Within one table labels have nothing to cover: the reference's codes are compared directly.
        shares = [
            (within(known, side, self.radius) + 1) / (len(side) + 1)
            for known, side in ((asked, found.released), (plain(asked), found.reference))
        ]
        return np.asarray(shares[0] / shares[1], dtype=np.float64)

    def _verdict(self, attacks: dict[str, dict[str, Any]]) -> Verdict:
        best = max(attacks, key=lambda name: attacks[name]["upper"])
        figures = attacks[best]
        how = {"closest": "distance to the closest released record", "density": "the density of released records"}[best]
        halved = "; the reference is half of the holdout" if self.score != "closest" and self.reference is None else ""
        return self.judged(
            figures["upper"],
            {**figures, **({"score": best, **attacks} if len(attacks) > 1 else {})},
            reason=(
                f"an advantage of at least {short(figures['advantage'])} by {figures['metric']} {how}, "
                f"upper {self.confidence:g} limit {short(figures['upper'])} from {figures['attacked']:,} members and "
                f"{figures['others']:,} others{self.asked}; {short(figures['tpr'])} of members are told at a "
                f"false-positive rate of {self.false_positive_rate:g}{halved}."
            ),
        )

    @classmethod
    def examples(cls) -> list[Self]:
        return [
            cls(),
            cls(holdout="others.csv", at_most=0.1),
            cls(holdout="others.csv", columns=("age",), sample=None),
            cls(holdout="others.csv", score="density", reference="more.csv", at_most=0.3),
            cls(holdout="others.csv", score="both", reference="more.csv", columns=("age", "town")),
        ]
