"""Information loss of a release compared with its original: of cells, moments, labels and models."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Self

from typing_extensions import Doc

from privpipe.blocks import FilePair, FilePairMeasure, Verdict
from privpipe.blocks.file_pair import DistinctPair, DistinctPairMeasure, TableFiles, TableMeasure
from privpipe.blocks.guarantee import require_columns, short
from privpipe.blocks.marks import ColumnName, OptionalNumber, OwnColumns, Stricter
from privpipe.blocks.parameters import require_choice
from privpipe.blocks.way import FILES, RECODED_TABLES, WHOLE_TABLES, Way
from privpipe.errors import UsageError
from privpipe.measures.utility.loss_columns import (
    NAMES,
    REGISTERED,
    columns_entered,
    infinite_columns,
    numbers_compared,
)
from privpipe.roles import Roles

__all__ = ["InformationLoss"]

OF_CLASSES = {"discernibility": "discernibility", "c_avg": "c_avg", "ncp": "gcp"}
"""Losses of classes and labels, with the quality model that gives them."""
UNPAIRED = (
    *("moments", "correlation", "eigen", "propensity", "kl", "regression"),
    *("hellinger", "wasserstein", "contingency", "specks"),
)
"""Losses that pair no records, and so are of whole tables; `classifier` is with a holdout."""
OF_NUMBERS = ("il1s", "il1", "sse_sst", "arctan", "moments", "correlation", "eigen", "wasserstein")
OF_MODELS = ("propensity", "specks", "classifier", "regression")
OF_LABELS = ("entropy", "kl", "classifier")
"""Losses that compare values with labels; the others compare the texts of the tables, whatever they mean."""
LIKE_MOMENTS = ("moments", "correlation", "eigen", "regression")
SMALLEST_SHOWN = 20


@dataclass(frozen=True, kw_only=True, repr=False)
class InformationLoss(FilePairMeasure, DistinctPairMeasure, TableMeasure):
    """What masking and recoding have cost the data; 0 for an unchanged table, and small figures are good.

    observed = ``loss``, with the figure of each column, what was suppressed and further figures.

    Parameters
    ----------
    measure : str
        Of cells: ``il1s`` mean of |x - y| / (sqrt(2) sd), sd of the original; ``il1`` mean of |x - y| / |x|, cells
        x = 0 dropped; ``sse_sst`` 100 SSE / SST on the original's scale; ``arctan`` mean of (2 / pi) arctan |x - y|,
        only reported. Of distributions: ``moments`` (the largest shift), ``correlation`` (mean |r - r'|), ``eigen``,
        ``hellinger`` (mean over columns; numbers in 20 bins at quantiles of the original), ``wasserstein`` (mean over
        number columns, in deviations), ``contingency`` (mean total variation over pairs of columns; 5 bins).
        Of labels: ``entropy`` (non-uniform, a ratio), ``kl`` (nats, joint), ``ncp`` (mean of all cells), ``c_avg``,
        ``discernibility``. Of models: ``propensity`` (pMSE), ``specks`` (largest gap of its scores), ``classifier``
        (accuracy lost on held-out originals, with a `holdout` on that), ``regression`` (1 - overlap of intervals). Or
        a name given to `register_loss`.
    columns : tuple of str, optional
        Default: all quasi-identifiers.
    at_most : float, optional
        Left out (under `measures:`), the loss is reported.
    target : str, optional
        Of `classifier` and `regression`, which need it: the column to be predicted from the others.
    model : {"logistic", "tree"}, optional
        Of `propensity`, `specks` and `classifier`, logistic by default; a tree needs ``privpipe[utility]``.
    holdout : str, optional
        Table of records of the same population that the release was not made from: ``chance`` is the loss of the
        original compared with as many of them, below which a loss is none. `classifier` is tested on it.
    by : str, optional
        A column of at most 20 values: the loss is the largest within its groups of 50 original records or more.
    k : int, optional
        Of `c_avg`: the required size of class.

    Notes
    -----
    Losses of cells, `entropy`, registered functions and `classifier` without a holdout are over the records that are in
    both tables; `ncp` costs 1 for a suppressed record, and `discernibility` n. All others are of the two whole tables,
    pair no records and judge synthetic releases too. The suppressed share is listed too. Cells that
    have no number on some side are left out of the losses of
    cells, and blanked ones counted separately. Sums are rounded once, whatever the order of the records. Of fewer than
    20 records, figures that disclose moments are judged but not shown. The loss models of searches are `quality`.

    Examples
    --------
    >>> import pyarrow as pa
    >>> import numpy as np
    >>> x, y = pa.record_batch({"a": [1.0, 2.0, 3.0]}), pa.record_batch({"a": [1.0, 2.0, 5.0]})
    >>> files = FilePair(original=x, released=y, ids=np.zeros((3, 2), dtype=np.int64), records=3, released_records=3)
    >>> verdict = InformationLoss(measure="il1s", columns=("a",), at_most=0.4).judge_files(files)
    >>> verdict.outcome, round(verdict.observed["loss"], 3)
    ('fail', 0.471)
    """

    observes = dict[str, Any]
    source = (
        "Mateo-Sanz, Domingo-Ferrer, Sebe, 2005; Woo et al., 2009; Snoke et al., 2018; Karr et al., 2006; De "
        "Waal, Willenborg, 1999; Bayardo, Agrawal, ICDE 2005; Xu et al., KDD 2006"
    )
    threat = "A release is safe and of no use; this is not a privacy figure."
    formula = "divergence(f(original), f(released)) <= at_most, il1s: mean |x - y| / (sqrt(2) sd)"
    choose = (
        "il1s below 0.1 keeps most analyses; propensity is near 0 at best and 0.25 where the files are "
        "distinguishable; name the regression or the classifier that the users of the table will fit."
    )

    # Entries over files measure no blocks.
    measure: Annotated[str, Stricter("equal"), Doc(f"one of {', '.join(NAMES)}, or a registered function")] = field()  # type: ignore[assignment]
    at_most: Annotated[float | None, Stricter("smaller"), Doc("largest loss that passes; not for arctan")] = None
    target: Annotated[
        str | None, Stricter("equal"), Doc("of classifier and regression: the column predicted from the others")
    ] = None
    model: Annotated[
        str | None,
        Stricter("equal"),
        Doc("of propensity, specks and classifier: logistic (left out) or tree, which needs privpipe[utility]"),
    ] = None
    by: Annotated[
        str | None,
        ColumnName(),
        Stricter("equal"),
        Doc("column of at most 20 values: the largest loss within its groups of 50 records or more"),
    ] = None
    k: Annotated[OptionalNumber, Doc("of c_avg: the required size of class")] = None

    columns: Annotated[OwnColumns, Doc("columns compared; left out: all quasi-identifiers")] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        owner, name = "InformationLoss", self.measure
        require_choice(owner, "measure", name, (*NAMES, *REGISTERED))
        if self.columns is not None:
            self._take_columns()
        if self.at_most is not None and name == "arctan":
            raise UsageError(f"{owner}: arctan depends on units and is only reported; leave at_most out")
        if (self.target is not None) is not (name in ("classifier", "regression")):
            raise UsageError(f"{owner}: target belongs to classifier and regression, which need it")
        if self.target is not None and self.target in (self.columns or ()):
            raise UsageError(f"{owner}: {self.target!r} is the target; take it out of columns")
        if self.model is not None:
            require_choice(owner, "model", self.model, ("logistic", "tree"))
            if name not in ("propensity", "specks", "classifier"):
                raise UsageError(f"{owner}: model belongs to propensity, specks and classifier")
        if (self.k is None) is (name == "c_avg"):
            raise UsageError(f"{owner}: k belongs to c_avg, which needs it")
        self._check_whole()
        if self.model == "tree":
            from privpipe.measures.utility.loss_models import require_trees

            require_trees()  # a missing library is reported before any work

    def _check_whole(self) -> None:
        """Parameters that only losses of whole tables take."""
        owner = "InformationLoss"
        if self.holdout is not None and self.measure not in (*UNPAIRED, "classifier"):
            raise UsageError(
                f"{owner}: holdout: belongs to losses that pair no records: {', '.join(UNPAIRED)}, classifier"
            )
        if self.by is not None and self.measure not in UNPAIRED:
            raise UsageError(f"{owner}: by: belongs to losses that pair no records: {', '.join(UNPAIRED)}")
        if self.by is not None and self.by == self.target:
            raise UsageError(f"{owner}: by: {self.by!r} is the target")

    def _take_columns(self) -> None:
        names = require_columns("InformationLoss", self.columns)
        if self.quasi_identifiers not in (None, names):
            raise UsageError("InformationLoss: quasi_identifiers and columns name different sets; give only columns")
        object.__setattr__(self, "columns", names)
        if self.measure in OF_CLASSES:
            object.__setattr__(self, "quasi_identifiers", names)

    @property
    def way(self) -> Way:  # type: ignore[override]
        """By recoded tables for losses of classes and labels, by whole tables where nothing pairs; else by files."""
        if self.measure in OF_CLASSES:
            return RECODED_TABLES
        whole = self.measure in UNPAIRED or (self.measure == "classifier" and self.holdout is not None)
        return WHOLE_TABLES if whole else FILES

    @property
    def reads_values(self) -> bool:
        return self.measure in OF_LABELS

    def compared_columns(self, roles: Roles | tuple[str, ...]) -> tuple[str, ...]:
        keys = tuple(roles.quasi_identifiers) if isinstance(roles, Roles) else roles
        return tuple(name for name in self.columns or self.quasi_identifiers or keys if name != self.target)

    def columns_read(self, roles: Roles | tuple[str, ...]) -> tuple[str, ...]:
        return tuple(
            dict.fromkeys(
                (*self.compared_columns(roles), *(name for name in (self.target, self.by) if name is not None))
            )
        )

    def original_moments(self, roles: Roles) -> tuple[str, ...]:
        return self.columns_read(roles) if self.measure in ("il1s", "sse_sst") else ()

    def judge_tables(self, pair: DistinctPair | TableFiles) -> Verdict:
        from privpipe.measures.utility.quality import Quality

        if isinstance(pair, TableFiles):
            return self._judge_whole(pair)
        found = Quality(name=OF_CLASSES[self.measure], k=self.k).judge_tables(pair)  # type: ignore[arg-type]
        if found.outcome == "error" or found.observed is None:
            return dataclasses.replace(found, entry=self, threshold=self.demanded(), outcome="error")
        told = found.reason.partition("; ")[2].rstrip(".")
        return self._verdict(float(found.observed), {"loss": found.observed}, (told,) if told else ())

    def _judge_whole(self, files: TableFiles) -> Verdict:
        from privpipe.measures.utility.loss_models import by_groups, chance_level, tested_elsewhere

        n, shown = files.original.num_rows, files.released.num_rows
        whole = files.unpaired()
        others = None if files.holdout is None else files.unpaired(files.holdout.cast(files.original.schema))
        infinite = [name for each in (whole, others) if each is not None for name in infinite_columns(each)]
        if infinite or not (n and shown):
            why = f"infinite values in column {infinite[0]!r}" if infinite else "there are no records to compare"
            return self.not_judged(f"{why}")
        chance: float | None = None
        if self.measure == "classifier":
            kind: Any = self.model or "logistic"
            names = [name for name in files.original.schema.names if name != self.target]
            found = tested_elsewhere(files, names, str(self.target), kind)
        else:
            found = self._figure(whole) if self.by is None else by_groups(files, self.by, self._figure)
            chance = chance_level(files, self.by, self._figure)
        observed: dict[str, Any] = {"suppressed_share": max(0, n - shown) / n}
        if self.holdout is not None and self.measure != "classifier":
            observed["chance"] = chance
        told = f"of {n:,} original and {shown:,} released records"
        if chance is not None:
            told += f", {short(chance)} between the original and as many others"
        return self._resting(self._judged(found, observed, told, min(n, shown)), whole)

    def judge_files(self, files: FilePair) -> Verdict:
        infinite = infinite_columns(files)
        if infinite or not len(files):
            why = f"infinite values in column {infinite[0]!r}" if infinite else "no record is in both tables"
            return self.not_judged(f"{why}")
        gone = files.records - len(files)
        told = f"over {len(files):,} records that are in both tables, {gone:,} of {files.records:,} not released"
        beside = {"suppressed_share": gone / files.records if files.records else 0.0}
        return self._resting(self._judged(self._figure(files), beside, told, len(files)), files)

    def _resting(self, verdict: Verdict, files: FilePair) -> Verdict:
        """The verdict with how much of the named columns it rests on."""
        names = [name for name in files.original.schema.names if name not in (self.target, self.by)]
        if self.measure in OF_NUMBERS:
            return dataclasses.replace(verdict, compared=(numbers_compared(files, names),))
        if self.measure in OF_MODELS:
            return dataclasses.replace(verdict, compared=(columns_entered(files, names),))
        return verdict

    def _judged(self, found: Any, beside: Mapping[str, Any], told: str, records: int) -> Verdict:
        if found.loss is None or found.loss != found.loss:
            why = found.why or "the figure is undefined"
            return self.not_judged(f"{why}")
        observed = {
            "loss": found.loss,
            **({"columns": dict(found.columns)} if found.columns else {}),
            **found.beside,
            **beside,
        }
        hidden = self.measure in LIKE_MOMENTS and records < SMALLEST_SHOWN
        return self._verdict(found.loss, observed, (told, *found.notes), hidden=hidden)

    def _figure(self, files: FilePair) -> Any:
        from privpipe.measures.utility import loss_figures, loss_models

        names = [name for name in files.original.schema.names if name != self.target]
        kind: Any = self.model or "logistic"
        if not names:
            return loss_figures.LossFigure(None, why="no column is left to compare")
        if self.measure in ("propensity", "specks"):
            return loss_models.propensity_loss(files, names, kind, gap=self.measure == "specks")
        if self.measure in loss_figures.OF_DISTRIBUTIONS:
            return loss_figures.OF_DISTRIBUTIONS[self.measure](files, names)
        if self.measure == "classifier":
            return loss_models.classifier_loss(files, names, str(self.target), kind)
        if self.measure == "regression":
            return loss_models.regression_loss(files, names, str(self.target))
        if self.measure in loss_figures.LOSSES:
            return loss_figures.LOSSES[self.measure](files, names)
        own = REGISTERED[self.measure]
        return loss_figures.LossFigure(own(files.original, files.released), notes=("by a registered function",))

    def _verdict(
        self, loss: float, observed: Mapping[str, Any], notes: tuple[str, ...], *, hidden: bool = False
    ) -> Verdict:
        seen = f"not shown of fewer than {SMALLEST_SHOWN} records" if hidden else f"of {short(loss)}"
        return self.judged(
            loss,
            None if hidden else observed,
            reason="; ".join((f"a loss {seen} by {self.measure}{self.asked}", *notes)) + ".",
        )

    @classmethod
    def examples(cls) -> list[Self]:
        return [
            cls(measure="il1s"),
            cls(measure="il1s", columns=("age",), at_most=0.1),
            cls(measure="sse_sst", at_most=5.0),
            cls(measure="propensity", at_most=0.01),
            cls(measure="entropy", at_most=0.5),
            cls(measure="c_avg", k=2, at_most=2.0),
            cls(measure="regression", target="income"),
            cls(measure="hellinger", columns=("age", "income"), at_most=0.5, holdout="others.csv"),
            cls(measure="contingency", columns=("age", "income"), at_most=0.5),
            cls(measure="wasserstein", columns=("income",), at_most=0.5),
            cls(measure="specks", columns=("income",), at_most=0.5),
        ]
