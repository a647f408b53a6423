"""Result privacy: results that must not be derivable from what is published."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Self

from typing_extensions import Doc

from privpipe.blocks import Verdict
from privpipe.blocks.file_pair import DistinctPair, DistinctPairMeasure
from privpipe.blocks.marks import KeyColumns, Stricter
from privpipe.blocks.verdict import Comparison
from privpipe.errors import UsageError
from privpipe.measures.risk.attribute.counted_table import CountedTable
from privpipe.measures.risk.attribute.hidden_results import Found, Result, read_result

__all__ = ["ResultPrivacy"]


@dataclass(frozen=True, kw_only=True, repr=False)
class ResultPrivacy(DistinctPairMeasure):
    """None of the listed results holds in the release; observed = results that do, with the figure of each.

    Parameters
    ----------
    results : list of mappings of one kind to its parameters
        ``rule: {if: {column: value}, then: {column: value}, support, confidence}``: an association rule reaches the
        support (records, or a share of them below 1) and the confidence. ``rules: {then, support, confidence,
        columns, max_items}``: some rule with this right side and up to three items on the left does.
        ``correlation: {columns: [a, b], at_most}``: |Spearman's rho|, or Cramer's V, is larger. ``share: {where, of,
        at_most}``: the share of the records `of` that are `where` is larger. ``order: {column, by, at_most}``: the
        groups' means rank as in the original, by |Kendall's tau-b|. ``model: {target, at_most, columns}``: a decision
        tree predicts the target better than its most frequent value, by more than this share of records.
    quasi_identifiers : tuple of str, optional
        Columns on the left side of `rules` and in a `model` that name none. Default: all of the policy.

    Notes
    -----
    Counted over records, exactly, from the distinct combinations of the columns that a result is about; only the tree
    of `model` looks at no more than 200,000 records. Records with a suppressed or missing cell in a column of a result
    are left out of it, of both sides of a confidence too. `rules` count the empty left side as well. Texts and mixed
    columns have Cramer's V, with more than 20 distinct numbers in ten groups; where both are ordered (labels of
    intervals), the larger of the two figures counts. A named value that neither the release nor the original has is
    an error, since a misspelt one would never be found; so is one that no record shows in a column that the release
    recodes (name the label that covers it), and a result over less than half of the records.

    Examples
    --------
    >>> import pyarrow as pa
    >>> table = pa.table({"sex": ["f", "f", "m"], "illness": ["hiv", "flu", "flu"], "__count": [6, 2, 8]})
    >>> rule = {"if": {"sex": "f"}, "then": {"illness": "hiv"}, "support": 5, "confidence": 0.6}
    >>> verdict = ResultPrivacy(results=[{"rule": rule}]).judge_tables(DistinctPair(keys=("sex",), released=table))
    >>> verdict.outcome, verdict.observed["results"][0]["figure"]
    ('fail', 0.75)
    """

    threshold_field = "results"
    withheld: ClassVar[tuple[str, ...]] = ("results",)
    observes = dict[str, Any]
    source = "Verykios, Elmagarmid, Bertino, Saygin, Dasseni, IEEE TKDE 16(4), 2004; Domingo-Ferrer, Torra, 2008"
    threat = (
        "An analyst mines the release for what its owner must keep secret: a rule, a share, a ranking, a prediction."
    )
    formula = "number of listed results that hold in the release = 0"
    choose = (
        "List what competitors or the press must not learn; confidence 0.6 and the support of the smallest group "
        "that matters are usual."
    )

    results: Annotated[
        list[Any], Stricter("equal"), Doc("results that must not hold: rule, rules, correlation, share, order, model")
    ]

    quasi_identifiers: Annotated[
        KeyColumns, Doc("columns that rules and models without columns go by; left out: all of the policy")
    ] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.results, str | Mapping) or not isinstance(self.results, Sequence) or not self.results:
            raise UsageError("result_privacy: results must be a list of at least one result")
        object.__setattr__(self, "results", list(self.results))
        self._read()

    def _read(self) -> list[Result]:
        return [read_result(f"result_privacy: result {at}", given) for at, given in enumerate(self.results, 1)]

    def demanded(self) -> int:
        return 0

    def columns_read(self, keys: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for result in self._read() for name in result.columns(keys)))

    def judge_tables(self, pair: DistinctPair) -> Verdict:
        released = CountedTable(pair.released, pair.blanks)
        original = None if pair.original is None else CountedTable(pair.original, ())
        results = self._read()
        if missing := _unseen(results, released, original):
            return self.not_judged(missing)
        found = [result.found(released, original, pair.keys) for result in results]
        observed = {
            "holding": sum(each.holds for each in found),
            "results": [_row(result, each) for result, each in zip(results, found, strict=True)],
        }
        said = [
            f"result {at} ({result.kind} of {_names(each)}): {each.text}"
            for at, (result, each) in enumerate(zip(results, found, strict=True), 1)
        ]
        holding = [text for text, each in zip(said, found, strict=True) if each.holds]
        if not holding:
            unknown = [text for text, each in zip(said, found, strict=True) if each.figure is None]
            if unknown:
                return self.not_judged("; ".join(unknown), observed)
        shown = holding or [max(zip(said, found, strict=True), key=lambda each: each[1].figure or 0.0)[0]]
        return self.judged(
            len(holding),
            observed,
            reason=f"{len(holding):,} of {len(found):,} results hold in the release; {'; '.join(shown)}.",
            compared=tuple(
                Comparison(each.compared, each.of, f"records show the columns of result {at}")
                for at, each in enumerate(found, 1)
            ),
        )

    @classmethod
    def examples(cls) -> list[Self]:
        flu = {"then": {"illness": "flu"}, "support": 2, "confidence": 0.6}
        return [
            cls(results=[{"rules": flu}]),
            cls(
                results=[
                    {"rule": {"if": {"sex": "f"}, **flu}},
                    {"share": {"where": {"illness": "flu"}, "at_most": 0.5}},
                ]
            ),
            cls(results=[{"correlation": {"columns": ["zip", "illness"], "at_most": 0.3}}]),
        ]


def _row(result: Result, found: Found) -> dict[str, Any]:
    """What the record keeps of a result: kinds, names of columns and figures."""
    row = {"kind": result.kind, "columns": list(found.columns), "holds": found.holds, "figure": found.figure}
    return {**row, **found.details, "records": found.compared}


def _names(found: Found) -> str:
    return ", ".join(map(repr, found.columns))


def _unseen(results: Sequence[Result], released: CountedTable, original: CountedTable | None) -> str:
    """Why values that a result names cannot be looked for, or nothing."""
    unseen: dict[str, int] = {}
    recoded: dict[str, int] = {}
    for at, result in enumerate(results, 1):
        for name, value in result.items().items():
            if released.place(name, value) >= 0:
                continue
            if original is None or original.place(name, value) < 0:
                unseen.setdefault(name, at)
            elif set(released.column(name).texts) - set(original.column(name).texts):
                recoded.setdefault(name, at)
    if unseen:
        where = (
            "the release, and there is no original to look in" if original is None else "the release or the original"
        )
        return f"a value named of {_at(unseen)} is in no record of {where}: correct it, or take the result out"
    if recoded:
        return (
            f"a value named of {_at(recoded)} is in no record of the release, whose column is recoded: name the label "
            "that covers the value"
        )
    return ""


def _at(places: Mapping[str, int]) -> str:
    """Columns with the first result that names them."""
    return ", ".join(f"{name!r} (result {at})" for name, at in places.items())
