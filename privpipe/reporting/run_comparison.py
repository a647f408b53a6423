"""Two finished runs side by side, from their documents alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from privpipe.html_tables import Table, html_tables
from privpipe.reporting.entry_rows import leading_figure, own_parameters, parameter_text
from privpipe.reporting.risk_utility import shown_setting
from privpipe.reporting.run_documents import RunDocuments

__all__ = ["ComparedFigure", "RunComparison", "compare_runs"]

ENGINES = ("embedded", "dask", "spark", "public", "private")
THRESHOLDS = ("at_most", "at_least", "k", "l", "t")
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
        Edition, engine, records, suppressed records, classes, whether it passed.
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
    return " ".join([name, *(part for part in parts if part.startswith(("column=", "measure=", "#")))])


def compare_runs(left: RunDocuments, right: RunDocuments) -> RunComparison:
    """The figures of two runs, entry by entry; entries that one of them lacks are listed alone.

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
    settings = (_settings(left.stages), _settings(right.stages))
    places = dict.fromkeys((*settings[0], *settings[1]))
    differing = {
        place: (settings[0].get(place), settings[1].get(place))
        for place in places
        if settings[0].get(place) != settings[1].get(place)
    }
    return RunComparison((left.name, right.name), about, differing, tuple(_figures(*documents)))


def _settings(stages: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {
        f"transform[{at}].{stage['name']}.{name}": value
        for at, stage in enumerate(stages)
        for name, value in stage["parameters"].items()
    }


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
        text = " ".join([str(row["name"]), *(f"{key}={parameter_text(value)}" for key, value in own)])
        times = sum(name == text or name.startswith(f"{text} #") for name in found)
        found[text if not times else f"{text} #{times + 1}"] = row
    return found


def _outcome(row: Mapping[str, Any] | None) -> str:
    return "" if row is None else str(row.get("outcome", "measured"))
