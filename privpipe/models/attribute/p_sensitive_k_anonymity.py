"""p-sensitive k-anonymity."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Doc

from privpipe.blocks import ClassBlock, Facts
from privpipe.blocks.guarantee import Direction
from privpipe.blocks.marks import Columns, LeastNumber, SensitiveColumn, Stricter
from privpipe.blocks.oracle_classes import Classes, Expected, by_class
from privpipe.blocks.parameters import require_integer
from privpipe.errors import UsageError
from privpipe.models.several_figures import SeveralFigures
from privpipe.roles import Roles

__all__ = ["PSensitiveKAnonymity"]


@dataclass(frozen=True, kw_only=True, repr=False)
class PSensitiveKAnonymity(SeveralFigures):
    """Each class has `k` records and `p` values of every sensitive column; observed = the least numbers.

    Parameters
    ----------
    k : int, optional
        At least 1. Left out together with p (under `measures:`), the figures are reported.
    p : int, optional
        At least 1 and at most k.
    columns : tuple of str, optional
        Sensitive columns; default: all of the policy. A missing value counts as one more value.
    quasi_identifiers : tuple of str, optional
        Default: all of the policy.

    Notes
    -----
    The same as `k_anonymity` and `distinct_l_diversity` with l = p on each column, under the name of
    the literature. Where persons are counted, values are counted as there: sets of values, and a single one where all
    persons of a class have some value in common.

    Examples
    --------
    >>> import numpy as np
    >>> from privpipe.blocks import Cells, ClassBlock, Facts
    >>> cells = Cells(np.array([0, 2, 3]), np.array([0, 1, 1]), np.array([1, 2, 4]))
    >>> model = PSensitiveKAnonymity(k=3, p=2, columns=("illness",))
    >>> verdict = model.judge(model.measure(ClassBlock(np.array([3, 4]), {"illness": cells}), Facts()), Facts())
    >>> verdict.observed, verdict.failing_records
    ({'k': 3, 'p': 1}, 4)
    """

    threshold_field = "k"
    protects_nobody_at = 1
    hereditary = True
    convex = True
    observes = dict[str, float]
    source = "Truta and Vinay, Privacy protection: p-sensitive k-anonymity property, ICDE Workshops 2006"
    threat = (
        "An intruder who finds a person's class finds the record in it, or the sensitive value that all records share."
    )
    formula = "n_c >= k, and at least p distinct values of each sensitive column, in each class"
    choose = (
        "k as for k_anonymity, p = 2 or 3. It ignores how often a value occurs: add t_closeness or "
        "entropy_l_diversity where one value is common."
    )

    k: Annotated[LeastNumber, Doc("least number of records that share every quasi-identifier combination")] = None
    p: Annotated[
        LeastNumber, Doc("least number of distinct values of each sensitive column in each class; at most k")
    ] = None
    columns: Annotated[
        tuple[str, ...] | None, Columns(), SensitiveColumn(), Stricter("equal"), Doc("sensitive columns; left out: all")
    ] = None

    def __post_init__(self) -> None:
        if self.columns is not None:
            if isinstance(self.columns, str) or not self.columns:
                raise UsageError("PSensitiveKAnonymity: columns must be a list of at least one column name")
            object.__setattr__(self, "columns", tuple(self.columns))
        super().__post_init__()
        if (self.k is None) != (self.p is None):
            raise UsageError("PSensitiveKAnonymity: k and p go together")
        if self.k is not None:
            require_integer("PSensitiveKAnonymity", "p", self.p, least=1, most=self.k)

    def with_roles(self, roles: Roles) -> Self:
        if self.columns is not None:
            return self
        if not roles.sensitive:
            raise UsageError(
                "p_sensitive_k_anonymity: no column has `role: sensitive`; declare one, or use k_anonymity"
            )
        return replace(self, columns=tuple(roles.sensitive))

    def least_size(self) -> int:
        return self.k or 1

    def least_values(self) -> int:
        return self.p or 1

    def rules(self) -> Mapping[str, tuple[Direction, Any]]:
        return {"k": ("at_least", self.k), "p": ("at_least", self.p)}

    def figures(self, block: ClassBlock, facts: Facts) -> Mapping[str, NDArray[Any]]:
        from privpipe.kernels.classes.cells import distinct_by_class

        if self.columns is None:
            raise UsageError("p_sensitive_k_anonymity: name the sensitive `columns`, or declare them in the policy")
        values = [distinct_by_class(block.value_sets(column).offsets) for column in self.columns]
        return {"k": block.sizes, "p": np.minimum.reduce(values)}

    @staticmethod
    def oracle(model: Any, classes: Classes) -> Expected:
        """Every class has k records and p values of each column."""
        columns = model.columns or classes.sensitive
        sizes = classes.sizes
        values = [min(len(classes.value_sets(column)[at]) for column in columns) for at in range(len(sizes))]
        passes = [
            model.k is None or (size >= model.k and number >= model.p)
            for size, number in zip(sizes, values, strict=True)
        ]
        return by_class(classes, sizes, passes, lambda _: {"k": min(sizes), "p": min(values)})

    @staticmethod
    def thresholds(rng: Any) -> dict[str, Any]:
        """Parameters of a random gate."""
        p = int(rng.integers(1, 5))
        return {"k": int(rng.integers(p, 9)), "p": p}

    @classmethod
    def examples(cls) -> list[Self]:
        return [
            cls(),
            cls(k=1, p=1),
            cls(k=2, p=2),
            cls(k=3, p=2, columns=("illness",)),
        ]
