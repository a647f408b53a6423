"""Tables that are taken from one with more dimensions are those that their own pass would have counted."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from privpipe.draws import Seed
from privpipe.engines import Engine, Source
from privpipe.hierarchies import Hierarchy
from privpipe.tables.aggregation import aggregated
from privpipe.tables.stages import Aggregate, derived, joint_spec

RESPONSES = ["count", {"sum": "cost"}, {"variance": "cost"}]
TABLES: dict[str, dict[str, Any]] = {
    "town": {"by": ["town"], "responses": ["count"]},
    "town and age": {"by": ["age", "town"], "responses": RESPONSES},
    "women": {"by": ["age"], "responses": RESPONSES, "only": {"sex": "f"}},
    "no one": {"by": ["age"], "responses": ["count"], "only": {"sex": "x"}},
    "missing": {"by": ["age"], "responses": ["count"], "only": {"town": "(missing)"}},
    "in x": {"by": ["sex"], "responses": [{"sum": "cost"}], "only": {"town": "x"}},
    "in a total": {"by": ["sex"], "responses": ["count"], "only": {"town": "Total"}},
    "of nine": {"by": ["sex"], "responses": ["count"], "only": {"age": "9"}},
}
NAMES = {name: name.replace(" ", "-") for name in TABLES}
COUNTED = {"no one", "missing", "in a total", "of nine"}
AGES = Hierarchy.from_rows([[str(age), "young" if age < 4 else "old", "*"] for age in range(8)])


def rows_of(persons: bool) -> pa.Table:
    draw = np.random.default_rng(11)
    number = 300
    who = draw.integers(0, 120, number) if persons else np.arange(number)
    frame = pd.DataFrame({"person": who, "cost": draw.integers(-3, 9, number)})
    frame["town"] = [["x", "y", "zz", None][at % 4] for at in who]
    frame["age"] = who % 7
    frame["sex"] = ["fm"[at % 2] for at in who // 3]
    frame["weight"] = who % 3 + 1
    frame["waived"] = who % 5 == 0
    return pa.Table.from_pandas(frame, preserve_index=False)


class Watched:
    """An engine that counts how often it aggregates."""

    def __init__(self, engine: Engine) -> None:
        self.engine, self.calls = engine, Counter[str]()

    def __getattr__(self, name: str) -> Any:
        if name in ("aggregate", "contributions"):
            self.calls[name] += 1
        return getattr(self.engine, name)


@pytest.mark.parametrize("persons", [True, False], ids=["persons", "records"])
@pytest.mark.parametrize("more", [{}, {"weight": "weight"}, {"waived": "waived"}], ids=["plain", "weights", "waivers"])
def test_they_are_what_their_own_pass_counts(embedded: Engine, persons: bool, more: dict[str, str]) -> None:
    given = {
        NAMES[name]: {
            **table,
            "responses": [each for each in table["responses"] if "weight" not in more or "variance" not in each],
        }
        for name, table in TABLES.items()
    }
    stage = Aggregate(tables=given, **more)
    records = embedded.scan(Source(data=rows_of(persons)))
    options: dict[str, Any] = {"person": "person" if persons else None, "hierarchies": {"age": AGES}}
    watched = Watched(embedded)
    found = stage.tables_over(watched, records, seed=Seed(b"x" * 32), **options)  # type: ignore[arg-type]
    assert watched.calls["aggregate"] == 1 + len(COUNTED)
    secret = Seed(b"x" * 32).bound("privpipe/table-contributors/1")
    for name, spec in stage.specs().items():
        own = aggregated(embedded, records, spec, secret=secret, **options)
        made = found.tables[name].aggregated
        assert made.cells.dimensions == own.cells.dimensions
        assert made.cells.codes.tolist() == own.cells.codes.tolist()
        assert dict(made.cells.only) == dict(own.cells.only)
        for key, figures in own.figures.items():
            for part in vars(figures):
                expected, seen = getattr(figures, part), getattr(made.figures[key], part)
                if part == "holders":  # a tie at the end of a list may be cut elsewhere
                    assert ((seen != 0) == (expected != 0)).all()
                elif isinstance(expected, np.ndarray) and (persons or part != "single"):
                    assert seen.tolist() == expected.tolist(), (name, key, part)
                elif part == "single":
                    assert ((seen != 0) == (expected != 0)).all()
                elif isinstance(expected, int | str | bool):
                    assert seen == expected


def test_persons_in_several_cells_of_the_whole_have_their_tables_counted(embedded: Engine) -> None:
    rows = pa.table({"person": [1, 1, 2], "town": ["x", "y", "x"], "age": [1, 1, 2], "cost": [1, 2, 3]})
    stage = Aggregate(
        tables={"a": {"by": ["town"], "responses": ["count"]}, "b": {"by": ["age"], "responses": ["count"]}}
    )
    records = embedded.scan(Source(data=rows))
    specs = stage.specs()
    whole = aggregated(embedded, records, joint_spec(list(specs.values())), person="person")
    assert not whole.additive
    assert derived(specs["b"], whole) is None
    found = stage.tables_over(embedded, records, person="person", seed=Seed(b"x" * 32), hierarchies={})
    assert found.tables["b"].aggregated.additive
