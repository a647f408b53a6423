"""Inference: a secret guessed from known columns of a person and the rows of the release."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from annotated_types import Ge
from typing_extensions import Doc

from privpipe.blocks import Verdict
from privpipe.blocks.file_pair import TableFiles
from privpipe.blocks.guarantee import short
from privpipe.blocks.marks import ColumnName, OwnColumns, Stricter
from privpipe.blocks.verdict import Comparison
from privpipe.errors import UsageError
from privpipe.measures.risk.criteria.controlled_attack import RecordAttack
from privpipe.measures.risk.criteria.secret_guesses import Guessing, ModelKind, Tolerance, guessing
from privpipe.roles import Roles
from privpipe.tolerance import below

if TYPE_CHECKING:
    from privpipe.kernels.linkage.attack_figures import AttackFigures

__all__ = ["InferenceAttack"]


@dataclass(frozen=True, kw_only=True, repr=False)
class InferenceAttack(RecordAttack):
    """Share of records whose secret the release reveals to anyone who knows other columns of them.

    Parameters
    ----------
    column : str
        The secret.
    columns : tuple of str, optional
        What is known. Default: all quasi-identifiers but the secret.
    holdout : str, optional
        Table of records of the same population that the release was not made from: the control.
    at_most : float, optional
        In [0, 1]. Left out (under `measures:`), the figures are reported.
    figure : {"excess", "gain", "success"}, optional
        Over the control, over the best constant guess, or neither. Default: excess with a holdout, else success.
    guess : {"nearest", "model", "both"}
        By the nearest rows of the release, by a model fitted on it, or by whichever of the two has the larger figure.
    tolerance : {"relative": share} or {"absolute": distance}, optional
        Which numbers and dates (absolute, in days) count as right; must be given for them and for nothing else.
    model : {"logistic", "tree"}
        For numbers least squares or a tree; trees need scikit-learn.
    sample : int, optional
        Attacked originals, and others at most; None: all.
    targets : {"all", "outliers"}
        `outliers`: the `outlier_share` whose nearest other original is farthest.
    outlier_share : float
        In (0, 1].
    by_value : bool
        Report the success for each secret that 20 attacked records or more have.
    confidence : float
        Of the limits that are compared, in (0, 1); `both` takes each guess at half the error.

    Notes
    -----
    Nearest: all rows at the least distance by Gower; the success is the share of them whose secret is right. A released
    label is right for what it covers, and `width` is the share of the original's secrets that guesses cover. The
    relative tolerance is a share of the true secret. No records are paired. A lower bound of the risk.

    Examples
    --------
    >>> import pyarrow as pa
    >>> x = pa.table({"age": [20, 30, 40], "illness": ["flu", "flu", "gout"]})
    >>> attack = InferenceAttack(column="illness", columns=("age",), at_most=0.8)
    >>> verdict = attack.judge_tables(TableFiles(original=x, released=x))
    >>> verdict.outcome, verdict.observed["success"], round(verdict.observed["naive"], 3)
    ('fail', 1.0, 0.667)
    """

    source = (
        "Giomi, Boenisch, Wehmeyer, Tasnadi, PoPETs 2023(2); Taub, Elliot, Pampaka, Smith, PSD 2018; the "
        "model: Templ, Thees, Mueller, RAPID, 2026"
    )
    threat = "Someone who knows some columns of a person reads a secret off the rows that come nearest."
    formula = "a = mean share of the nearest rows whose secret is right; (a - control)/(1 - control) <= at_most"
    choose = "0.1 for the excess over a holdout, as a starting point; the tolerance of a number decides the result."

    column: Annotated[str, ColumnName(), Stricter("equal"), Doc("the secret that is guessed")]
    columns: Annotated[OwnColumns, Doc("known of a person; left out: all quasi-identifiers except the secret")] = None
    guess: Annotated[
        Literal["nearest", "model", "both"], Stricter("equal"), Doc("by the nearest rows, by a model, or by both")
    ] = "nearest"
    tolerance: Annotated[
        dict[str, Annotated[float, Ge(0)]] | None,
        Stricter("equal"),
        Doc("{relative: share of the secret} or {absolute: distance}: which numbers and dates count as right"),
    ] = None
    model: Annotated[ModelKind, Stricter("equal"), Doc("logistic (numbers: least squares) or tree")] = "logistic"
    by_value: Annotated[bool, Stricter("equal"), Doc("report the success for each secret of 20 records or more")] = (
        False
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        owner = "InferenceAttack"
        self.hold_columns()
        if self.column in (self.columns or ()):
            raise UsageError(f"{owner}: the secret {self.column!r} is among the columns that are known")
        if self.tolerance is not None and (
            not isinstance(self.tolerance, Mapping) or len(self.tolerance) != 1 or set(self.tolerance) - set(Tolerance)
        ):
            raise UsageError(f"{owner}: tolerance must be {{relative: share}} or {{absolute: distance}}")

    def packages(self) -> dict[str, str]:
        return {"sklearn": "utility"} if self.guess != "nearest" and self.model == "tree" else {}

    def compared_columns(self, roles: Roles) -> tuple[str, ...]:
        return self.columns or tuple(name for name in roles.quasi_identifiers if name != self.column)

    def columns_read(self, roles: Roles) -> tuple[str, ...]:
        return (*self.compared_columns(roles), self.column)

    def judge_tables(self, files: TableFiles) -> Verdict:
        reason = self.unjudgeable(files)
        if reason:
            return self.not_judged(reason)
        known = self.columns_of(files)
        pair = files.with_others(files.holdout)
        found = guessing(files, pair, known, self.column, self.tolerance, self.name())
        if isinstance(found, str):
            return self.not_judged(found)
        targets = self.chosen(files, pair, known)
        confidence = self.confidence if self.guess != "both" else 1.0 - (1.0 - self.confidence) / 2.0
        figures: dict[str, AttackFigures] = {}
        beside: dict[str, dict[str, Any]] = {}
        for way in ("nearest", "model") if self.guess == "both" else (self.guess,):
            guessed = found.nearest(targets) if way == "nearest" else found.model(targets, self.model)
            if isinstance(guessed, str):
                return self.not_judged(guessed)
            figures[way] = found.figures(guessed, targets, confidence)
            beside[way] = {**guessed.beside, "hits": guessed.hits[0], "control_hits": guessed.hits[1]}
            if self.by_value:
                beside[way] |= found.by_value(guessed, targets)
        return self._judged(files, found, targets, figures, beside)

    def _judged(
        self,
        files: TableFiles,
        found: Guessing,
        targets: Any,
        figures: Mapping[str, AttackFigures],
        beside: Mapping[str, Mapping[str, Any]],
    ) -> Verdict:
        limits = {way: each.compared(self.compared) for way, each in figures.items()}
        # A guess whose excess is undefined comes first: then there is no verdict on either.
        best = max(limits, key=lambda way: float("inf") if limits[way] is None else float(limits[way] or 0.0))
        random = found.random_share(targets)
        named = {**self.counts(files, targets), "guess": best, "random": random, **beside[best]}
        if len(figures) > 1:
            named["guesses"] = {
                way: {"success": each.success, "control": each.control, "upper": limits[way], **beside[way]}
                for way, each in figures.items()
            }
        broken = (
            f"the attack is broken: its guesses are right less often than those of a row drawn at random "
            f"({short(random)}), which proves nothing"
            if bool(below(figures[best].upper, random))
            else ""
        )
        did = f"guessed `{self.column}` of {len(targets.original):,} of {files.original.num_rows:,} records"
        entry = replace(self, confidence=1.0 - (1.0 - self.confidence) / 2.0) if len(figures) > 1 else self
        ways = {"nearest": "by the nearest rows", "model": "by a model of the release"}
        judged = entry.verdict(figures[best], named, f"{did} {ways[best]}", broken, (*targets.notes, *found.notes))
        if self.guess != "model":
            return replace(judged, entry=self)
        gone, asked = len(named.get("left_out", ())), len(self.columns_of(files))
        what, remedy = "known columns enter the model", "group their values, or guess by the nearest rows"
        return replace(judged, entry=self, compared=(Comparison(asked - gone, asked, what, remedy),))

    def columns_of(self, files: TableFiles) -> tuple[str, ...]:
        """What is known of a person."""
        return self.columns or tuple(name for name in files.original.schema.names if name != self.column)

    @classmethod
    def examples(cls) -> list[Self]:
        return [
            cls(column="illness", columns=("age",), figure="gain"),
            cls(column="illness", columns=("age", "income"), holdout="others.csv", at_most=0.9, guess="both"),
            cls(column="income", columns=("age",), tolerance={"relative": 0.05}, holdout="others.csv", by_value=True),
        ]
