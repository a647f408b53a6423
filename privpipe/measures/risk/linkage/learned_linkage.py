"""Learned worst-case linkage: the best distance of a kind for an attacker who could choose it, by an integer program
that minimises the records linked wrongly.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, Self

import numpy as np
from annotated_types import Gt
from typing_extensions import Doc

from privpipe.blocks import FilePair, FilePairMeasure, Verdict
from privpipe.blocks.arrays import Floats, Ints
from privpipe.blocks.guarantee import short
from privpipe.blocks.marks import Confidence, LargestShare, OptionalNumber, OwnColumns, Stricter
from privpipe.errors import UsageError
from privpipe.kernels.integer_programs import Limits, broken
from privpipe.kernels.integer_programs import solve as solve_problem
from privpipe.kernels.linkage.learned_distances import EPSILON, Rivals, subset_sums
from privpipe.measures.risk.linkage.linkable_files import linkable

__all__ = ["Learned", "LearnedLinkage", "worst_case"]


HARDEST = 15
WHOLE = 40_000
"""Rows up to which the program is given all of them at once."""
DEFINITE = 1e-8
TOLERANCE = 1e-9
"""A row's margin is 1e-6, so that the solver's own tolerance must lie well below."""


@dataclass(frozen=True)
class Learned:
    """What the best distance of a kind can link.

    Parameters
    ----------
    linked : int
        Records that a distance was found to link.
    bound : int
        No distance of the kind links more.
    rows : int
        Rows that the last program had.
    solved : int
        Programs that were solved.
    """

    linked: int
    bound: int
    rows: int
    solved: int

    @property
    def proved(self) -> bool:
        """Whether the two meet."""
        return self.linked == self.bound


def worst_case(rivals: Rivals, places: Sequence[Ints] | None, incumbent: int, seconds: float) -> Learned:
    """Minimise the records that are not linked, adding rows when they are found violated.

    Parameters
    ----------
    places : sequence of ndarray of int64, optional
        For each record, rivals that imply all others; None if there are none.
    incumbent : int
        Records that some distance of the kind is known to link.
    seconds : float
        For all programs together.
    """
    program = _Program(rivals)
    few = places is not None and sum(map(len, places)) <= WHOLE
    even = np.full(rivals.attacked.shape[1], 1.0)
    for record in range(len(rivals)):
        if few and places is not None:
            program.add(record, places[record])
        else:
            program.add(record, rivals.nearest(record, even, HARDEST))
    deadline = time.monotonic() + seconds
    bound = len(rivals)
    while (left := deadline - time.monotonic()) > 0:
        proved, least = program.solve(left)
        bound = min(bound, len(rivals) - least)
        if program.parameters is None:
            break
        incumbent = max(incumbent, rivals.hits(program.feasible_parameters()))
        if not proved or incumbent >= bound or not program.add_violated():
            break
    return Learned(min(incumbent, bound), bound, program.rows, program.solved)


@dataclass
class _Program:
    """A program that grows: parameters of the distance, a 0/1 variable for each record that may be lost."""

    rivals: Rivals
    rows: int = 0
    solved: int = 0
    parameters: Floats | None = None
    _lost: dict[int, Any] = field(default_factory=dict)
    _forced: set[int] = field(default_factory=set)
    _given: dict[int, set[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        try:
            import pulp
        except ImportError as error:
            raise broken("pulp", error) from None
        self.problem = pulp.LpProblem("linkage", pulp.LpMinimize)
        self._make = getattr(self.problem, "add_variable", pulp.LpVariable)
        self._terms = self._parameters()

    def _parameters(self) -> list[Any]:
        """Of each coefficient, the affine expression that it multiplies."""
        distance = self.rivals.distance
        if distance.name == "choquet":
            return self._measure()
        if distance.name == "bilinear":
            return self._matrix()
        weights = [self._make(f"p{k}", 0, 1) for k in range(distance.columns)]
        self.problem += _sum(weights) == 1
        return weights

    def _measure(self) -> list[Any]:
        distance, whole = self.rivals.distance, (1 << self.rivals.distance.columns) - 1
        mu = {mask: self._make(f"mu{mask}", float(mask == whole), 1) for mask in range(1, whole + 1)}
        for smaller, larger in subset_sums(distance.columns):
            self.problem += mu[larger] - mu[smaller] >= 0
        if distance.submodular:
            for mask in range(whole + 1):
                free = [1 << k for k in range(distance.columns) if not mask >> k & 1]
                for at, one in enumerate(free):
                    for other in free[at + 1 :]:
                        both = mu[mask | one] + mu[mask | other] - mu[mask | one | other]
                        self.problem += (both - mu[mask] if mask else both) >= 0
        return [mu[mask] for mask in range(1, whole + 1)]

    def _matrix(self) -> list[Any]:
        s, form = self.rivals.distance.columns, self.rivals.distance.form
        first, second = np.triu_indices(s)
        if form == "semidefinite":
            entries = [
                self._make(f"s{k}", 0 if i == j else -1, 1) for k, (i, j) in enumerate(zip(first, second, strict=True))
            ]
            self.problem += _sum([entry for entry, i, j in zip(entries, first, second, strict=True) if i == j]) == 1
            return entries
        sides = [(self._make(f"up{k}", 0, 1), self._make(f"down{k}", 0, 1)) for k in range(len(first))]
        self.problem += _sum([side for pair in sides for side in pair]) <= 1
        return [up - down for up, down in sides]

    def add(self, record: int, places: Ints) -> None:
        """Rows of some rivals of a record; a rival that is never dominated settles the record."""
        if record in self._forced or not len(places):
            return
        gaps, profiles = self.rivals.gaps(record, places)
        least, most = self.rivals.distance.range_of(gaps, profiles)
        if (most < EPSILON).any():
            self._forced.add(record)
            return
        lost = self._lost.get(record)
        if lost is None:
            lost = self._lost[record] = self._make(f"k{record}", 0, 1, cat="Integer")
        known = self._given.setdefault(record, set())
        for at in np.flatnonzero(least < EPSILON).tolist():
            if int(places[at]) not in known:
                known.add(int(places[at]))
                self._row(gaps[at], lost, EPSILON - float(least[at]))

    def _row(self, coefficients: Floats, lost: Any, large: float) -> None:
        row = _sum([float(value) * term for value, term in zip(coefficients, self._terms, strict=True) if value != 0.0])
        self.problem += row + large * lost >= EPSILON
        self.rows += 1

    def solve(self, seconds: float) -> tuple[bool, int]:
        """Whether the optimum was proved, and the least number of lost records that is proved in any case."""
        forced = len(self._forced)
        free = [lost for record, lost in self._lost.items() if record not in self._forced]
        self.problem.setObjective(_sum(free))
        ended = solve_problem(self.problem, Limits(seconds=seconds, tolerance=TOLERANCE))
        self.solved += 1
        values = [term.value() for term in self._terms]  # None of a parameter that is in no row yet
        known = ended.found and all(value is not None for value in values)
        self.parameters = np.array(values, dtype=np.float64) if known else None
        bound = ended.bound if math.isfinite(ended.bound) else 0.0
        return ended.proved and ended.found, forced + max(math.ceil(bound - 1e-6), 0)

    def feasible_parameters(self) -> Floats:
        """The parameters found, moved inside by the slack of the solver's tolerance or of missing cuts."""
        distance, found = self.rivals.distance, self.parameters
        assert found is not None
        if distance.name == "choquet" or (distance.name == "bilinear" and distance.form == "none"):
            return found
        if distance.monotone:
            kept = np.maximum(found, 0.0)
            # At a limit a solver may hand over zeros for want of a solution.
            return np.asarray(kept / kept.sum()) if kept.sum() > 0 else kept
        values, vectors = np.linalg.eigh(distance.matrices(found[None, :], halved=False)[0])
        if distance.form == "semidefinite" and values[0] < 0 < values[-1]:
            matrix = (vectors * np.maximum(values, 0.0)) @ vectors.T
            first, second = np.triu_indices(distance.columns)
            return np.asarray(np.where(first == second, 1.0, 2.0) * matrix[first, second] / np.trace(matrix))
        if distance.form == "nonnegative" and self._negative():
            return np.zeros_like(found)
        return found

    def _negative(self) -> list[tuple[int, int]]:
        """Pairs at a negative distance, the worst of each record."""
        assert self.parameters is not None
        found = []
        for record in range(len(self.rivals)):
            values = self.rivals.distance.coefficients(self.rivals.signed(record)) @ self.parameters
            worst = int(np.argmin(values))
            if values[worst] < -DEFINITE:
                found.append((record, worst))
        return found

    def add_violated(self) -> bool:
        """Rows and cuts that the last solution breaks; False where it breaks none."""
        assert self.parameters is not None
        distance, before, cuts = self.rivals.distance, self.rows, 0
        for record in range(len(self.rivals)):
            if record in self._forced:
                continue
            lost = self._lost.get(record)
            if lost is not None and (lost.value() or 0.0) > 0.5:
                continue
            lead, rival = self.rivals.worst(record, self.parameters)
            if lead < EPSILON / 2:
                self.add(record, np.array([rival], dtype=np.int64))
        if distance.name == "bilinear" and distance.form == "semidefinite":
            values, vectors = np.linalg.eigh(distance.matrices(self.parameters[None, :], halved=False)[0])
            for at in np.flatnonzero(values < -DEFINITE).tolist():
                self._cut(distance.coefficients(vectors[:, at][None, :])[0])
                cuts += 1
        if distance.name == "bilinear" and distance.form == "nonnegative":
            for record, candidate in self._negative():
                self._cut(distance.coefficients(self.rivals.signed(record)[candidate][None, :])[0])
                cuts += 1
        return self.rows > before or cuts > 0

    def _cut(self, coefficients: Floats) -> None:
        self.problem += _sum([float(value) * term for value, term in zip(coefficients, self._terms, strict=True)]) >= 0


def _sum(terms: Sequence[Any]) -> Any:
    import pulp

    return pulp.lpSum(terms)


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

    observes = dict[str, Any]
    source = "Abril, Navarro-Arribas, Torra, Information Fusion 13, 2012, and 26, 2015"
    threat = "An intruder links by distance and has learned, on other pairs, which columns identify most."
    formula = "1 - min sum K / n over distances with d(a_i, b_j) - d(a_i, b_i) + M K_i >= 1e-6"
    choose = "Above what record_linkage is given: it is the worst case. weighted_mean proves soonest."

    at_most: Annotated[LargestShare, Doc("largest share of right links that is tolerated")] = None
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
    sample: Annotated[OptionalNumber, Doc("attacked records; null: all of them")] = 400
    confidence: Annotated[Confidence, Doc("of the upper limit that a sample is compared by")] = 0.95
    time_limit_s: Annotated[float, Gt(0), Stricter("equal"), Doc("seconds for the integer programs")] = 60.0

    columns: Annotated[OwnColumns, Doc("number columns the intruder knows; left out: all quasi-identifiers")] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        owner = "LearnedLinkage"
        self.hold_columns()
        if self.form != "none" and self.distance != "bilinear":
            raise UsageError(f"{owner}: form is of the bilinear distance; leave it out for {self.distance}")
        if self.submodular and self.distance != "choquet":
            raise UsageError(f"{owner}: submodular is of choquet; leave it out for {self.distance}")

    def solves_programs(self) -> bool:
        return self.method == "exact"

    def judge_files(self, files: FilePair) -> Verdict:
        found = linkable(files, files.original.schema.names, "euclidean", "own")
        if found is None or not len(files):
            return self.not_judged("no column distinguishes records")
        sample, dimensions = files.sample(self.sample), found.original.numbers.shape[1]
        if dimensions > MOST_COLUMNS[self.distance]:
            return self.not_judged(
                f"{self.distance} is learned over at most {MOST_COLUMNS[self.distance]} columns, and there are "
                f"{dimensions} (a column with missing values counts twice)"
            )
        from privpipe.kernels.linkage.learned_distances import LearnedDistance, Rivals

        distance = LearnedDistance(self.distance, dimensions, self.form, self.submodular)
        rivals = Rivals(found.released.numbers[sample], found.original.numbers, sample, distance)
        return self._verdict(files, rivals, self._learned(files, rivals))

    def _learned(self, files: FilePair, rivals: Rivals) -> Learned:
        from privpipe.draws import Stream
        from privpipe.kernels.linkage.learned_distances import heuristic_hits

        # Without rivals everyone is linked.
        if len(files) < 2:
            return Learned(len(rivals), len(rivals), 0, 0)
        places = list(rivals.minimal()) if rivals.distance.monotone else None
        stream = files.order.child("learned_linkage") if files.order is not None else Stream(bytes(16))
        found = heuristic_hits(rivals, stream, places=places)
        if self.method == "heuristic":
            return Learned(found, len(rivals), 0, 0)
        return worst_case(rivals, places, found, self.time_limit_s)

    def _verdict(self, files: FilePair, rivals: Rivals, found: Learned) -> Verdict:
        from privpipe.kernels.linkage.attack_figures import upper_share

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
        return self.judged(
            figure,
            observed,
            reason=self._reason(files, attacked, figure, found),
        )

    def _reason(self, files: FilePair, attacked: int, figure: float, found: Learned) -> str:
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
        return f"{best}, {how}{limit}{self.asked}; {over}."

    @classmethod
    def examples(cls) -> list[Self]:
        return [
            cls(),
            cls(at_most=0.1, sample=100),
            cls(columns=("age",), distance="choquet", submodular=True, method="heuristic", at_most=0.5),
            cls(distance="bilinear", form="semidefinite", time_limit_s=10.0),
        ]
