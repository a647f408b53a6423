"""(epsilon, delta)-differential privacy of the process that made a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Self

from annotated_types import Gt, Lt
from typing_extensions import Doc

from privpipe.blocks import ClassBlock, Facts, Guarantee, Tally, Verdict
from privpipe.blocks.marks import Stricter
from privpipe.blocks.way import PROCESS
from privpipe.tolerance import at_most

__all__ = ["DifferentialPrivacy"]

RECORDED: Mapping[str, type | tuple[type, ...]] = {
    "epsilon": (int, float),
    "delta": (int, float),
    "beta": (int, float),
    "k": int,
    "scheme": str,
    "data_independent": bool,
}


@dataclass(frozen=True, kw_only=True, repr=False)
class DifferentialPrivacy(Guarantee):
    """The table was sampled, generalized by a fixed scheme and suppressed so as to be private; observed = beta, k.

    Parameters
    ----------
    epsilon : float
        Above 0.
    delta : float
        In (0, 1); below one over the number of records.
    quasi_identifiers : tuple of str, optional
        Default: all of the policy.

    Notes
    -----
    No table can prove it: the guarantee is judged by the record that the stage `safepub` writes. It passes
    when the record is there, was made with an epsilon and delta no larger than required, its sampling rate beta and
    class size k satisfy their relation to these, the scheme was fixed before looking at the data, no class of the
    table is smaller than k, and no more records were released than drawn. Without a record the outcome is an error.
    Each further release of the same data adds up epsilon and delta. In a policy with `aggregate` it judges the record
    of `private_table` instead: what all tables cost together, and that each of them has the noise for it.

    The record is a mapping: epsilon, delta, beta, k, scheme (a hash), data_independent; `drawn`, which a run counts
    and no public document may show; and `beside`, columns that were released without being part of the classes, which
    the guarantee does not cover and its reason names.

    Examples
    --------
    >>> import numpy as np
    >>> from privpipe.blocks import ClassBlock, Facts
    >>> record = {"epsilon": 1.0, "delta": 1e-4, "beta": 0.632, "k": 60, "scheme": "9f86d0", "data_independent": True,
    ...           "drawn": 200}
    >>> model, facts = DifferentialPrivacy(epsilon=1.0, delta=1e-4), Facts(extra={"process": record})
    >>> model.judge(model.measure(ClassBlock(np.array([80, 100])), facts), facts).outcome
    'pass'
    >>> model.judge(model.measure(ClassBlock(np.array([80, 10])), facts), facts).outcome
    'fail'
    """

    way = PROCESS
    forbids_counts = True
    source = (
        "Bild, Kuhn, Prasser, SafePub, PoPETs 2018(1); Li, Qardaji, Su, On sampling, anonymization, and "
        "differential privacy, ASIACCS 2012"
    )
    threat = (
        "An intruder who knows everything but one person's record learns from the release whether the person is in it."
    )
    formula = (
        "P(release in A | with the record) <= exp(epsilon) P(release in A | without) + delta, by sampling at rate "
        "1 - exp(-epsilon) and suppressing classes below k(epsilon, delta)"
    )
    choose = (
        "epsilon 0.1 to 2, delta at most 1/n, such as 1e-6. Take the stage safepub with levels chosen by judgement, "
        "not by looking at the data; epsilons and deltas of several releases add up."
    )

    epsilon: Annotated[
        float,
        Gt(0),
        Stricter("smaller"),
        Doc("how much likelier any result may become by one person's record, as an exponent"),
    ]
    delta: Annotated[
        float,
        Gt(0),
        Lt(1),
        Stricter("smaller"),
        Doc("chance that more than that is lost; below one over the number of records"),
    ]

    def demanded(self) -> Any:
        return {"epsilon": self.epsilon, "delta": self.delta}

    def measure(self, block: ClassBlock, facts: Facts) -> Tally:
        if not len(block):
            return Tally()
        small = block.sizes < _class_size(facts)
        return Tally(
            observed=int(block.sizes.min()),
            failing_classes=int(small.sum()),
            failing_records=int(block.sizes[small].sum()),
            classes=len(block),
            records=block.records,
        )

    def merge(self, left: Tally, right: Tally) -> Tally:
        least = [tally.observed for tally in (left, right) if tally.observed is not None]
        return Tally(
            observed=min(least, default=None),
            failing_classes=left.failing_classes + right.failing_classes,
            failing_records=left.failing_records + right.failing_records,
            classes=left.classes + right.classes,
            records=left.records + right.records,
        )

    def judge(self, observed: Tally, facts: Facts) -> Verdict:
        record = facts.extra.get("process")
        if record is None:
            reason = "needs the process record of a `safepub` stage: no table can prove differential privacy."
            return Verdict(self, None, "error", self.demanded(), reason=reason)
        malformed = _malformed(record)
        broken = malformed or self._violations(record, observed)
        fine = "" if malformed else f"the process is as recorded, and no class has fewer than {record['k']:,} records"
        beside = [name for name in record.get("beside", ()) if isinstance(name, str)]
        fine += (
            f"; released in addition to the classes and not covered: {', '.join(map(repr, beside))}" if beside else ""
        )
        return Verdict(
            self,
            None if malformed else {"beta": float(record["beta"]), "k": int(record["k"])},
            outcome="fail" if broken else "pass",
            threshold=self.demanded(),
            failing_classes=observed.failing_classes,
            failing_records=observed.failing_records,
            failing_share=observed.failing_records / observed.records if observed.records else None,
            reason=f"{'; '.join(broken) or fine}.",
        )

    def _violations(self, record: Mapping[str, Any], observed: Tally) -> list[str]:
        from privpipe.kernels.process_proofs import MOST_EPSILON, safepub_parameters

        found = []
        for name, asked in (("epsilon", self.epsilon), ("delta", self.delta)):
            if not at_most(record[name], asked):
                found.append(f"the process was made for {name} {record[name]:g}, required at most {asked:g}")
        if not (0 < record["epsilon"] <= MOST_EPSILON and 0 < record["delta"] < 1):
            return [*found, "the recorded epsilon and delta are out of range"]
        beta, k = safepub_parameters(float(record["epsilon"]), float(record["delta"]))
        if not (record["beta"] > 0 and at_most(record["beta"], beta)):
            found.append(f"records were drawn at rate {record['beta']:.6g}, allowed is {beta:.6g}")
        if record["k"] < k:
            found.append(f"classes below {record['k']:,} records were suppressed, needed is below {k:,}")
        if not record["data_independent"]:
            found.append("the generalization scheme is not declared to be independent of the data")
        if "drawn" in record and observed.records > record["drawn"]:
            found.append(f"the table has {observed.records:,} records and {record['drawn']:,} were drawn")
        if observed.failing_classes:
            found.append(
                f"{observed.failing_classes:,} of {observed.classes:,} classes, {observed.failing_records:,} of "
                f"{observed.records:,} records are in classes below {record['k']:,}"
            )
        return found

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(epsilon=0.1, delta=1e-3), cls(epsilon=1.0, delta=1e-6)]


def _class_size(facts: Facts) -> int:
    record = facts.extra.get("process")
    return 0 if record is None or _malformed(record) else int(record["k"])


def _malformed(record: Mapping[str, Any]) -> list[str]:
    """What the record lacks."""
    asked = {**RECORDED, "drawn": int} if "drawn" in record else RECORDED
    return [
        f"the process record has no {name} of its type"
        for name, kind in asked.items()
        if not isinstance(record.get(name), kind) or (kind is not bool and isinstance(record.get(name), bool))
    ]
