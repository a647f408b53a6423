"""The small table of the site's pages, what stages make of it and what is judged of it, all computed."""

from __future__ import annotations

import datetime
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd
import pyarrow as pa

import privpipe as pp
from privpipe.blocks import Guarantee, Verdict
from privpipe.engines import open_engine
from privpipe.errors import PrivpipeError
from privpipe.testing import Judging, People
from privpipe.testing.people import COLUMNS
from privpipe.testing.stages import Staging, keys_of
from privpipe.testing.verdicts import SETTINGS, Setting
from privpipe.transforms.base import Transformer

__all__ = ["KEY", "ROLES", "Judged", "Staged", "Toy", "classes"]

KEY = "no"
"""The column by which a row is found again behind a stage; no page shows it."""
ROLES = {**{name: said for name, said in COLUMNS.items() if name != "household"}, KEY: {"role": "insensitive"}}
COARSE = {
    name: {"role": "insensitive"} if said["role"] == "quasi_identifier" and name != "sex" else said
    for name, said in ROLES.items()
}
LEVELS = {"age": 2, "zip": 2, "town": 2, "sex": 1}
MOST_EXAMPLES = 3


def rows() -> pa.Table:
    """Eight invented people."""
    return pa.table(
        {
            "name": ["Ada", "Ben", "Cleo", "Dan", "Eve", "Finn", "Gil", "Hanna"],
            "age": [31, 33, 36, 38, 52, 55, 57, 58],
            "zip": ["081", "081", "082", "082", "171", "172", "172", "173"],
            "town": ["Ashford", "Ashford", "Barrow", "Barrow", "Crewe", "Derby", "Derby", "Crewe"],
            "sex": ["f", "m", "f", "m", "f", "m", "m", "f"],
            "illness": ["flu", "cold", "gout", "flu", "cold", "cold", "flu", "cold"],
            "income": [18.5, 24.0, 21.0, 35.5, 62.0, 41.0, 55.5, 120.0],
            "born": [datetime.date(1990, 3, day) for day in (2, 5, 9, 14, 17, 21, 25, 30)],
            "weight": [20.0, 35.0, 50.0, 25.0, 40.0, 30.0, 45.0, 60.0],
            KEY: list(range(1, 9)),
        }
    )


def _with_a_rare_class(table: pa.Table) -> pa.Table:
    """The same people, of whom one has not told the sex: alone in a class."""
    sexes = [*table["sex"].to_pylist()[:-1], None]
    return table.set_column(table.column_names.index("sex"), "sex", pa.array(sexes))


def classes() -> list[tuple[str, dict[str, int]]]:
    """The classes of the released toy table and the illnesses in each, as the bars of the figures show them."""
    return [
        ("age 20 to 40, zip 0**", {"flu": 2, "cold": 1, "gout": 1}),
        ("age 40 to 60, zip 1**", {"flu": 1, "cold": 3}),
    ]


@dataclass(frozen=True)
class Staged:
    """An example of a stage, and the table before and after it."""

    stage: Transformer
    before: pd.DataFrame = field(repr=False)
    after: pd.DataFrame = field(repr=False)

    @property
    def changed(self) -> list[str]:
        """Columns that differ in some row that is still there."""
        if KEY not in self.after or len(set(self.after[KEY]) & set(self.before[KEY])) != len(self.after):
            return [str(name) for name in self.after if name != KEY]
        kept = self.before.set_index(KEY).loc[list(self.after[KEY])]
        now = self.after.set_index(KEY)
        return [str(name) for name in kept if name in now and (kept[name].astype(str) != now[name].astype(str)).any()]


@dataclass(frozen=True)
class Judged:
    """An example of a model or measure, and its verdict over a release; `setting` names the release."""

    entry: Guarantee
    verdict: Verdict
    setting: str


class Toy:
    """Runs examples of the catalogues over the toy table, on the embedded engine.

    Parameters
    ----------
    folder : Path
        An empty folder for the tables that examples read.
    """

    def __init__(self, folder: Path) -> None:
        self.people = People(rows=rows(), columns=ROLES)
        self.rare = People(rows=_with_a_rare_class(rows()), columns=COARSE)
        generalized = {"generalize": {"levels": LEVELS}}
        noise = {"add_noise": {"columns": ["income"], "variance_ratio": 0.1}}
        toy = Setting(table=lambda: self.people, stages=(noise, generalized), population=False)
        self.judging = Judging(folder, {"toy": toy, **SETTINGS})

    def staged(self, entry: type[Transformer]) -> Staged | None:
        """The first example that changes the table; None where each needs more rows or other columns."""
        for people in (self.people, self.rare):
            for stage in entry.examples():
                try:
                    found = self._run(stage, people)
                except PrivpipeError:
                    continue
                if found.changed or len(found.after) < len(found.before) or set(found.before) - set(found.after):
                    return found
        return None

    def _run(self, stage: Transformer, people: People) -> Staged:
        before = people.rows.to_pandas()
        kept = set(stage.masked_columns()) if stage.name() == "pseudonymise" else set()
        with tempfile.TemporaryDirectory() as made, keys_of(stage):
            policy = Staging(stage, Path(made), people).policy()
            after = pp.transform(before, pp.plan(before, policy))
        if KEY in after:
            after = after.sort_values(KEY, key=lambda each: pd.to_numeric(each, errors="coerce"))
        hidden = set() if stage.name() == "drop_identifiers" else set(policy.roles.identifiers) - kept
        shown = [name for name in before.columns if name not in hidden]
        return Staged(stage, before[shown], after[[name for name in after.columns if name not in hidden]])

    def judged(self, entry: type[Guarantee]) -> Iterator[Judged]:
        """The first examples that have a figure over a release."""
        number = 0
        with open_engine("embedded") as engine:
            for example in entry.examples():
                if number == MOST_EXAMPLES:
                    return
                try:
                    with keys_of(example):
                        setting, verdict = self.judging.first(example, engine)
                except (LookupError, PrivpipeError):
                    continue
                if verdict.observed is not None and verdict.outcome != "error":
                    number += 1
                    yield Judged(example, verdict, setting)
