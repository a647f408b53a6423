"""Learned worst-case linkage: the best distance of a kind for an attacker who could choose it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from annotated_types import Ge, Gt, Le, Lt
from typing_extensions import Doc

from privpipe.blocks import FilePair, FilePairMeasure, Verdict
from privpipe.blocks.guarantee import short
from privpipe.blocks.marks import Columns, Stricter
from privpipe.errors import UsageError
from privpipe.measures.risk.identity.column_set import require_columns
from privpipe.measures.risk.linkage.linkable_files import linkable
from privpipe.tolerance import at_most

if TYPE_CHECKING:
    from privpipe.kernels.linkage.learned_distances import Rivals
    from privpipe.measures.risk.linkage.learned_linkage_program import Learned

__all__ = ["LearnedLinkage"]

MOST_COLUMNS = {"weighted_mean": 100, "owa": 100, "bilinear": 20, "choquet": 8}


@dataclass(frozen=True, kw_only=True, repr=False)
class LearnedLinkage(FilePairMeasure):
    """Share of records that the best distance of a kind links correctly: an upper limit for learned distances.

    observed = the proved optimum; where the time ends before a proof, the bound that no distance of the kind exceeds.

    Parameters
    ----------
    columns : tuple of str, optional
        Numbers that the intruder knows. Default: all quasi-identifiers.
    at_most : float, optional
        In [0, 1]. Left out (under `measures:`), the share is reported.
    distance : {"weighted_mean", "owa", "bilinear", "choquet"}
        Weights of the columns; weights of the columns' differences in falling order; (a - b)' S (a - b); a Choquet
        integral of the squared differences, which weights sets of columns (at most 8 of them).
    method : {"exact", "heuristic"}
        An integer program; or a search without proof, whose figure is a lower bound only.
    form : {"none", "nonnegative", "semidefinite"}
        Of the bilinear distance: no condition on S, d >= 0 on the data, or S positive semi-definite.
    submodular : bool
        Whether the measure of the Choquet integral must be.
    sample : int, optional
        Attacked records; None: all. Then the upper confidence limit is compared.
    confidence : float
        Of that limit, in (0, 1).
    time_limit_s : float
        For the programs of one judgement.

    Notes
    -----
    Minimises the number of records i for which a rival j is nearer than the true partner, d(a_i, b_j) - d(a_i, b_i)
    < 1e-6, over all parameters of the distance; released records attack, each file standardised by itself. Rivals
    implied by others are left out, the rest added as they are found violated, so that an optimum is that of the whole
    program. An unproved run ends by the clock, so that its bound may differ from run to run.

    Source: Abril, Navarro-Arribas, Torra, Information Fusion 13, 2012, and 26, 2015.

    Examples
    --------
    >>> import numpy as np, pyarrow as pa
    >>> x = pa.record_batch({"a": [1.0, 2.0, 3.0, 4.0], "b": [4.0, 1.0, 2.0, 3.0]})
    >>> y = pa.record_batch({"a": [1.1, 2.1, 3.1, 4.1], "b": [1.0, 4.0, 3.0, 2.0]})
    >>> files = FilePair(original=x, released=y, ids=np.zeros((4, 2), dtype=np.int64), records=4, released_records=4)
    >>> verdict = LearnedLinkage(columns=("a", "b"), at_most=0.5).judge_files(files)
    >>> verdict.outcome, verdict.observed["share"], verdict.observed["proved"]
    ('fail', 1.0, True)
    """

    observes: ClassVar[object] = dict[str, Any]
    source: ClassVar[str] = "Abril, Navarro-Arribas, Torra, Information Fusion 13, 2012, and 26, 2015"
    threat: ClassVar[str] = (
        "An intruder links by distance and has learned, on other pairs, which columns identify most."
    )
    formula: ClassVar[str] = "1 - min sum K / n over distances with d(a_i, b_j) - d(a_i, b_i) + M K_i >= 1e-6"
    choose: ClassVar[str] = "Above what record_linkage is given: it is the worst case. weighted_mean proves soonest."

    at_most: Annotated[
        float | None, Ge(0), Le(1), Stricter("smaller"), Doc("largest share of right links that is tolerated")
    ] = None
    distance: Annotated[
        Literal["weighted_mean", "owa", "bilinear", "choquet"],
        Stricter("equal"),
        Doc("weighted_mean, owa, bilinear or choquet"),
    ] = "weighted_mean"
    method: Annotated[
        Literal["exact", "heuristic"],
        Stricter("equal"),
        Doc("exact (an integer program, with a proof or a bound) or heuristic (a lower bound)"),
    ] = "exact"
    form: Annotated[
        Literal["none", "nonnegative", "semidefinite"],
        Stricter("equal"),
        Doc("of bilinear: none, nonnegative (on the data) or semidefinite"),
    ] = "none"
    submodular: Annotated[bool, Stricter("equal"), Doc("whether the measure of choquet must be submodular")] = False
    sample: Annotated[int | None, Ge(1), Stricter("equal"), Doc("attacked records; null: all of them")] = 400
    confidence: Annotated[
        float, Gt(0), Lt(1), Stricter("larger"), Doc("of the upper limit that a sample is compared by")
    ] = 0.95
    time_limit_s: Annotated[float, Gt(0), Stricter("equal"), Doc("seconds for the integer programs")] = 60.0

    columns: Annotated[
        tuple[str, ...] | None,
        Columns(),
        Stricter("equal"),
        Doc("number columns the intruder knows; left out: all quasi-identifiers"),
    ] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        owner = "LearnedLinkage"
        if self.columns is not None:
            object.__setattr__(self, "columns", require_columns(owner, self.columns))
        if self.form != "none" and self.distance != "bilinear":
            raise UsageError(f"{owner}: form is of the bilinear distance; leave it out for {self.distance}")
        if self.submodular and self.distance != "choquet":
            raise UsageError(f"{owner}: submodular is of choquet; leave it out for {self.distance}")

    def solves_programs(self) -> bool:
        return self.method == "exact"

    def judge_files(self, files: FilePair) -> Verdict:
        found = linkable(files, files.original.schema.names, "euclidean", "own")
        if found is None or not len(files):
            return self._error("no column tells records apart")
        sample, dimensions = files.sample(self.sample), found.original.numbers.shape[1]
        if dimensions > MOST_COLUMNS[self.distance]:
            return self._error(
                f"{self.distance} is learned over at most {MOST_COLUMNS[self.distance]} columns, and there are "
                f"{dimensions} (a column with missing values counts twice)"
            )
        from privpipe.kernels.linkage.learned_distances import LearnedDistance, Rivals

        distance = LearnedDistance(self.distance, dimensions, self.form, self.submodular)
        rivals = Rivals(found.released.numbers[sample], found.original.numbers, sample, distance)
        return self._verdict(files, rivals, self._learned(files, rivals))

    def _learned(self, files: FilePair, rivals: Rivals) -> Learned:
        from privpipe.draws import Stream
        from privpipe.kernels.linkage.learned_heuristic import heuristic_hits
        from privpipe.measures.risk.linkage.learned_linkage_program import Learned, worst_case

        # Without rivals everybody is linked.
        if len(files) < 2:
            return Learned(len(rivals), len(rivals), 0, 0)
        places = list(rivals.minimal()) if rivals.distance.monotone else None
        stream = files.order.child("learned_linkage") if files.order is not None else Stream(bytes(16))
        found = heuristic_hits(rivals, stream, places=places)
        if self.method == "heuristic":
            return Learned(found, len(rivals), 0, 0)
        return worst_case(rivals, places, found, self.time_limit_s)

    def _verdict(self, files: FilePair, rivals: Rivals, found: Learned) -> Verdict:
        from privpipe.kernels.linkage.sampled_share import upper_share

        attacked, sampled = len(rivals), len(rivals) < len(files)
        exact = self.method == "exact"
        counted = found.bound if exact else found.linked
        figure = upper_share(counted, attacked, self.confidence) if sampled else counted / attacked
        observed: dict[str, Any] = {
            "share": figure,
            "incumbent": found.linked / attacked,
            **({"bound": found.bound / attacked, "proved": found.proved} if exact else {}),
            "distance": self.distance,
            "method": self.method,
            "constraints": rivals.distance.constraints(attacked),
            **({"rows": found.rows} if exact else {}),
        }
        passed = not self.is_gate() or bool(at_most(figure, self.at_most))  # type: ignore[arg-type]
        return Verdict(
            self,
            observed,
            outcome="pass" if passed else "fail",
            threshold=self.demanded(),
            reason=self._reason(files, attacked, figure, found),
        )

    def _reason(self, files: FilePair, attacked: int, figure: float, found: Learned) -> str:
        asked = f", asked at most {short(self.at_most)}" if self.is_gate() else ""
        least = short(found.linked / attacked)
        over = f"{attacked:,} of {len(files):,} released records attacked"
        limit = f"; upper {self.confidence:g} limit {short(figure)}" if attacked < len(files) else ""
        if self.method == "heuristic":
            how = "found without proof, a lower bound of the worst case"
        elif found.proved:
            how = "the proved optimum"
        else:
            how = f"and the time ended with {short(found.bound / attacked)} as the proved bound, which is compared"
        best = f"at least {least} of the records are linked by the best {self.distance} distance"
        return f"{best}, {how}{limit}{asked}; {over}."

    def _error(self, reason: str) -> Verdict:
        return Verdict(self, None, "error", self.demanded(), reason=f"{reason}.")

    @classmethod
    def examples(cls) -> list[Self]:
        return [
            cls(),
            cls(at_most=0.1, sample=100),
            cls(columns=("age",), distance="choquet", submodular=True, method="heuristic", at_most=0.5),
            cls(distance="bilinear", form="semidefinite", time_limit_s=10.0),
        ]
