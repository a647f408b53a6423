"""Noise that is cancelled by averaging several releases."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from annotated_types import Gt
from typing_extensions import Doc

from privpipe.blocks import Verdict
from privpipe.blocks.arrays import Floats
from privpipe.blocks.guarantee import short
from privpipe.blocks.marks import Columns, Stricter
from privpipe.blocks.release_history import HistoryMeasure, ReleaseHistory
from privpipe.blocks.verdict import Comparison
from privpipe.errors import UsageError
from privpipe.tolerance import at_least

if TYPE_CHECKING:
    from privpipe.kernels.noise.averaging import NoiseObservations

__all__ = ["RepeatedNoise"]


@dataclass(frozen=True, kw_only=True, repr=False)
class RepeatedNoise(HistoryMeasure):
    """Least variance ratio of noise that is left on a person's number when all releases of it are averaged.

    Parameters
    ----------
    columns : tuple of str
        Numbers, each masked by one `add_noise` stage of the policy (not orthogonal, which has no ratio).
    at_least : float, optional
        Least ratio that must be left, as `variance_ratio`. Left out (under `measures:`), it is reported.
    ledger : str
        Folder that keeps, as keyed hashes, which draw hid which number of which person.
    key : {"from_env": NAME} or {"from_file": PATH}
        Key of these hashes, the same for all releases: persons are followed by `person_id`, else `record_id`.
    normalise : tuple of {"trim", "casefold", "nfc"}
        As in `complementary_release`.
    changed : {"apart", "averaged"}
        A number that changed under an unchanged plan has its own noise. `apart`: it is another quantity, and the one
        does not help to average the other. `averaged`: it changed but little, and does. The ledger knows hashes alone
        and cannot decide; take `averaged` where numbers change slowly. The reason gives the figure under both.

    Notes
    -----
    Of a person's number 1 / sum of 1/ratio over independent draws is left. The same stage key, record and value is the
    same draw, and counts once; a frozen plan (`plan:`) keeps it over releases. Stage keys that differ count together
    whatever value they hid. Several records of a person with the same value are as many observations of it. An earlier
    release of the true number leaves nothing. A column that has another name in an earlier release is recognised
    where at least half of the persons in both have exactly the same value there. Missing values, zeros that the policy
    keeps and zeros under multiplicative noise hide nothing and are left out; clipping, rounding and other stages on the
    column are not taken into account.

    Examples
    --------
    >>> import numpy as np
    >>> from privpipe.blocks.release_history import NoiseRows, ReleaseRows
    >>> one = np.array([[1, 1]])
    >>> def release(key):
    ...     noise = NoiseRows((("income", key),), one, np.zeros(1, int), one + int(key), one, np.array([0.1]))
    ...     return ReleaseRows(one, one, np.ones(1, int), noise=noise)
    >>> entry = RepeatedNoise(columns=("income",), at_least=0.06, ledger="ledger", key={"from_env": "KEY"})
    >>> for earlier in ((), (release("0"),), (release("1"),)):
    ...     verdict = entry.judge_history(ReleaseHistory(current=release("0"), earlier=earlier))
    ...     print(verdict.outcome, verdict.observed)
    pass 0.1
    pass 0.1
    fail 0.05
    """

    threshold_field = "at_least"
    direction = "at_least"
    forms_classes = False
    observes = dict[str, Any]
    source = "weighing of independent measurements by their variances (Gauss, Theoria combinationis, 1823)"
    threat = "An intruder averages what several releases report about one person, which cancels the noise."
    formula = "min over persons of 1 / sum over releases with distinct stage keys of 1/ratio"
    choose = "The ratio that one release needs; a frozen plan keeps the same noise in all of them."

    columns: Annotated[
        tuple[str, ...], Columns(), Stricter("equal"), Doc("numeric columns, each masked by one add_noise stage")
    ]
    at_least: Annotated[
        float | None,
        Gt(0),
        Stricter("larger"),
        Doc("least ratio of the noise's variance to the column's that must be left"),
    ] = None
    changed: Annotated[
        Literal["apart", "averaged"],
        Stricter("equal"),
        Doc("apart or averaged: whether a number that changed under one plan helps to average the others"),
    ] = "apart"

    def __post_init__(self) -> None:
        super().__post_init__()
        owner = "RepeatedNoise"
        names = self.columns
        if isinstance(names, str) or not names or not all(isinstance(name, str) and name for name in names):
            raise UsageError(f"{owner}: columns must be a list of at least one column name")
        if len(set(names)) < len(names):
            raise UsageError(f"{owner}: columns names a column twice")
        object.__setattr__(self, "columns", tuple(names))
        if not self.ledger:
            raise UsageError(f"{owner}: ledger is required: it remembers the noise of earlier releases")
        if self.key is None:
            raise UsageError(f"{owner}: key is required: persons are followed by it")

    def judge_history(self, history: ReleaseHistory) -> Verdict:
        from privpipe.kernels.noise.averaging import looks_at

        now = history.current.noise
        if now is None:
            return self.not_judged("the draws of the run are not known; it is judged inside a release")
        lacking = [column for column in self.columns if column not in {name for name, _ in now.stages}]
        if lacking:
            return self.not_judged(f"no add_noise stage masked {', '.join(map(repr, lacking))}")
        unknown = sum(rows.noise is None for rows in history.earlier)
        found = [looks_at(column, history.current, history.earlier) for column in self.columns]
        if not any(len(looks.units) for looks in found):
            return self.not_judged("no released value to judge")
        return self._verdict(dict(zip(self.columns, found, strict=True)), unknown, 1 + len(history.earlier))

    def _verdict(self, found: Mapping[str, NoiseObservations], unknown: int, releases: int) -> Verdict:
        left = {column: self._left(looks, self.changed == "averaged") for column, looks in found.items()}
        worst = min((column for column in left if len(left[column])), key=lambda column: float(left[column].min()))
        observed = float(left[worst].min())
        other = min(float(self._left(looks, True).min()) for looks in found.values() if len(looks.units))
        below = sum(int((~at_least(ratios, self.at_least)).sum()) for ratios in left.values()) if self.at_least else 0
        looks = found[worst]
        parts = [f"{looks.releases:,} releases under {looks.keys:,} plans leave {short(observed)} on {worst!r}"]
        parts += (
            [f"required at least {short(self.at_least)}, {below:,} numbers of persons fall below"]
            if self.at_least
            else []
        )
        parts += [f"{short(other)} if numbers that changed did so but little"] if other < observed else []
        parts += [f"{looks.bare:,} earlier releases show it unchanged"] if looks.bare else []
        parts += [f"{unknown:,} earlier releases, of which no noise is known, are not counted"] if unknown else []
        passed = self.at_least is None or bool(at_least(observed, self.at_least))
        return Verdict(
            self,
            observed,
            outcome="pass" if passed else "fail",
            threshold=self.demanded(),
            reason="; ".join(parts) + "; releases of other holders cannot be judged.",
            compared=(
                Comparison(
                    releases - unknown,
                    releases,
                    "releases that the ledger remembers have known noise",
                    "begin another ledger with the first release that is judged by repeated_noise",
                ),
            ),
        )

    @staticmethod
    def _left(looks: NoiseObservations, moving: bool) -> Floats:
        from privpipe.kernels.noise.averaging import left_ratios

        return left_ratios(looks.units, looks.stages, looks.draws, looks.values, looks.ratios, moving=moving)

    @classmethod
    def examples(cls) -> list[Self]:
        key = {"from_env": "PRIVPIPE_LEDGER_KEY"}
        return [
            cls(columns=("income",), at_least=0.05, ledger="ledger", key=key),
            cls(columns=("income", "age"), ledger="ledger", key=key, normalise=("trim",), changed="averaged"),
        ]
