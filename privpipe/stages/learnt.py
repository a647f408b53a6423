"""A fitted stage: what was learnt from one frame, for that frame and, where it is a function of values, for others."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from privpipe.border import bordered
from privpipe.draws import Seed
from privpipe.errors import UsageError
from privpipe.hierarchies import HierarchySpec
from privpipe.policy.entries import Catalogues
from privpipe.policy.plain_values import written
from privpipe.policy.secret import secret_given
from privpipe.private_files import create_private
from privpipe.roles import Roles
from privpipe.running.plan import Plan, document_digest
from privpipe.stages.asked import Asked
from privpipe.stages.stage_over import StageOver
from privpipe.transforms.base import Transformer
from privpipe.transforms.face import FittedStage

__all__ = ["LearntStage", "load", "loads"]

VERSION = 1
ROLES = ("quasi_identifiers", "sensitive", "identifiers", "insensitive", "dropped", "carried")


@bordered
@dataclass(frozen=True, kw_only=True, repr=False)
class LearntStage(FittedStage):
    """A stage, its plan, and what was asked of it.

    Parameters
    ----------
    own : Transformer
    made : Plan
    asked : Asked
    released : tuple of str
        Columns that come out.
    seed : Seed
        Given or drawn.
    """

    own: Transformer
    made: Plan
    asked: Asked
    released: tuple[str, ...]
    seed: Seed = field(repr=False)

    def __repr__(self) -> str:
        return f"FittedStage({self.own!r})"

    @property
    def stage(self) -> Transformer:
        return self.own

    @property
    def plan(self) -> Mapping[str, Any]:
        return {**self.made.to_dict(), "digest": self.made.digest}

    @property
    def columns(self) -> tuple[str, ...]:
        return self.released

    @property
    def repeatable(self) -> bool:
        return self.asked.seed is not None

    def transform(self, frame: Any) -> Any:
        with StageOver((self.own,), frame, self.asked, self.seed) as over:
            return over.returned(over.staged(self.made))

    def to_json(self) -> str:
        """Stage and plan as text, without the seed."""
        document = {
            "privpipe_stage": VERSION,
            "stage": written(self.own),
            "asked": _written(self.asked),
            "columns": list(self.released),
            "plan": self.made.to_dict(),
        }
        return json.dumps({**document, "checksum": document_digest(document)}, sort_keys=True, ensure_ascii=False)

    def __deepcopy__(self, memo: object) -> LearntStage:
        return self  # nothing in it changes

    def __copy__(self) -> LearntStage:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        seed = self.asked.seed
        if seed is not None and seed.place is None:
            raise UsageError(
                "a fitted stage whose seed was handed over is not pickled, for the seed would be in it; save() it, or "
                'give the seed by its place, as in {"from_env": NAME}'
            )
        return loads, (self.to_json(), "a pickle", None if seed is None else seed.place)

    def save(self, path: str | os.PathLike[str]) -> None:
        text = self.to_json()
        target = Path(path)
        new = target.with_name(f".{target.name}.new")
        try:
            new.unlink(missing_ok=True)
            create_private(new)
            new.write_text(text + "\n", encoding="utf-8")
            os.replace(new, target)
        except OSError as error:
            raise UsageError(f"the fitted stage cannot be written to {str(path)!r}: {error.strerror}") from None


@bordered
def load(path: str | os.PathLike[str], *, seed: Any = None, engine: Any = None) -> LearntStage:
    """See `FittedStage.load`."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot read the fitted stage {str(path)!r}: {type(error).__name__}") from None
    return loads(text, repr(str(path)), seed, engine)


@bordered
def loads(text: str, owner: str, seed: Any = None, engine: Any = None) -> LearntStage:
    """A fitted stage from its text; `owner` is named in errors.

    Raises
    ------
    UsageError
        No saved stage, a damaged one, or another seed.
    """
    document = _read(text, owner)
    try:
        [(name, parameters)] = document["stage"].items()
        asked = _asked(document["asked"])
        own = Catalogues.shipped().transforms[name].build(parameters)
        made = Plan.from_json(json.dumps(document["plan"]))
        released = tuple(map(str, document["columns"]))
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise UsageError(f"{owner} holds no fitted stage of this version ({type(error).__name__})") from None
    given = secret_given(seed)
    repeatable = not made.hash_key
    if repeatable and given is None:
        raise UsageError(f"{owner} was fitted with a seed: give the same one, as in load(path, seed=...)")
    secret = given.resolve() if given is not None else Seed.from_os()
    if repeatable and not made.made_with(secret):
        raise UsageError(f"{owner} was fitted with another seed than the one given")
    asked = replace(asked, seed=given if repeatable else None, engine=engine)
    return LearntStage(own=own, made=made, asked=asked, released=released, seed=secret)  # type: ignore[arg-type]


def _read(text: str, owner: str) -> Mapping[str, Any]:
    try:
        document = json.loads(text)
        if document.pop("checksum") != document_digest(document) or document["privpipe_stage"] != VERSION:
            raise ValueError("another version, or damaged")
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise UsageError(f"{owner} holds no fitted stage of this version, or a damaged one") from None
    found: Mapping[str, Any] = document
    return found


def _written(asked: Asked) -> dict[str, Any]:
    """What was asked; the seed, the engine and who is told of progress are not."""
    return {
        "roles": {name: list(getattr(asked.roles, name)) for name in ROLES},
        "hierarchies": {column: spec.to_document() for column, spec in asked.hierarchies.items()},
        "guarantees": [written(entry) for entry in asked.guarantees],
        "values": dict(asked.values),
    }


def _asked(document: Mapping[str, Any]) -> Asked:
    hierarchies = document["hierarchies"].items()
    return Asked(
        roles=Roles(**document["roles"]),
        hierarchies={name: HierarchySpec.from_mapping(given, ".", column=name) for name, given in hierarchies},
        guarantees=tuple(_entry(each) for each in document["guarantees"]),
        values=document["values"],
    )


def _entry(written: Mapping[str, Any]) -> Any:
    [(name, parameters)] = written.items()
    catalogues = Catalogues.shipped()
    for room in catalogues.of("guarantees"):
        if name in room:
            return room[name].build(parameters)
    raise LookupError(name)
