"""The guarantee `differential_privacy` over tables: it judges the record of `private_table`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Any, ClassVar, Self

from annotated_types import Gt, Lt
from typing_extensions import Doc

from privpipe.blocks.marks import Stricter
from privpipe.blocks.public_edition import PublicRules
from privpipe.blocks.verdict import Comparison, Verdict
from privpipe.tables.entries import CellGuarantee, TableSet
from privpipe.tables.table import Table
from privpipe.tolerance import at_most

__all__ = ["DifferentialPrivacy", "of_tables"]


@dataclass(frozen=True, kw_only=True, repr=False)
class DifferentialPrivacy(CellGuarantee):
    """All tables have noise for bounded contributions, and cost at most epsilon and delta together; observed = both.

    Parameters
    ----------
    epsilon : float
        Above 0.
    delta : float
        In (0, 1). Tables with Laplace noise need none of it.

    Examples
    --------
    >>> DifferentialPrivacy(epsilon=1, delta=1e-6)
    DifferentialPrivacy(epsilon=1.0, delta=1e-06)
    """

    of_process: ClassVar[bool] = True
    observes: ClassVar[object] = dict
    source = "Bun, Steinke, Concentrated differential privacy, TCC 2016"

    epsilon: Annotated[
        float,
        Gt(0),
        Stricter("smaller"),
        Doc("how much likelier any result may become by one contributor, as an exponent"),
    ]
    delta: Annotated[float, Gt(0), Lt(1), Stricter("smaller"), Doc("chance that more than that is lost")]

    def discloses_source(self, rules: PublicRules) -> bool:
        """What tables cost follows from the policy alone."""
        return False

    def demanded(self) -> Any:
        return {"epsilon": self.epsilon, "delta": self.delta}

    def judge(self, tables: TableSet) -> Verdict:
        chosen = list(tables.chosen(self.tables).values())
        noisy = [table for table in chosen if table.process is not None]
        compared = (Comparison(len(noisy), len(chosen), "tables have the record of private_table"),)
        if not noisy:
            reason = "needs the process record of a `private_table` stage: no table can prove differential privacy"
            return self.not_judged(reason, compared=compared)
        broken = [why for table in chosen for why in _violations(table)]
        spent = {
            unit: sum((Fraction((table.process or {}).get(unit, 0)) for table in noisy), start=Fraction(0))
            for unit in ("epsilon", "rho")
        }
        rho = float(spent["rho"])
        epsilon = float(spent["epsilon"]) + rho + 2 * math.sqrt(rho * math.log(1 / self.delta))
        if not at_most(epsilon, self.epsilon):
            broken.append(f"the tables cost epsilon {epsilon:g} together, required at most {self.epsilon:g}")
        return Verdict(
            self,
            {"epsilon": epsilon, "delta": self.delta if rho else 0.0},
            outcome="fail" if broken else "pass",
            threshold=self.demanded(),
            failing_classes=len(broken),
            reason=f"{'; '.join(broken) or f'{len(noisy):,} tables have the noise that their record states'}.",
            compared=compared,
        )

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(epsilon=1.0, delta=1e-6)]


def _violations(table: Table) -> list[str]:
    """What a table shows that its noise does not cover."""
    if table.process is None:
        return [f"table {table.name!r} is published without noise"]
    process, spec = table.process, table.aggregated.spec
    found = []
    if spec.domain is None or not process["labels_fixed"]:
        found.append(f"the labels of table {table.name!r} were made from the records")
    if spec.contribution_bound is None or spec.contribution_bound > process["contribution_bound"]:
        found.append(f"contributors count in more leaf cells of table {table.name!r} than its noise covers")
    for key in table.shown_measures:
        measure = table.measures[key]
        if measure.status != "noisy" or bool(measure.hidden.any()):
            found.append(f"table {table.name!r}: {key!r} was changed by its true figures")
        if key in spec.sums:
            unit = 10**measure.figures.decimals
            if [each * unit for each in spec.bounds.get(key, ())] != process["bounds"].get(key):
                found.append(f"table {table.name!r}: contributions to {key!r} have other bounds than its noise covers")
    return found


def of_tables(entry: Any) -> Any:
    """A guarantee as it is asked of tables: that of records about how they were made has one about tables.

    Examples
    --------
    >>> from privpipe import models
    >>> of_tables(models.DifferentialPrivacy(epsilon=1.0, delta=1e-6)) == DifferentialPrivacy(epsilon=1.0, delta=1e-6)
    True
    """
    kind = entry if isinstance(entry, type) else type(entry)
    if kind.__name__ != "DifferentialPrivacy" or not kind.__module__.startswith("privpipe.models"):
        return entry
    if isinstance(entry, type):
        return DifferentialPrivacy
    return DifferentialPrivacy(epsilon=entry.epsilon, delta=entry.delta, severity=entry.severity)
