"""Runs and settings compared: risk and utility of each next to the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from privpipe.html_tables import Table, cut, html_tables
from privpipe.relations import STAGES as SET_STAGES
from privpipe.reporting.entry_rows import leading_figure, own_parameters, parameter_text
from privpipe.reporting.run_documents import RunDocuments

__all__ = [
    "ComparedFigure",
    "Point",
    "RiskUtilityMap",
    "RunComparison",
    "compare_runs",
    "risk_weights",
    "shown_setting",
]


EPSILON = 1e-12


def risk_weights(names: Sequence[str], kinds: Mapping[str, str]) -> dict[str, float]:
    """Weight of each risk figure: half for record linkage, half for interval disclosure, where there are both.

    Equal weights otherwise. Where both kinds are there, further attacks have weight 0 and are shown as well.
    Source: Domingo-Ferrer, Torra, A quantitative comparison of disclosure control methods, 2001.

    Parameters
    ----------
    names : sequence of str
        Of the figures.
    kinds : mapping of str to str
        The catalogue name of each.

    Examples
    --------
    >>> kinds = {"a": "record_linkage", "b": "probabilistic_linkage", "c": "rank_interval_disclosure"}
    >>> risk_weights(["a", "b", "c"], kinds)
    {'a': 0.25, 'b': 0.25, 'c': 0.5}
    >>> risk_weights(["a", "b"], kinds)
    {'a': 0.5, 'b': 0.5}
    """
    linkage = [name for name in names if kinds[name].endswith("linkage")]
    intervals = [name for name in names if kinds[name].endswith("interval_disclosure")]
    if not (linkage and intervals):
        return {name: 1 / len(names) for name in names}
    halves = {**{name: 0.5 / len(linkage) for name in linkage}, **{name: 0.5 / len(intervals) for name in intervals}}
    return {name: halves.get(name, 0.0) for name in names}


@dataclass(frozen=True, kw_only=True)
class Point:
    """One setting and what came of it.

    Parameters
    ----------
    setting : mapping of place to value
    outcome : {"pass", "fail", "error", "no_solution"}
    risk, loss : float or None
        None where a figure was not to be had.
    figures : mapping of str to float or None
        Every figure, risk and loss, by name.
    gates : mapping of str to str
        The outcome of each guarantee.
    suppressed_records : int or None
    reason : str
        Why there is no figure.
    """

    setting: Mapping[str, Any]
    outcome: str
    risk: float | None = None
    loss: float | None = None
    figures: Mapping[str, float | None] = field(default_factory=dict)
    gates: Mapping[str, str] = field(default_factory=dict)
    suppressed_records: int | None = None
    reason: str = ""

    @property
    def score(self) -> float | None:
        """(loss + risk) / 2."""
        return None if self.risk is None or self.loss is None else (self.loss + self.risk) / 2


def shown_setting(value: Any) -> str:
    """A setting as a notebook may show it: a number, a word that names something, else how many entries there are.

    Examples
    --------
    >>> shown_setting(0.05), shown_setting(["a", "b"]), shown_setting("#1: generalize")
    ('0.05', '2 entries', '#1: generalize')
    """
    if isinstance(value, Mapping | list | tuple):
        return f"{len(value)} entries"
    return "" if value is None else cut(str(value), 60)


@dataclass(frozen=True, kw_only=True, repr=False)
class RiskUtilityMap:
    """All points of a grid, side by side.

    Parameters
    ----------
    points : tuple of Point
    risk_weights, loss_weights : mapping of str to float
        What risk and loss are means of.

    Examples
    --------
    >>> points = [Point(setting={"p": p}, outcome="pass", risk=r, loss=l, gates={"k_anonymity": "pass"})
    ...           for p, r, l in ((1, 0.9, 0.1), (2, 0.5, 0.2), (3, 0.6, 0.3))]
    >>> found = RiskUtilityMap(points=tuple(points), risk_weights={"a": 1.0}, loss_weights={"b": 1.0})
    >>> found.front, found.smallest_loss
    ((0, 1), {'k_anonymity': 0, 'all guarantees': 0})
    """

    points: tuple[Point, ...]
    risk_weights: Mapping[str, float]
    loss_weights: Mapping[str, float]

    @property
    def front(self) -> tuple[int, ...]:
        """Places of the Pareto-optimal points: none is <= in risk and loss and < in one of them."""
        known = [(at, p.risk, p.loss) for at, p in enumerate(self.points) if p.risk is not None and p.loss is not None]
        return tuple(at for at, risk, loss in known if not any(_beats(r, l, risk, loss) for _, r, l in known))

    @property
    def smallest_loss(self) -> dict[str, int | None]:
        """For each guarantee, and for all of them, the place of the point of least loss that meets it."""
        gates = dict.fromkeys(gate for point in self.points for gate in point.gates)
        found = {gate: self._least(lambda point, gate=gate: point.gates.get(gate) == "pass") for gate in gates}
        return {**found, "all guarantees": self._least(lambda point: point.outcome == "pass")}

    @property
    def rows(self) -> list[dict[str, Any]]:
        """One row per point: its setting, figures, risk, loss, score and outcome."""
        front = set(self.front)
        return [
            {
                **point.setting,
                **point.figures,
                "risk": point.risk,
                "loss": point.loss,
                "score": point.score,
                "outcome": point.outcome,
                "pareto": at in front,
            }
            for at, point in enumerate(self.points)
        ]

    def to_pandas(self) -> Any:
        """`rows` as a pandas DataFrame."""
        import pandas as pd

        return pd.DataFrame(self.rows)

    def __repr__(self) -> str:
        met = sum(point.outcome == "pass" for point in self.points)
        return f"RiskUtilityMap({len(self.points)} points, {met} met all guarantees, {len(self.front)} Pareto-optimal)"

    def _repr_html_(self) -> str:
        names = [*self.risk_weights, *(name for name in self.loss_weights if name not in self.risk_weights)]
        places = list(dict.fromkeys(place for point in self.points for place in point.setting))
        rows = [
            [
                *(shown_setting(point.setting.get(place)) for place in places),
                *(point.figures.get(name) for name in names),
                *(point.risk, point.loss, point.score, point.outcome.replace("_", " ")),
                "yes" if at in set(self.front) else "",
            ]
            for at, point in enumerate(self.points)
        ]
        head = (*places, *names, "risk", "loss", "score", "outcome", "unbeaten")
        return html_tables("Comparison", Table(head=head, rows=rows), notes=["score = (loss + risk) / 2"])

    def _least(self, meets: Any) -> int | None:
        losses = [(p.loss, at) for at, p in enumerate(self.points) if p.loss is not None and meets(p)]
        return min(losses)[1] if losses else None

    def to_dict(self) -> dict[str, Any]:
        """The map as a document."""
        front = set(self.front)
        return {
            "score": "(loss + risk) / 2",
            "risk_weights": dict(self.risk_weights),
            "loss_weights": dict(self.loss_weights),
            "points": [
                {
                    "setting": dict(point.setting),
                    "outcome": point.outcome,
                    "risk": point.risk,
                    "loss": point.loss,
                    "score": point.score,
                    "pareto": at in front,
                    "figures": dict(point.figures),
                    "guarantees": dict(point.gates),
                    "suppressed_records": point.suppressed_records,
                    "reason": point.reason,
                }
                for at, point in enumerate(self.points)
            ],
            "pareto": sorted(front),
            "smallest_loss": self.smallest_loss,
        }


def _beats(risk: float, loss: float, other_risk: float, other_loss: float) -> bool:
    no_worse = risk <= other_risk + EPSILON and loss <= other_loss + EPSILON
    return no_worse and (risk < other_risk - EPSILON or loss < other_loss - EPSILON)


ENGINES = ("embedded", "dask", "spark", "public", "private")
THRESHOLDS = ("at_most", "at_least", "k", "l", "t", "alpha")
ABOUT_RUNS = ("edition", "engine", "records", "suppressed_records", "classes", "passed")


@dataclass(frozen=True)
class ComparedFigure:
    """One entry in both runs.

    Parameters
    ----------
    entry : str
        Name and the parameters that both share.
    left, right : float or None
        None where a run has no such entry, or no figure.
    difference : float or None
        right - left.
    left_outcome, right_outcome : str
        ``pass``, ``fail``, ``error``, ``measured``, or nothing where the run has no such entry.
    """

    entry: str
    left: float | None
    right: float | None
    difference: float | None
    left_outcome: str
    right_outcome: str


@dataclass(frozen=True, repr=False)
class RunComparison:
    """What two runs have in common and where they differ.

    Parameters
    ----------
    names : (str, str)
        Run ids.
    about : mapping of str to pair
        Edition, engine, records, suppressed records, classes, whether it passed; records of each of related tables.
    settings : mapping of place to pair
        Parameters of stages that differ; None where a run has not the stage or the parameter.
    figures : tuple of ComparedFigure
    """

    names: tuple[str, str]
    about: Mapping[str, tuple[Any, Any]]
    settings: Mapping[str, tuple[Any, Any]]
    figures: tuple[ComparedFigure, ...]

    @property
    def rows(self) -> list[dict[str, Any]]:
        """One row per entry, with both figures, their difference and both outcomes."""
        return [asdict(row) for row in self.figures]

    def to_pandas(self) -> Any:
        """`rows` as a pandas DataFrame."""
        import pandas as pd

        return pd.DataFrame(self.rows)

    def __repr__(self) -> str:
        differing = sum(bool(row.difference) for row in self.figures)
        return f"RunComparison({len(self.figures)} entries, {differing} differ; {len(self.settings)} other settings)"

    def _repr_html_(self) -> str:
        about = [(name.replace("_", " "), *map(_shown, pair)) for name, pair in self.about.items()]
        settings = [(place, *map(_shown, pair)) for place, pair in self.settings.items()]
        figures = [
            (_entry(row.entry), row.left, row.left_outcome, row.right, row.right_outcome, row.difference)
            for row in self.figures
        ]
        left, right = self.names
        return html_tables(
            "Two runs",
            Table(head=("", left, right), rows=about),
            Table(title="Settings that differ", head=("place", left, right), rows=settings),
            Table(title="Figures", head=("entry", left, "", right, "", "difference"), rows=figures),
        )

    def to_dict(self) -> dict[str, Any]:
        """The comparison as a document."""
        return {
            "runs": list(self.names),
            "about": {name: list(pair) for name, pair in self.about.items()},
            "settings": {name: list(pair) for name, pair in self.settings.items()},
            "figures": [asdict(row) for row in self.figures],
        }


def _shown(value: Any) -> str:
    """Numbers and yes or no; texts may be values of a policy's parameters."""
    return shown_setting("a text" if isinstance(value, str) and value not in ENGINES else value)


def _entry(text: str) -> str:
    """The name of an entry and the columns it is about."""
    name, *parts = text.split(" ")
    return " ".join([name, *(part for part in parts if part.startswith(("table=", "column=", "measure=", "#")))])


def compare_runs(left: RunDocuments, right: RunDocuments) -> RunComparison:
    """The figures of two runs, entry by entry; entries that one of them lacks are listed by themselves.

    Examples
    --------
    >>> row = {"name": "k_anonymity", "parameters": {"k": 3}, "observed": 4, "outcome": "pass"}
    >>> first = RunDocuments("a", {"run_id": "a", "guarantees": [row], "measures": []})
    >>> second = RunDocuments("b", {"run_id": "b", "guarantees": [{**row, "observed": 7}], "measures": []})
    >>> compare_runs(first, second).figures[0].difference
    3.0
    """
    documents = (left.verdict, right.verdict)
    about = {name: (documents[0].get(name), documents[1].get(name)) for name in ABOUT_RUNS}
    for table in dict.fromkeys((*left.rows, *right.rows)):
        about[f"records of {table}"] = (left.rows.get(table), right.rows.get(table))
    settings = (_settings(left), _settings(right))
    places = dict.fromkeys((*settings[0], *settings[1]))
    differing = {
        place: (settings[0].get(place), settings[1].get(place))
        for place in places
        if settings[0].get(place) != settings[1].get(place)
    }
    return RunComparison((left.name, right.name), about, differing, tuple(_figures(*documents)))


def _settings(run: RunDocuments) -> dict[str, Any]:
    """Parameters by their places; those of a stage of one of related tables by the place within that table."""
    found: dict[str, Any] = {}
    before: Counter[str] = Counter()
    for stage in run.stages:
        own = dict(stage["parameters"])
        of_table = "table" in own and bool(run.rows) and stage["name"] not in SET_STAGES
        within = f"tables.{own.pop('table')}." if of_table else ""
        for name, value in own.items():
            found[f"{within}transform[{before[within]}].{stage['name']}.{name}"] = value
        before[within] += 1
    return found


def _figures(left: Mapping[str, Any], right: Mapping[str, Any]) -> list[ComparedFigure]:
    first, second = (_entries(document) for document in (left, right))
    rows = []
    for key in dict.fromkeys((*first, *second)):
        one, other = first.get(key), second.get(key)
        figures = [None if row is None else leading_figure(row.get("observed")) for row in (one, other)]
        apart = None if figures[0] is None or figures[1] is None else figures[1] - figures[0]
        rows.append(ComparedFigure(key, figures[0], figures[1], apart, _outcome(one), _outcome(other)))
    return rows


def _entries(document: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Rows by name and what they are about, thresholds aside; a number behind those that are the same so far."""
    found: dict[str, Mapping[str, Any]] = {}
    for row in (*document["guarantees"], *document["measures"]):
        own = [(key, value) for key, value in sorted(own_parameters(row).items()) if key not in THRESHOLDS]
        own = [("table", row["table"]), *own] if row.get("table") else own
        text = " ".join([str(row["name"]), *(f"{key}={parameter_text(value)}" for key, value in own)])
        times = sum(name == text or name.startswith(f"{text} #") for name in found)
        found[text if not times else f"{text} #{times + 1}"] = row
    return found


def _outcome(row: Mapping[str, Any] | None) -> str:
    return "" if row is None else str(row.get("outcome", "measured"))
