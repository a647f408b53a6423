"""Choose the method of a draft: what keeps most of a sample, and what has to be given up for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from privpipe.drafting.methods import Candidate, Method
from privpipe.drafting.trying import Clock, Trial, loaded, tried
from privpipe.engines import Engine
from privpipe.errors import PolicyError, UnsupportedError

__all__ = ["Choice", "chosen_method"]

LATER = ("t_closeness",)
"""Proposed guarantees that are given up where nothing meets them; some guarantee has to judge a sensitive column."""
MOST_LEFT_OUT = 6
FEWEST = 5_000
"""Records below which a sample is not made smaller."""
SOON = 2.0
"""Seconds below which nothing more is tried."""


@dataclass(frozen=True)
class Choice:
    """What is tried, and how it is compared.

    Parameters
    ----------
    draft : callable
        The text of the policy with a method.
    methods : callable
        The candidates, given the names of the guarantees and the columns that are left out.
    order : callable
        Columns by how soon they are left out, the first first.
    score : callable
        Of a trial, the less the better; by default the loss.
    said : str
        What the score is, in a note.
    """

    draft: Callable[[Method], str]
    methods: Callable[[Method], Sequence[Candidate]]
    order: Callable[[Sequence[str]], Sequence[str]]
    score: Callable[[Trial], float] = lambda trial: trial.loss
    said: str = "What the quasi-identifiers lose on a sample"


def chosen_method(choice: Choice, home: Path, rows: Any, engine: Engine, clock: Clock | None = None) -> Method:
    """The method of the best score on a sample, with the figures of all.

    Where every method blanks a column, guarantees that may be are given up, then columns left out one by one.

    Parameters
    ----------
    choice : Choice
    home : Path
        Where the paths of the draft start.
    rows : frame
        The sample.
    engine : Engine
    clock : Clock, optional
        Default: a minute.
    """
    clock = clock or Clock()
    asked = Method(masked=False)
    best: tuple[Method, list[Trial]] | None = None
    fewer: list[str] | None = None
    whole_rows = len(rows)
    for _ in range(len(LATER) + MOST_LEFT_OUT + 1):
        before = clock.left
        trials = list(_trials(choice, asked, home, rows, engine, clock, fewer))
        good = [trial for trial in trials if trial.holds]
        whole = [trial for trial in good if not trial.blanked]
        if good and (best is None or not best[1] or whole):
            best = (asked, trials)
        if whole or clock.left < SOON:
            break
        if before - clock.left > clock.left / 3:
            rows = rows.slice(0, max(FEWEST, len(rows) // 2))
        fewer = [trial.stages[0] for trial in good] or None
        following = _less(asked, good, choice)
        if following is None:
            break
        asked = following
    if best is None:
        note = "No method met all guarantees: choose fewer quasi-identifiers, or lower thresholds."
        return replace(asked, notes=(note,), masked=True)
    asked, trials = best
    good = [trial for trial in trials if trial.holds]
    found = min(good, key=lambda trial: (len(trial.blanked), choice.score(trial)))
    return replace(
        asked,
        stages=found.stages,
        notes=tuple(_notes(trials, found, choice, whole_rows)),
        left_out=(*asked.left_out, *_spared(found, choice, asked)),
        masked=True,
    )


def _spared(found: Trial, choice: Choice, asked: Method) -> list[str]:
    """Columns of which nothing is left and no time to see whether others make room: without them the rest holds."""
    known = choice.order(asked.left_out)
    return [name for name in found.blanked if name in known] if len(found.blanked) < len(known) else []


def _trials(
    choice: Choice,
    asked: Method,
    home: Path,
    rows: Any,
    engine: Engine,
    clock: Clock,
    fewer: Sequence[str] | None,
) -> Iterator[Trial]:
    """Each candidate on the sample, as long as there is time; of a second round those that served in the first."""
    for at, candidate in enumerate(choice.methods(asked)):
        if clock.left < SOON and at:
            return
        if fewer is not None and candidate.stages[0] not in fewer:
            continue
        clock.tell(f"try {candidate.stages[0].partition(':')[0]}")
        try:
            policy = loaded(choice.draft(replace(asked, stages=candidate.stages)), home)
        except (PolicyError, UnsupportedError):  # a method that does not count persons, say
            continue
        some = rows.slice(0, candidate.records) if candidate.records else rows
        yield tried(candidate.stages, policy, some, engine)


def _less(asked: Method, good: Sequence[Trial], choice: Choice) -> Method | None:
    """What is given up next: a guarantee, else the column that can be spared."""
    for name in LATER:
        if name not in asked.without:
            return replace(asked, without=(*asked.without, name))
    if len(asked.left_out) >= MOST_LEFT_OUT:
        return None
    blanked = min((trial.blanked for trial in good), key=len, default=[])
    known = choice.order(asked.left_out)
    spare = [name for name in known if not blanked or name in blanked]
    if not spare or len(known) < 2:
        return None
    return replace(asked, left_out=(*asked.left_out, spare[0]))


def _notes(trials: Sequence[Trial], best: Trial, choice: Choice, records: int) -> Iterator[str]:
    yield f"{choice.said}, from 0 (nothing) to 1 (all), on {records:,} records; the least was chosen:"
    for trial in sorted(trials, key=lambda trial: (not trial.holds, choice.score(trial))):
        figure = format(choice.score(trial), ".3f") if trial.holds else "cannot meet the guarantees"
        blank = f" (blanks {', '.join(trial.blanked)})" if trial.holds and trial.blanked else ""
        fewer = f" (on {trial.records:,} records)" if trial.holds and trial.records < records else ""
        yield f"  {figure}: {'; '.join(trial.stages)}{blank}{fewer}"
    if not best.stages[0].startswith("generalize"):
        yield "Cells of one column may have labels of several levels."
