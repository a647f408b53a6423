"""What a draft is made of where no method keeps everything, and where suppressed records or masks show."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from privpipe.drafting import trials
from privpipe.drafting.methods import Candidate, Method
from privpipe.drafting.trials import Choice, Trial, chosen_method
from privpipe.drafting.use_figures import Paired
from privpipe.transforms import Microaggregate

ROWS = pa.table({"age": list(range(40)), "paid": [0] * 38 + [1, 1], "town": ["a", "b"] * 20, "gap": [None] * 40})
FIVE, ONE, NONE = (f"generalize: {{search: optimal, suppress_at_most: {share}}}" for share in ("0.05", "0.01", "0"))
OTHER, WORST, CELLS = "mondrian: {}", "mondrian: {score: width}", "local_recoding: {}"


def drafted(monkeypatch: pytest.MonkeyPatch, of: Any) -> Method:
    """What is chosen where a trial of a method and what was given up is made of `of(stage, method)`."""

    class Drafted:
        guarantees = ()

        def __init__(self, text: Method) -> None:
            self.method = text
            self.transform = (Microaggregate(columns=["age"], k=5),) if text.masked else ()

        def replaced(self, guarantees: Any) -> Drafted:
            return self

    def trial(stages: tuple[str, ...], policy: Drafted, rows: Any, engine: Any) -> Trial:
        return Trial(stages, records=len(rows), paired=Paired(rows, rows), **of(stages[0], policy.method))

    monkeypatch.setattr(trials, "loaded", lambda text, home: Drafted(text))
    monkeypatch.setattr(trials, "tried", trial)
    choice: Any = Choice(
        draft=lambda method: method,  # type: ignore[arg-type, return-value]
        methods=lambda method: [Candidate((each,)) for each in (FIVE, OTHER, WORST, CELLS)],
        order=lambda left_out: [name for name in "abcde" if name not in left_out],
    )
    return chosen_method(choice, Path(), ROWS, None)  # type: ignore[arg-type]


def test_what_keeps_more_columns_is_chosen_though_something_was_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    def of(stage: str, method: Method) -> dict[str, Any]:
        return {"columns": {**dict.fromkeys("abc", 1.0 if not method.without else 0.1), "d": 1.0, "e": 0.1}}

    found = drafted(monkeypatch, of)
    assert found.without == ("t_closeness",)
    assert "d" in found.left_out
    assert not {"a", "b", "c"} & {*found.left_out}


def test_every_method_is_tried_again_under_fewer_guarantees(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that kept least under a guarantee may keep most without it."""

    def of(stage: str, method: Method) -> dict[str, Any]:
        kept = stage == WORST and method.without
        return {"columns": {"a": 0.1 if kept else 1.0, "b": 0.1 if kept or stage != WORST else 1.0, "c": 0.1}}

    found = drafted(monkeypatch, of)
    assert (found.stages, found.left_out) == ((WORST,), ())


def test_recoding_by_cells_is_tried_whenever_a_column_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    def of(stage: str, method: Method) -> dict[str, Any]:
        left = {name: 1.0 for name in "abcde" if name not in method.left_out}
        if stage == CELLS and method.left_out:
            left = dict.fromkeys(left, 0.1)
        return {"columns": left | {"f": 1.0 if stage == CELLS and not method.left_out else 0.1}}

    found = drafted(monkeypatch, of)
    assert found.stages == (CELLS,)
    assert len(found.left_out) == 1


def test_what_keeps_no_more_gives_nothing_up(monkeypatch: pytest.MonkeyPatch) -> None:
    found = drafted(monkeypatch, lambda stage, method: {"columns": dict.fromkeys("abcde", 1.0)})
    assert found.without == found.left_out == ()


@pytest.mark.parametrize(
    ("moved", "loss", "chosen"),
    [
        ({FIVE: ("paid",)}, 0.2, ONE),
        ({FIVE: ("paid",), ONE: ("paid",)}, 0.2, NONE),
        ({FIVE: ("paid",)}, 0.4, FIVE),
        ({}, 0.2, FIVE),
    ],
)
def test_fewer_records_are_suppressed_where_they_moved_a_mean(
    monkeypatch: pytest.MonkeyPatch, moved: dict[str, tuple[str, ...]], loss: float, chosen: str
) -> None:
    def of(stage: str, method: Method) -> dict[str, Any]:
        costs = {FIVE: 0.18, OTHER: 0.5}.get(stage, loss)
        return {"columns": {"a": costs}, "moved": moved.get(stage, ())}

    assert drafted(monkeypatch, of).stages == (chosen,)


def test_a_column_that_gives_something_back_once_it_is_masked_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def of(stage: str, method: Method) -> dict[str, Any]:
        reveals = method.masked and not method.revealing
        return {"columns": {"a": 0.1}, "revealing": (("weeks", "why"),) if reveals else ()}

    assert drafted(monkeypatch, of).revealing == (("weeks", "why"),)


@pytest.mark.parametrize(("name", "moved"), [("paid", True), ("age", True), ("town", False), ("gap", False)])
def test_a_mean_moves_by_the_records_that_are_left(name: str, moved: bool) -> None:
    assert trials._moved(ROWS, ROWS.slice(0, 38), name) is moved
    assert not trials._moved(ROWS, ROWS, name)
    assert not trials._moved(ROWS, ROWS.append_column("new", pa.array(np.arange(40))), "new")
