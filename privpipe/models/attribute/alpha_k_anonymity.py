"""(alpha, k)-anonymity."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Any, Self

import numpy as np
from annotated_types import Gt, Le
from numpy.typing import NDArray
from typing_extensions import Doc

from privpipe.blocks import ClassBlock, Facts, Tally
from privpipe.blocks.arrays import Floats
from privpipe.blocks.guarantee import Direction
from privpipe.blocks.marks import LeastNumber, SensitiveColumn, Stricter
from privpipe.blocks.oracle_classes import Classes, Expected, by_class, slack
from privpipe.errors import UsageError
from privpipe.models.attribute.value_order import canonical_texts, listed_texts
from privpipe.models.several_figures import SeveralFigures
from privpipe.roles import Roles

__all__ = ["AlphaKAnonymity"]


@dataclass(frozen=True, kw_only=True, repr=False)
class AlphaKAnonymity(SeveralFigures):
    """Each class has `k` records and no sensitive value exceeds the share `alpha`; observed = least size, top share.

    Parameters
    ----------
    k : int, optional
        At least 1. Left out together with alpha (under `measures:`), the figures are reported.
    alpha : float, optional
        In (0, 1].
    column : str, optional
        A sensitive column; default: each of the policy. A missing value counts as one more value.
    values : tuple, optional
        The values of `column` whose share is bounded; default: every value. They are read as values of the column's
        type, as in a file: `true`, `2024-05-01`, `1.50`. One that the data lacks has share 0, and the reason counts it.
    quasi_identifiers : tuple of str, optional
        Default: all of the policy.

    Raises
    ------
    DataError
        While judging: a listed value that is none of the column's type, so that no record could hold it.

    Notes
    -----
    Below one over the number of values, alpha cannot be met; nor, without suppression, below the share of a value
    in the whole table. Where persons are counted, the share of a value is that of the persons of the class who have it:
    three who all have one illness, each with one more, have alpha 1.

    Examples
    --------
    >>> import numpy as np
    >>> from privpipe.blocks import Cells, ClassBlock, Facts
    >>> cells = Cells(np.array([0, 2, 4]), np.array([0, 1, 0, 1]), np.array([1, 1, 3, 1]))
    >>> model = AlphaKAnonymity(k=2, alpha=0.5, column="illness")
    >>> verdict = model.judge(model.measure(ClassBlock(np.array([2, 4]), {"illness": cells}), Facts()), Facts())
    >>> verdict.observed, verdict.failing_records
    ({'k': 2, 'alpha': 0.75}, 4)
    """

    threshold_field = "alpha"
    convex = True
    observes = dict[str, float]
    source = "Wong, Li, Fu, Wang, (alpha, k)-anonymity: an enhanced k-anonymity model, KDD 2006"
    threat = (
        "An intruder who finds a person's class guesses the sensitive value with a good chance, because many share it."
    )
    formula = "n_c >= k, and q <= alpha for each (listed) value of each class"
    choose = (
        "k as for k_anonymity; alpha 0.5 to 0.8, above the share of the most frequent value in the whole table. List "
        "the damaging values where the common one is harmless."
    )

    k: Annotated[LeastNumber, Doc("least number of records that share every quasi-identifier combination")] = None
    alpha: Annotated[
        float | None, Gt(0), Le(1), Stricter("smaller"), Doc("largest share of a sensitive value in a class")
    ] = None
    column: Annotated[str | None, SensitiveColumn(), Stricter("equal"), Doc("the sensitive column; left out: each")] = (
        None
    )
    values: Annotated[
        tuple[str | int | float, ...] | None,
        Stricter("equal"),
        Doc("the values whose share is bounded; left out: every value"),
    ] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.k is None) != (self.alpha is None):
            raise UsageError("AlphaKAnonymity: k and alpha go together")
        if self.values is not None:
            if self.column is None:
                raise UsageError("AlphaKAnonymity: values are of one column; name it by `column`")
            if isinstance(self.values, str) or not self.values:
                raise UsageError("AlphaKAnonymity: values must be a list of at least one value")
            if not all(isinstance(value, str | int | float) and not isinstance(value, bool) for value in self.values):
                raise UsageError(
                    "AlphaKAnonymity: values must be texts or numbers; write a boolean as 'true' or 'false'"
                )
            if any(isinstance(value, float) and not math.isfinite(value) for value in self.values):
                raise UsageError("AlphaKAnonymity: values must be finite; write an infinite number as 'inf' or '-inf'")
            object.__setattr__(self, "values", tuple(self.values))
            # Only a column whose codes are positions in a histogram can identify values.
            object.__setattr__(self, "needs_base", True)

    def sensitive_columns(self) -> tuple[str, ...]:
        default: tuple[str, ...] = self.__dict__.get("_every", ())
        return default if self.column is None else (self.column,)

    def with_roles(self, roles: Roles) -> Self:
        if self.column is not None:
            return self
        if not roles.sensitive:
            raise UsageError("alpha_k_anonymity: no column has `role: sensitive`; declare one, or use k_anonymity")
        filled = copy.copy(self)
        object.__setattr__(filled, "_every", tuple(roles.sensitive))  # no parameter: `column` names one column
        return filled

    def idle(self) -> str:
        return "k = 1" if self.k == 1 else super().idle()

    def least_size(self) -> int:
        return max(self.k or 1, self.least_values())

    def least_values(self) -> int:
        # As many equal shares as bring each to alpha, within the tolerance of the comparison.
        return 1 if self.alpha is None or self.values is not None else math.ceil((1 - 2e-9) / self.alpha - 1e-9)

    def rules(self) -> Mapping[str, tuple[Direction, Any]]:
        return {"k": ("at_least", self.k), "alpha": ("at_most", self.alpha)}

    def figures(self, block: ClassBlock, facts: Facts) -> Mapping[str, NDArray[Any]]:
        columns = self.sensitive_columns()
        if not columns:
            raise UsageError("alpha_k_anonymity: name the sensitive `column`, or declare one in the policy")
        shares = [self._top_share(block, column, facts) for column in columns]
        return {"k": block.sizes, "alpha": shares[0] if len(shares) == 1 else np.maximum.reduce(shares)}

    def _top_share(self, block: ClassBlock, column: str, facts: Facts) -> Floats:
        from privpipe.kernels.classes.cells import top_share_by_class

        cells = block.cells[column]
        if self.values is None or self.column is None:
            return cells.once("top share", lambda them: top_share_by_class(them.offsets, them.counts, block.sizes))
        known = facts.histograms[self.column].values
        listed = listed_texts(self.name(), column, self.values, known.type)
        meant = np.array([text in listed for text in canonical_texts(known)])
        shares = cells.counts / np.repeat(block.sizes, np.diff(cells.offsets))
        return np.maximum.reduceat(np.where(meant[cells.codes], shares, 0.0), cells.offsets[:-1])

    def reason(self, observed: Tally, facts: Facts) -> str:
        text = super().reason(observed, facts)
        if self.values is None or self.column is None or self.column not in facts.histograms:
            return text
        known = facts.histograms[self.column].values
        listed = listed_texts(self.name(), self.column, self.values, known.type)
        absent = len(listed.difference(canonical_texts(known)))
        told = f"; {absent:,} of the {len(listed):,} listed values occur nowhere" if absent else ""
        return f"{text.removesuffix('.')}{told}."

    @staticmethod
    def oracle(model: Any, classes: Classes) -> Expected:
        """Every class has k records, and no value a larger share than alpha."""
        columns = [model.column] if model.column else classes.sensitive
        sizes = classes.sizes
        tops = []
        for at in range(len(sizes)):
            held = [
                share
                for column in columns
                for value, share in classes.shares(column)[at].items()
                if model.values is None or value in model.values
            ]
            tops.append(max(held, default=Fraction(0)))
        passes = [
            model.k is None or (size >= model.k and float(top) <= model.alpha + slack(model.alpha))
            for size, top in zip(sizes, tops, strict=True)
        ]
        return by_class(classes, sizes, passes, lambda _: {"k": min(sizes), "alpha": float(max(tops))})

    @staticmethod
    def thresholds(rng: Any) -> dict[str, Any]:
        """Parameters of a random gate."""
        return {"k": int(rng.integers(1, 9)), "alpha": float(rng.uniform(0.1, 1))}

    @classmethod
    def examples(cls) -> list[Self]:
        return [
            cls(),
            cls(k=1, alpha=1.0),
            cls(k=2, alpha=0.5),
            cls(k=2, alpha=0.75, column="illness"),
            cls(k=1, alpha=0.25, column="illness", values=("flu", "gout")),
        ]
