"""Every entry of the catalogues once on an engine, next to what the embedded engine makes of it."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from privpipe import measures, models, transforms
from privpipe.blocks import Guarantee
from privpipe.engines import Engine
from privpipe.errors import PrivpipeError
from privpipe.testing import Judging, first_outcome, stage_problems
from privpipe.testing.verdicts import SETTINGS, keys_of, verdict_differences

__all__ = ["BY_A_RELEASE", "judged_alike", "small_settings", "staged_alike"]

BY_A_RELEASE = ("complementary_release", "repeated_noise", "unsorted_matching", "minimality_attack")
"""Entries that a finished table cannot be asked by: a release has to be judged."""


def staged_alike(engine: Engine, embedded: Engine, folder: Path, few: Sequence[str] = ()) -> Iterator[dict[str, Any]]:
    """The first example of every transformer, or of a few: plans, schemas and rows are those of the embedded engine."""
    for name in few or transforms.CATALOGUE:
        stage: Any = transforms.CATALOGUE[name].examples()[0]
        here, there = folder / f"{name}-embedded", folder / f"{name}-{engine.name}"
        here.mkdir()
        there.mkdir()
        began = time.monotonic()
        try:
            wanted = first_outcome(stage, embedded, here)
            problems = stage_problems(stage, engine, partitions=(3,), expected=wanted, folder=there)
        except PrivpipeError as error:
            problems = [f"{type(error).__name__}: {error}"]
        yield {"entry": name, "problems": problems, "seconds": round(time.monotonic() - began, 1)}


def judged_alike(
    engine: Engine, embedded: Engine, folder: Path, settings: Mapping[str, Any] = SETTINGS
) -> Iterator[dict[str, Any]]:
    """An example of every model and measure, those over the same release in one judgement."""
    judging = Judging(folder, settings)
    chosen: dict[str, list[Guarantee]] = defaultdict(list)
    for room in (models, measures):
        for name in room.CATALOGUE:
            found = None if name in BY_A_RELEASE else _servable(judging, embedded, room.CATALOGUE[name].examples())
            if found is not None:
                chosen[found[0]].append(found[1])
    for setting, entries in chosen.items():
        began = time.monotonic()
        faults: dict[str, list[str]] = {entry.name(): [] for entry in entries}
        try:
            for entry, one, other in _pairs(judging, embedded, engine, setting, entries):
                faults[entry.name()] = verdict_differences(one, other)
        except PrivpipeError as error:
            faults = {name: [f"{type(error).__name__}: {error}"] for name in faults}
        seconds = round(time.monotonic() - began, 1)
        for name, problems in faults.items():
            yield {"entry": name, "problems": problems, "setting": setting, "seconds": seconds}


def _servable(judging: Judging, embedded: Engine, examples: Sequence[Any]) -> tuple[str, Guarantee] | None:
    """The first example that has a figure in one of the settings, and which."""
    for entry in examples:
        with keys_of(entry):
            try:
                setting, verdict = judging.first(entry, embedded)
            except LookupError:
                continue
        if verdict.outcome != "error" and verdict.observed is not None:
            return setting, entry
    return None


def _pairs(judging: Judging, embedded: Engine, engine: Engine, setting: str, entries: list[Guarantee]) -> Iterator[Any]:
    wanted = judging.judged(entries, embedded, setting)
    found = judging.judged(entries, engine, setting, parts=3)
    yield from zip(entries, wanted, found, strict=True)


def small_settings() -> Mapping[str, Any]:
    """Settings whose stages need no ranks: an engine that works stages out again for every question has few to work."""
    stages = ({"generalize": {"levels": {"age": 2, "zip": 2, "town": 1}}},)
    return {**SETTINGS, "labels": replace(SETTINGS["labels"], stages=stages)}
