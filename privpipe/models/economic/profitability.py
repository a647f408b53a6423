"""Profitability of a release against a prosecutor, and against a journalist."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from annotated_types import Ge
from numpy.typing import NDArray
from typing_extensions import Doc

from privpipe.blocks import ClassBlock, ClassModel, Facts, Histogram, RowBlock, Tally
from privpipe.blocks.arrays import Bools, Floats, Ints
from privpipe.blocks.class_block import INFORMATION, information_lost
from privpipe.blocks.guarantee import short
from privpipe.blocks.marks import Stricter
from privpipe.blocks.oracle_classes import Case, Classes, Expected, by_class
from privpipe.errors import DataError, UnsupportedError, UsageError
from privpipe.hierarchies import Hierarchy, HierarchySpec
from privpipe.hierarchies.canonical import canonical_text
from privpipe.roles import Roles, column_type_of
from privpipe.tolerance import below

__all__ = ["JournalistProfitability", "LabelShares", "ProsecutorProfitability"]


MASK = "*"
NULL = "null"


@dataclass(frozen=True)
class LabelShares:
    """ln share of every released label, by column.

    Parameters
    ----------
    logs : mapping of column to mapping of label to float
        ln share_j(v), at most 0; a missing value is under None.
    domain : float
        sum_j ln D_j.
    """

    column: ClassVar[str] = INFORMATION
    logs: Mapping[str, Mapping[str | None, float]] = field(repr=False)
    domain: float

    @classmethod
    def of(cls, columns: Sequence[str], facts: Facts) -> LabelShares:
        """The shares of the labels that the facts' histograms hold, by the declared hierarchies.

        A column without a hierarchy, and one that is not text, is raw: each of its values has the same share.

        Raises
        ------
        DataError
            Labels that the hierarchy does not have.
        """
        logs: dict[str, Mapping[str | None, float]] = {}
        domain = 0.0
        for column in columns:
            histogram, spec = facts.histograms[column], facts.hierarchies.get(column)
            kind, labels = column_type_of(histogram.values.type), _texts(column, histogram)
            found = None if spec is None else _along(spec, labels, kind)
            if found is None and spec is not None and kind == "text":
                raise DataError(
                    f"column {column!r} has labels that its hierarchy does not have without the original values: the "
                    "share of the domain behind them is not known"
                )
            size, logs[column] = found or _raw(labels)  # numbers and dates are not labels: such a column is raw
            domain += math.log(size)
        return cls(logs, domain)

    def __call__(self, rows: RowBlock) -> RowBlock:
        """The rows with the loss of their labels, in [0, 1], as one more column."""
        import pyarrow as pa

        total = np.zeros(len(rows), dtype=np.float64)
        for column, logs in self.logs.items():
            values = rows.column(column)
            coded = values.dictionary_encode() if not pa.types.is_dictionary(values.type) else values
            known = canonical_text(coded.dictionary, column_type_of(coded.dictionary.type), column=column)
            # A label that only a population has is in no class that is judged.
            table = np.array([logs.get(text, 0.0) for text in known.to_pylist()] + [logs.get(None, 0.0)])
            codes = coded.indices.fill_null(len(known)).to_numpy(zero_copy_only=False)
            total += table[codes]
        loss = pa.array(information_lost(total, self.domain))
        batch = rows.batch.append_column(pa.field(INFORMATION, pa.float64()), loss)
        return rows.with_batch(batch)


def _texts(column: str, histogram: Histogram) -> list[str | None]:
    texts: list[str | None] = canonical_text(
        histogram.values, column_type_of(histogram.values.type), column=column
    ).to_pylist()
    return texts


def _raw(labels: Sequence[str | None]) -> tuple[float, dict[str | None, float]]:
    return float(len(labels)), dict.fromkeys(labels, -math.log(len(labels)))


def _along(
    spec: HierarchySpec, labels: Sequence[str | None], kind: str
) -> tuple[float, dict[str | None, float]] | None:
    """D and ln share of each label; None where the hierarchy does not have them all."""
    hierarchy = spec.build([], [], kind)
    if None in labels or (NULL in labels and all(NULL not in level for level in hierarchy.levels.labels)):
        hierarchy = spec.build([None], [1], kind)  # missing values are a leaf of their own
    shares = _shares_by_level(hierarchy)
    named = [label for label in labels if label is not None]
    # A masked cell of suppressed records stands for any value.
    found: dict[str | None, float] = {MASK: 0.0}
    named = [label for label in named if label != MASK or any(MASK in level for level in shares)]
    if any(all(label not in level for level in shares) for label in named):
        return None
    size = max(hierarchy.domain_size, 1.0)
    found[None] = -math.log(size)
    found.update({label: math.log(share) for label, share in _share_of_each(named, shares).items()})
    return size, found


def _shares_by_level(hierarchy: Hierarchy) -> list[dict[str, float]]:
    """The share of the domain behind each label, level by level."""
    shares: list[dict[str, float]] = []
    for level in range(hierarchy.height + 1):
        each: Floats = hierarchy.shares(level)
        # Releases of before wrote a label for missing values; where it is a value's too, the value counts.
        found = dict(zip(hierarchy.texts(level), each.tolist(), strict=True))
        shown = zip(hierarchy.released(level), each.tolist(), strict=True)
        shares.append(found | {text: share for text, share in shown if text is not None})
    return shares


def _share_of_each(labels: Sequence[str], shares: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """By one level for the whole column where one fits; else a label counts as the coarsest node of its name."""
    fitting = next((level for level in shares if all(label in level for label in labels)), None)
    if fitting is not None:
        return {label: fitting[label] for label in labels}
    return {label: max(level[label] for level in shares if label in level) for label in labels}


@dataclass(frozen=True, kw_only=True, repr=False)
class ProsecutorProfitability(ClassModel):
    """Publishing every class pays although an attacker attacks where it pays; observed = least payout of a record.

    Parameters
    ----------
    publisher_benefit, publisher_loss : float
        What a record is worth to the publisher unchanged, and what a successful attack on it costs; at least 0.
    adversary_gain, adversary_cost : float
        What a successful attack brings, and what an attempt costs; at least 0.
    no_attack : bool
        Ask instead that no attack pays at all: a rule on class sizes, observed = least class size.
    quasi_identifiers : tuple of str, optional
        Default: all of the policy.

    Raises
    ------
    UsageError
        Also with `no_attack` where an attempt costs nothing and brings something: no class is large enough.
    UnsupportedError
        Without `no_attack`, where the information loss of labels is not counted: in a stage other than `generalize` and
        `suppress_records` that suppresses.

    Notes
    -----
    payout = benefit (1 - IL) - (loss / n_c if gain / n_c > cost else 0), IL the loss of information of the class:
    1 + (sum of ln share of its labels) / (sum of ln D), share the part of a hierarchy's rows under the label, D their
    number. A payout of 0 fails. Generalization makes attacks dearer and the data worth less, so neither coarser nor
    finer tables are surely better.

    Examples
    --------
    >>> import numpy as np
    >>> from privpipe.blocks import ClassBlock, Facts
    >>> model = ProsecutorProfitability(no_attack=True, adversary_gain=300.0, adversary_cost=4.0)
    >>> verdict = model.judge(model.measure(ClassBlock(np.array([76, 75])), Facts()), Facts())
    >>> verdict.outcome, verdict.observed, verdict.threshold
    ('fail', 75, 76)
    """

    source = (
        "Wan et al., A game theoretic framework for analyzing re-identification risk, PLoS ONE 10(3), 2015; "
        "Prasser et al., An open source tool for game theoretic health data de-identification, AMIA Annu. "
        "Symp. Proc. 2017"
    )
    threat = "An intruder who knows that a person is in the table and attacks only where the gain exceeds the cost."
    formula = "benefit (1 - IL) - (loss / n_c if gain / n_c > cost) > 0; no_attack: n_c > gain / cost"
    choose = (
        "1200, 300, 300 and 4 are the literature's example, in dollars for health data. Take no_attack where any "
        "attack is unwanted; gain / cost is then the class size to exceed."
    )

    publisher_benefit: Annotated[
        float, Ge(0), Stricter("equal"), Doc("what an unchanged record is worth to the publisher")
    ] = 1200.0
    publisher_loss: Annotated[
        float, Ge(0), Stricter("equal"), Doc("what a successful attack on a record costs the publisher")
    ] = 300.0
    adversary_gain: Annotated[float, Ge(0), Stricter("equal"), Doc("what a successful attack brings the attacker")] = (
        300.0
    )
    adversary_cost: Annotated[float, Ge(0), Stricter("equal"), Doc("what an attempt costs the attacker")] = 4.0
    no_attack: Annotated[bool, Stricter("equal"), Doc("ask that no attack pays at all, a rule on class sizes")] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.no_attack and not self.adversary_cost and self.adversary_gain:
            raise UsageError(
                f"{type(self).__name__}: adversary_cost 0 makes every attack pay; no class is large enough"
            )
        # A rule on sizes holds for whole and parts as k-anonymity does; a payout does not.
        object.__setattr__(self, "hereditary", self.no_attack)
        object.__setattr__(self, "convex", self.no_attack)

    def with_roles(self, roles: Roles) -> Self:
        filled = copy.copy(self)
        keys = tuple(roles.quasi_identifiers) if self.quasi_identifiers is None else self.quasi_identifiers
        object.__setattr__(filled, "_keys", keys)  # no parameter: whose labels carry the information
        return filled

    def counted_columns(self, keys: tuple[str, ...]) -> tuple[str, ...]:
        return () if self.no_attack else keys

    def learn(self, facts: Facts) -> Mapping[str, Any]:
        keys: tuple[str, ...] = self.__dict__.get("_keys", ())
        if self.no_attack or not keys or any(name not in facts.histograms for name in keys):
            return {}
        return {f"{INFORMATION} of {keys!r}": LabelShares.of(keys, facts)}

    def row_column(self, facts: Facts) -> LabelShares | None:
        """What adds the column `INFORMATION` to the rows before they are counted; None where none is needed."""
        shares: LabelShares | None = facts.extra.get(f"{INFORMATION} of {self.__dict__.get('_keys', ())!r}")
        return shares

    def demanded(self) -> Any:
        return self.least_class() if self.no_attack else 0

    def least_class(self) -> int:
        """z, records of the smallest class that no attack on pays.

        Examples
        --------
        >>> ProsecutorProfitability(no_attack=True, adversary_gain=0.3, adversary_cost=0.1).least_class()
        4
        """
        if not self.adversary_gain:
            return 1
        return math.floor(Fraction(str(self.adversary_gain)) / Fraction(str(self.adversary_cost))) + 1

    def least_size(self) -> int:
        return self.least_class() if self.no_attack else 1

    def scores(self, block: ClassBlock, facts: Facts) -> NDArray[Any]:
        crowd = self.crowd(block)
        if self.no_attack:
            return crowd
        benefit = self.publisher_benefit * (1 - self._loss(block, facts))
        return np.asarray(benefit - np.where(self._attacked(crowd), self.publisher_loss / crowd, 0.0))

    def crowd(self, block: ClassBlock) -> NDArray[Any]:
        """Among how many the attacker looks for the person behind a record of each class, shape (n_classes,)."""
        return block.sizes

    def passing(self, block: ClassBlock, facts: Facts) -> Bools:
        scores = self.scores(block, facts)
        if self.no_attack:
            return np.asarray(scores >= self.least_class(), dtype=np.bool_)
        return np.asarray(below(-scores, 0.0), dtype=np.bool_)

    def reason(self, observed: Tally, facts: Facts) -> str:
        if self.no_attack:
            return super().reason(observed, facts)
        if not observed.classes:
            return "no class to judge."
        fails = (
            f"all {observed.classes:,} classes pay"
            if not observed.failing_classes
            else f"{observed.failing_classes:,} of {observed.classes:,} classes, "
            f"{observed.failing_records:,} of {observed.records:,} {facts.unit} do not pay"
        )
        each = facts.unit.removesuffix("s")
        return f"observed a least payout of {short(observed.observed)} a {each}, required above 0; {fails}."

    def _attacked(self, sizes: Ints) -> Bools:
        """gain / n > cost, exactly."""
        if not self.adversary_cost:
            return np.full(len(sizes), self.adversary_gain > 0)
        ratio = Fraction(str(self.adversary_gain)) / Fraction(str(self.adversary_cost))
        return np.asarray(sizes < math.ceil(ratio), dtype=np.bool_)

    def _loss(self, block: ClassBlock, facts: Facts) -> Floats:
        if INFORMATION not in block.cells:
            raise UnsupportedError(
                f"{self.name()}: what the labels lose is not counted here; let `generalize` or `suppress_records` do "
                "the suppressing and the release be judged, or take no_attack"
            )
        cells = block.cells[INFORMATION]
        values = facts.histograms[INFORMATION].values.to_numpy(zero_copy_only=False)
        return np.asarray(values[cells.codes[cells.offsets[:-1]]], dtype=np.float64)

    @staticmethod
    def oracle(model: Any, classes: Classes) -> Expected:
        """The rule that no attack pays; the payout needs hierarchies, which the hostile tables have not."""
        sizes = classes.sizes
        gain, cost = Fraction(str(model.adversary_gain)), Fraction(str(model.adversary_cost))
        return by_class(classes, sizes, [size * cost > gain or not gain for size in sizes], min)

    @staticmethod
    def thresholds(rng: Any) -> dict[str, Any]:
        """Parameters of a random gate."""
        return {"adversary_gain": float(rng.integers(1, 9)), "adversary_cost": 1.0}

    @staticmethod
    def around(model: Any, observed: Any, facts: Any) -> Iterator[Case]:
        """Gain over cost at the size and on both sides, in exact decimals: nothing is rounded or tolerated."""
        for what, gain, passes in (("at", 0.0, False), ("above", 0.001, False), ("below", -0.001, True)):
            yield f"ratio {what} the size", {"adversary_gain": observed + gain, "adversary_cost": 1.0}, passes

    @classmethod
    def examples(cls) -> list[Self]:
        return [
            cls(no_attack=True),
            cls(no_attack=True, adversary_gain=3.0, adversary_cost=1.5),
            cls(no_attack=True, adversary_gain=0.0),
        ]


@dataclass(frozen=True, kw_only=True, repr=False)
class JournalistProfitability(ProsecutorProfitability):
    """As `prosecutor_profitability`, for an intruder who does not know who is in the table; observed = least payout.

    Parameters
    ----------
    publisher_benefit, publisher_loss, adversary_gain, adversary_cost : float
        As there.
    no_attack : bool
        Ask instead that no attack pays at all: observed = least population class.
    quasi_identifiers : tuple of str, optional
        Default: all of the policy.

    Notes
    -----
    An attack succeeds with 1/F_c, F_c the size of the class in the policy's `population:`, generalized as the
    release is. Classes without a released record do not count.

    Examples
    --------
    >>> import numpy as np
    >>> from privpipe.blocks import ClassBlock, Facts
    >>> model = JournalistProfitability(no_attack=True, adversary_gain=300.0, adversary_cost=4.0)
    >>> block = ClassBlock(np.array([2, 1]), population=np.array([76, 75]))
    >>> verdict = model.judge(model.measure(block, Facts()), Facts())
    >>> verdict.outcome, verdict.observed, verdict.failing_records
    ('fail', 75, 1)
    """

    needs_population = True
    threat = (
        "An intruder who does not know who is in the table links records to a public register where the gain "
        "exceeds the cost."
    )
    formula = "benefit (1 - IL) - (loss / F_c if gain / F_c > cost) > 0; no_attack: F_c > gain / cost"

    def measure(self, block: ClassBlock, facts: Facts) -> Tally:
        return super().measure(block.take(block.sizes > 0), facts)

    def crowd(self, block: ClassBlock) -> NDArray[Any]:
        if block.population is None:
            raise UsageError("journalist_profitability compares with a population, and none was counted")
        return block.population

    def least_size(self) -> int:
        return 1  # the crowd is of the population, however few of it are records

    def unattainable(self, records: int, facts: Facts) -> str:
        return ""  # the sample does not show how large the population is

    def needs_suppression(self, records: int, facts: Facts) -> str:
        return ""

    @staticmethod
    def oracle(model: Any, classes: Classes) -> Expected:
        """With `no_attack`; payouts depend on labels, and hostile tables have none."""
        gain, cost = Fraction(str(model.adversary_gain)), Fraction(str(model.adversary_cost))
        passes = (not gain or size * cost > gain for size in classes.population)
        return by_class(classes, classes.population, passes, min)

    @staticmethod
    def thresholds(rng: Any) -> dict[str, Any]:
        """Parameters of a random gate."""
        return {"adversary_gain": float(rng.integers(1, 30)), "adversary_cost": 1.0}
