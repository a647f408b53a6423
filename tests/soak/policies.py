"""Mutants of policies: read, and where they can be read, run on a tiny table."""

from __future__ import annotations

import io
import json
import os
import random
import sys
from pathlib import Path
from typing import Any

from mutants import mutated, mutated_text
from ruamel.yaml import YAML
from sources import STRONG, documents, write_people
from trials import Table, command, fresh_place, violations_of_sink

__all__ = ["soak_policies"]

COMMANDS = ("assess", "plan", "release", "release", "hierarchy")


def soak_policies(project: Path, table: Table, trials: int, seed: int) -> None:
    """So many mutants of policies."""
    os.environ["SOAK_SEED_OF_POLICIES"] = STRONG
    known = documents(project, random.Random(seed))
    for trial in range(trials):
        draw = random.Random(f"{seed}/policies/{trial}")
        one_trial(draw.choice(known), draw, table, f"policies {seed}/{trial}")


def one_trial(document: dict[str, Any], draw: random.Random, table: Table, trial: str) -> None:
    with fresh_place() as place:
        write_people(place)
        text = as_text(document, draw)
        (place / "release.yaml").write_bytes(text.encode("utf-8", "surrogatepass"))
        verb = draw.choice(COMMANDS)
        arguments: tuple[Any, ...] = (verb, "release.yaml")
        if verb == "plan":
            arguments = ("plan", "release.yaml", "--json")
        if verb == "hierarchy":
            arguments = ("hierarchy", "check", "release.yaml")
        if verb == "release":  # a mutated sink is tried too, but where it lies is not ours to say
            arguments = (*arguments, "--target", "out/people") if draw.random() < 0.8 else arguments
        done = command(*arguments)
        table.slow += done.late
        violations = done.violations()
        if "--target" in arguments and not done.late:
            violations += violations_of_sink(place, place / "out" / "people", done.code == 0)
        if violations or done.late:
            keep(place, trial)
        if done.late:
            print(f"late: {trial}: {' '.join(map(str, arguments))}", file=sys.stderr, flush=True)
        table.codes[done.code] += not done.late
        table.add("policy mutants", violations, trial)


def as_text(document: dict[str, Any], draw: random.Random) -> str:
    """A mutant as YAML or JSON, of its values or of its text."""
    if draw.random() < 0.75:
        changed = mutated(document, draw, draw.choice((1, 1, 1, 2, 4)))
        if draw.random() < 0.5:
            return json.dumps(changed, ensure_ascii=draw.random() < 0.5)
        return written(changed)
    return mutated_text(written(document), draw, draw.choice((1, 1, 2, 5)))


def written(document: Any) -> str:
    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = False
    text = io.StringIO()
    try:
        yaml.dump(document, text)
    except Exception:  # noqa: BLE001 - what YAML cannot write is written as JSON, which is YAML too
        return json.dumps(document)
    return text.getvalue()


def keep(place: Path, trial: str) -> None:
    """The mutant of a violation, where `SOAK_KEEP` says."""
    folder = os.environ.get("SOAK_KEEP")
    if folder:
        name = trial.replace("/", "-").replace(" ", "-")
        Path(folder).mkdir(parents=True, exist_ok=True)
        (Path(folder) / f"{name}.yaml").write_bytes((place / "release.yaml").read_bytes())
