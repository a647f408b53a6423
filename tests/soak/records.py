"""Mutants of the documents next to a release, given to every command that reads them."""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from mutants import mutated, mutated_text
from sources import STRONG, base, write_people
from trials import Outcome, Table, command, fresh_place

import privpipe as pp

__all__ = ["soak_records"]

KINDS = ("plan", "manifest", "verdict")
Reader = Callable[[Path], Outcome]


def readers(kind: str) -> Mapping[str, Reader]:
    """The commands that read a kind of document, given the folder with the policy and the release."""
    if kind == "plan":
        return {
            "transform": lambda place: command(
                "transform", "release.yaml", "--plan", "plan.json", "--target", "unjudged"
            ),
            "validate": lambda place: command("validate", "published/people", "process.yaml"),
        }
    found: dict[str, Reader] = {
        "report": lambda place: command("report", "published/people"),
        "report as HTML": lambda place: command("report", "published/people", "--format", "html"),
        "compare": lambda place: command("compare", "published/people", "published/other"),
        "compare as JSON": lambda place: command("compare", "published/other", "published/people", "--json"),
        "validate": lambda place: command("validate", "published/people", "process.yaml"),
    }
    if kind == "verdict":
        found["report alone"] = lambda place: command("report", "published/people/_privpipe/verdict.json")
    return found


def soak_records(project: Path, table: Table, trials: int, seed: int) -> None:
    """So many mutants of each kind; each is given to one of the commands that read it."""
    os.environ["SOAK_SEED_OF_POLICIES"] = STRONG
    with fresh_place() as place:
        write_people(place)
        prepare(place)
        for kind in KINDS:
            for trial in range(trials):
                draw = random.Random(f"{seed}/{kind}/{trial}")
                one_trial(place, kind, draw, table, f"{kind} {seed}/{trial}")


def prepare(place: Path) -> None:
    """A release with its record, another one to compare it with, and a policy that judges its process."""
    document = base()
    document["measures"] += [{"special_uniques": {}}, {"information_loss": {"measure": "il1s", "columns": ["income"]}}]
    (place / "release.yaml").write_text(json.dumps(document))
    process = {**document, "guarantees": [*document["guarantees"], {"integral_privacy": {"plans": 3, "k": 1}}]}
    (place / "process.yaml").write_text(json.dumps({**process, "measures": []}))
    for name in ("people", "other"):
        done = command("release", "release.yaml", "--target", f"published/{name}")
        assert not done.late, "it took too long"
        assert done.code == 0, done.stderr
    assert command("plan", "release.yaml", "--out", "plan.json").code == 0
    shutil.copytree(place / "published" / "people", place / "kept")
    shutil.copy(place / "plan.json", place / "kept-plan.json")


def one_trial(place: Path, kind: str, draw: random.Random, table: Table, trial: str) -> None:
    verb, read = draw.choice(list(readers(kind).items()))
    target = place / ("plan.json" if verb == "transform" else f"published/people/_privpipe/{kind}.json")
    whole = json.loads(
        (place / "kept-plan.json" if verb == "transform" else place / f"kept/_privpipe/{kind}.json").read_text()
    )
    target.write_bytes(as_text(whole, draw).encode("utf-8", "surrogatepass"))
    shutil.rmtree(place / "unjudged", ignore_errors=True)
    try:
        done = read(place)
        violations = [f"{verb}: {violation}" for violation in done.violations()]
        if kind == "plan" and verb == "transform":
            violations += in_python(target)
    finally:
        target.write_text(json.dumps(whole))
    table.slow += done.late
    table.codes[done.code] += not done.late
    if violations and os.environ.get("SOAK_KEEP"):
        Path(os.environ["SOAK_KEEP"]).mkdir(parents=True, exist_ok=True)
    table.add(f"{kind} mutants", violations, trial)


def as_text(document: Any, draw: random.Random) -> str:
    if draw.random() < 0.8:
        return json.dumps(mutated(document, draw, draw.choice((1, 1, 1, 2, 4))), ensure_ascii=draw.random() < 0.5)
    return mutated_text(json.dumps(document, indent=2), draw, draw.choice((1, 1, 2, 5)))


def in_python(path: Path) -> list[str]:
    """The same plan read and shown from Python."""
    with contextlib.redirect_stdout(io.StringIO()):
        try:
            plan = pp.Plan.from_json(path.read_bytes().decode("utf-8", "surrogateescape"))
            repr((plan.levels, plan.loss, plan.suppressed_records, plan.optimal, plan.nodes_checked, plan.digest))
        except pp.errors.PrivpipeError:
            pass
        except Exception as error:  # noqa: BLE001 - any other is what is looked for
            return [f"Plan.from_json: {type(error).__name__}: {error}"]
    return []
