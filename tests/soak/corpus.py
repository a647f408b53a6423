"""``python tests/soak/corpus.py OUT [N]``: digests of N releases, to be compared before and after a change of the code.

Runs are given a fixed id and moment, so that whatever differs between two outputs is the work of the code. What a
policy ends in is written beside its name: the digests of its released files and documents, or the words of its error.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from sources import STRONG, base, documents, write_people

import privpipe as pp
from privpipe.errors import PrivpipeError
from privpipe.running import run

PROJECT = Path(__file__).resolve().parents[2]
MOMENT = datetime(2024, 1, 1, tzinfo=UTC)
UNTOLD = ("versions", "created", "seconds", "times")
"""Keys of documents that speak of the moment and of the machine."""


def told(value: Any) -> Any:
    """A document without what differs between two runs of the same code."""
    if isinstance(value, dict):
        return {key: told(item) for key, item in value.items() if key not in UNTOLD}
    return [told(item) for item in value] if isinstance(value, list) else value


def digests(place: Path) -> dict[str, str]:
    """Of every published file; of documents, without what differs between two runs."""
    found = {}
    for path in sorted((place / "published" / "people").resolve().rglob("*")):
        if path.is_file():
            data = path.read_bytes()
            if path.suffix == ".json":
                data = json.dumps(told(json.loads(data)), sort_keys=True).encode()
            found[path.name] = hashlib.sha256(data).hexdigest()
    return found


def outcome(document: dict[str, Any]) -> Any:
    """What a policy ends in."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        write_people(place)
        os.chdir(place)
        try:
            result = pp.release(pp.Policy.from_dict(document))
        except PrivpipeError as error:
            return f"{type(error).__name__}: {error}".replace(folder, ".")
        verdict = json.dumps(told(result.assessment.to_dict()), sort_keys=True).replace(folder, ".")
        return {"files": digests(place), "verdict": hashlib.sha256(verdict.encode()).hexdigest()}


def main(out: str, number: int) -> None:
    """Write the digests of so many policies."""
    os.environ["SOAK_SEED_OF_POLICIES"] = STRONG
    fixed: Any = SimpleNamespace(token_hex=lambda count: "0" * 2 * count, token_bytes=bytes)
    moment: Any = SimpleNamespace(now=lambda zone=None: MOMENT, fromisoformat=datetime.fromisoformat)
    for name, stand_in in (("secrets", fixed), ("datetime", moment)):
        if hasattr(run, name):
            setattr(run, name, stand_in)
    kept, seen = {}, set()
    for document in documents(PROJECT, random.Random(11)):
        if document["source"] != base()["source"]:
            continue
        text = json.dumps(document, sort_keys=True)
        if text not in seen and len(kept) < number:
            seen.add(text)
            kept[f"{len(kept):03} {hashlib.sha256(text.encode()).hexdigest()[:12]}"] = outcome(document)
    Path(out).write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    released = sum(isinstance(found, dict) for found in kept.values())
    print(f"{len(kept)} policies, {released} of them released")


if __name__ == "__main__":
    main(str(Path(sys.argv[1]).resolve()), int(sys.argv[2]) if len(sys.argv) > 2 else 200)
