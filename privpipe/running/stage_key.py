"""The keys of a run's draws: what each stage's K hangs on."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from privpipe.draws import Draws, RunKey, Seed
from privpipe.draws.secret import key_id, read_key
from privpipe.draws.stream import SCHEME, SHARED_SCHEME
from privpipe.engines.base.fingerprint import fingerprint
from privpipe.running.plan import DrawnIn, Plan, canonical_json
from privpipe.running.population import population_beside

if TYPE_CHECKING:
    from privpipe.policy import Policy
    from privpipe.running.run_context import RunContext
    from privpipe.transforms.base import StagePlan, Transformer

__all__ = ["DrawRoot", "inputs_digest", "stages_digest"]

FILES = ("file", "path")


@dataclass(frozen=True)
class DrawRoot:
    """What the keys of all stages of one run hang on.

    Two policies over one source, or one policy over two sources, share no draw. Rows keep their draws over releases
    only under a plan that is given by name: it carries the run that it was learnt in.

    Parameters
    ----------
    seed : Seed
        The run key R; the seed itself where a stage runs without a policy.
    inputs : str
        Digest of what shapes the rows and is in neither the policy's text nor the source: see `inputs_digest`.
    scheme : str
        How K is derived from it.
    """

    seed: Seed = field(repr=False)
    inputs: str = field(default="", repr=False)
    scheme: str = SCHEME

    @classmethod
    def of(cls, context: RunContext, drawn: DrawnIn, plan: Plan | None) -> Self:
        """The root of a run.

        Parameters
        ----------
        drawn : DrawnIn
            The run itself, or the one that a given plan was learnt in.
        plan : Plan, optional
            That the run is given. A plan of version 1 keeps the draws that releases under it have.
        """
        if plan is not None and plan.version == 1:
            return cls(context.seed, scheme=SHARED_SCHEME)
        if not context.releases:
            return cls(context.seed)
        return cls(Seed(RunKey.of(context.seed, drawn.policy, drawn.source).key), drawn.inputs)

    def draws(self, at: int, stage: Transformer, made: StagePlan | None, source: str) -> Draws:
        """The draws of a stage once its plan is known.

        Parameters
        ----------
        at : int
            Position of the stage.
        made : StagePlan or None
            None before the stage is planned: for `Transformer.entering`, whose stages say that nothing learnt shapes
            their draws.
        source : str
            The keyed fingerprint of the source. Draws that are bound to the values they mask leave it out, so that
            under a given plan a value that did not change keeps its noise whatever else the source holds.
        """
        figures = {} if made is None else stage.shaping(made)
        bound = [stage.parameters(), figures, None if stage.draws_by_value() else source]
        text = canonical_json([*bound, self.inputs] if self.inputs else bound)
        return Draws(self.seed, at, stage.name(), hashlib.sha256(text.encode()).hexdigest(), self.scheme)


def stages_digest(stages: Sequence[StagePlan]) -> str:
    """SHA-256 over the plans of all stages."""
    text = canonical_json([[stage.name, stage.parameters, stage.detail] for stage in stages])
    return hashlib.sha256(text.encode()).hexdigest()


def inputs_digest(context: RunContext, original: Any, population: Any) -> str:
    """SHA-256 of what shapes the rows of a run and is in neither its policy's text nor its source.

    The files of hierarchies and base distributions, the population, and the keys of pseudonyms and date shifts: where
    one of them differs, so do rows, and the masked figures of earlier stages must not join them. Empty where no stage
    draws.
    """
    policy = context.policy
    if not context.releases or not any(stage.needs_draws for stage in policy.transform):
        return ""
    places = [stage.key_place() for stage in policy.transform]
    found = [
        [_content(policy, name) for name in _files(policy)],
        [key_id(read_key("transform", place)) for place in places if place is not None],
        _population(context, original, population),
    ]
    return hashlib.sha256(canonical_json(found).encode()).hexdigest()


def _files(policy: Policy) -> list[str]:
    """Names of the files by which hierarchies and guarantees are declared, in the order of the document."""
    return [name for section in ("columns", "guarantees") for name in _named(policy.document.get(section))]


def _named(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        for key, value in node.items():
            if key in FILES and isinstance(value, str):
                yield value
            else:
                yield from _named(value)
    elif isinstance(node, list):
        for value in node:
            yield from _named(value)


def _content(policy: Policy, name: str) -> str:
    """The digest of a file, or of the files of a folder; for anything else, such as an address, the name."""
    place = Path(policy.base_dir, name)
    found = hashlib.sha256()
    for path in sorted(place.rglob("*")) if place.is_dir() else [place]:
        if path.is_file():
            with path.open("rb") as file:
                found.update(hashlib.file_digest(file, "sha256").digest())
    return found.hexdigest() if place.exists() else name


def _population(context: RunContext, original: Any, population: Any) -> str:
    if context.policy.population is None:
        return ""
    if population is None:
        population = population_beside(context.engine, context.policy, original)
    return "" if population is None else fingerprint(context.engine, population, context.seed)
