"""A fitted stage: learn from a frame, apply to that frame and, where it is a function of values, to others."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Unpack, overload

from privpipe.border import bordered
from privpipe.draws import Seed
from privpipe.errors import UsageError
from privpipe.hierarchies import HierarchySpec
from privpipe.judging.column_loss import LossTable
from privpipe.policy import Policy
from privpipe.policy.catalogues import Catalogues, named_entries
from privpipe.policy.plain_values import written
from privpipe.policy.secret import secret_given
from privpipe.private_files import create_private
from privpipe.roles import Roles
from privpipe.running.plan import Plan, document_digest
from privpipe.running.verbs import transform as transform_by_plan
from privpipe.stages.frame_stages import Asked, StageOver
from privpipe.transforms.base import Transformer
from privpipe.transforms.face import FittedStage, StageOptions

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["LearntStage", "apply", "fit", "load", "loads", "transform"]


VERSION = 1
ROLES = ("quasi_identifiers", "sensitive", "identifiers", "insensitive", "dropped", "carried")


@bordered
@dataclass(frozen=True, kw_only=True, repr=False)
class LearntStage(FittedStage):
    """A stage, its plan, and the options of the call.

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
    """What was asked; the seed, the engine and who receives progress are not."""
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


F = TypeVar("F")
Named = Transformer | str | Mapping[str, Any]
Stages = Named | Sequence[Transformer] | Sequence[Named]


@bordered
def apply(stage: Transformer, frame: Any, options: Mapping[str, Any]) -> Any:
    """See `StageFace.apply`."""
    return _applied((stage,), frame, Asked.of(type(stage).__name__, options))


@bordered
def fit(stage: Transformer, frame: Any, options: Mapping[str, Any]) -> LearntStage:
    """See `StageFace.fit`."""
    asked = Asked.of(type(stage).__name__, options)
    if "empty" in asked.values:
        raise UsageError("empty= is for `apply`: from a frame without records nothing is learnt")
    seed = _seed(asked)
    with StageOver((stage,), frame, asked, seed) as over:
        staged = over.staged(lasting=True)
        released = tuple(staged.table.schema.names)
        return LearntStage(own=stage, made=staged.plan, asked=asked, released=released, seed=seed)


@overload
def transform(
    data: str | PurePath,
    plan: Plan | Stages,
    *,
    policy: Policy | None = None,
    losses: Literal[False] = False,
    **options: Unpack[StageOptions],
) -> pa.Table: ...


@overload
def transform(
    data: F,
    plan: Plan | Stages,
    *,
    policy: Policy | None = None,
    losses: Literal[False] = False,
    **options: Unpack[StageOptions],
) -> F: ...


@overload
def transform(
    data: F,
    plan: Plan | Stages,
    *,
    policy: Policy | None = None,
    losses: Literal[True],
    **options: Unpack[StageOptions],
) -> tuple[F, LossTable]: ...


@bordered
def transform(
    data: Any,
    plan: Plan | Stages,
    *,
    policy: Policy | None = None,
    losses: bool = False,
    **options: Unpack[StageOptions],
) -> Any:
    """Apply a plan to a table, or stages that learn from it; returns a frame of its kind. The result is *not* judged.

    Parameters
    ----------
    data : path or frame
    plan : Plan, Transformer or sequence of Transformer
        A plan from `plan`, or read with `Plan.from_json`; else stages, which run one after the other. A stage may be
        given as in a policy: ``{"top_code": {"columns": ["age"], "at": 80}}``.
    policy : Policy, optional
        Of a plan that was read from JSON without one.
    losses : bool
        Return (frame, LossTable): the same frame, and what each column lost, as ``privpipe transform`` shows it.
        Readers of the frame do not get the table, whose figures are of the raw values.
    options : see `StageOptions`
        With stages all of them; with a plan `engine` and `progress`.

    Returns
    -------
    frame
        Of the kind of `data`; a pyarrow Table for a path.

    Examples
    --------
    >>> import pandas as pd
    >>> import privpipe as pp
    >>> stages = [pp.transforms.TopCode(columns=["age"], at=80), pp.transforms.BottomCode(columns=["age"], at=18)]
    >>> pp.transform(pd.DataFrame({"age": [3, 40, 95]}), stages)["age"].tolist()
    [18, 40, 80]
    """
    given = {name: value for name, value in options.items() if value is not None}
    if isinstance(plan, Plan):
        for name in given:
            if name not in ("engine", "progress"):
                raise UsageError(f"{name}= is for stages that learn; the plan states it itself")
        return transform_by_plan(data, plan, policy=policy, losses=losses, **given)  # type: ignore[arg-type]
    stages = named_entries(plan, "transform")
    if not stages or not all(isinstance(each, Transformer) for each in stages):
        raise UsageError("give a plan, a stage, or a list of stages, as in [RankSwap(columns=[...], p=0.05)]")
    if policy is not None:
        raise UsageError("policy= is for a plan; stages take roles=, hierarchies=, guarantees= and seed=")
    return _applied(stages, data, Asked.of("transform", given), losses=losses)


def _applied(stages: Sequence[Transformer], frame: Any, asked: Asked, *, losses: bool = False) -> Any:
    with StageOver(stages, frame, asked, _seed(asked), compared=losses) as over:
        staged = over.staged()
        lost = over.lost(staged) if losses else None
        out = over.returned(staged)
        return (out, lost) if losses else out


def _seed(asked: Asked) -> Seed:
    return asked.seed.resolve() if asked.seed is not None else Seed.from_os()
