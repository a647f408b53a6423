"""A grid of settings of a policy, staged and judged without publishing; risk and loss of each compared."""

from __future__ import annotations

import copy
import dataclasses
import itertools
import math
import re
import secrets
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from privpipe.draws import RunKey, Seed
from privpipe.engines import Engine
from privpipe.errors import NoSolutionError, PolicyError, UnsupportedError, UsageError, did_you_mean
from privpipe.judging import Assessment
from privpipe.policy import Policy
from privpipe.policy.catalogues import Catalogues
from privpipe.policy.plain_values import decoded, from_yaml
from privpipe.policy.specs import FrameSpec, require_one_table
from privpipe.progress import watched
from privpipe.reporting.entry_rows import leading_figure
from privpipe.reporting.run_comparison import Point, RiskUtilityMap, risk_weights
from privpipe.running.attached_source import attach
from privpipe.running.judged_rows import judge_written, without_notes
from privpipe.running.places import workplace, write_rows
from privpipe.running.release_memory import Remembering
from privpipe.running.run_context import OpenedEngine, RunContext, population_beside, seed_of, source_of
from privpipe.running.staging import Staged, run_stages
from privpipe.sinks.target import LocalTarget

if TYPE_CHECKING:
    from privpipe.blocks import Guarantee

__all__ = [
    "MOST_POINTS",
    "Chosen",
    "compare_grid",
    "compare_policies",
    "measure_of",
    "place_of",
    "read_grid",
    "settings_of",
    "with_setting",
]


CELL_LOSS = {"cell_loss": "quality.cell_loss"}
"""Short names of the most common axes."""


@dataclass(frozen=True)
class Chosen:
    """Which entries of a policy are risk and which are loss.

    They are called by their catalogue name: ``record_linkage``, ``information_loss.il1s``, and ``record_linkage[2]``
    for a second of that name. A measure that the policy lacks is called as `measure_of` reads it.

    Parameters
    ----------
    policy : Policy
        With the measures that were requested in addition.
    risk, loss : tuple of str
    names : tuple of str
        Of all entries of the policy, in their order.
    kinds : mapping of str to str
        Catalogue name of each.
    """

    policy: Policy
    risk: tuple[str, ...]
    loss: tuple[str, ...]
    names: tuple[str, ...]
    kinds: Mapping[str, str]

    @classmethod
    def of(cls, policy: Policy, risk: Sequence[str] = (), loss: Sequence[str] = ()) -> Chosen:
        """Those named; left out: every measure of risk that has a threshold form, and the first of loss.

        Raises
        ------
        UsageError
            A name that no entry of the policy and no measure has, a figure that is safer the larger it is, or none to
            choose from.
        PolicyError
            A measure that this policy cannot have.
        """
        named = _named(policy.entries)
        more = [text for text in dict.fromkeys((*risk, *loss)) if text not in named]
        read = {text: measure_of(text, tuple(named)) for text in more}
        if read:
            document = copy.deepcopy(dict(policy.document))
            document["measures"] = [*(document.get("measures") or ()), *read.values()]
            policy = Policy.from_dict(document, policy.base_dir)
        entries = dict(zip((*named, *read), policy.entries, strict=True))
        for axis, texts in (("risk", risk), ("loss", loss)):
            for text in texts:
                _require_fit(axis, text, entries[text])
        found = tuple(risk) or tuple(name for name, entry in entries.items() if _is_of(entry, "risk"))
        lost = tuple(loss) or tuple(name for name, entry in entries.items() if _is_of(entry, "utility"))[:1]
        if not found or not lost:
            what, hint = ("risk", "record_linkage") if not found else ("loss", "information_loss")
            raise UsageError(
                f"the policy has no measure of {what}; add one under `measures:`, such as {hint}, or name one with "
                f"--{what}"
            )
        return cls(policy, found, lost, tuple(entries), {name: entry.name() for name, entry in entries.items()})


def measure_of(text: str, known: Sequence[str] = ()) -> dict[str, dict[str, Any]]:
    """The entry of a policy that a text denotes: ``NAME``, ``NAME.KIND`` or ``NAME:parameter=value,...``.

    Parameters
    ----------
    text : str
        KIND is the value of the parameter `measure` or `name`; values are as YAML has them, lists in brackets.
    known : sequence of str
        More names that may have been meant.

    Raises
    ------
    UsageError

    Examples
    --------
    >>> measure_of("prosecutor_risk"), measure_of("information_loss.il1s:columns=[age, income]")
    ({'prosecutor_risk': {}}, {'information_loss': {'measure': 'il1s', 'columns': ['age', 'income']}})
    >>> measure_of("cell_loss")
    {'quality': {'name': 'cell_loss'}}
    """
    called, _, said = text.partition(":")
    name, _, kind = CELL_LOSS.get(called, called).partition(".")
    rooms = Catalogues.shipped().of("measures")
    room = next((room for room in rooms if name in room), None)
    if room is None:
        names = [*known, *CELL_LOSS, *(each for each_room in rooms for each in each_room)]
        raise UsageError(f"no entry of the policy and no measure is called {called!r}{did_you_mean(called, names)}")
    own = {field.name for field in dataclasses.fields(room[name])}  # type: ignore[arg-type]
    given = {**({"measure" if "measure" in own else "name": kind} if kind else {}), **_parameters(text, said)}
    wrong = room[name].problems(given)
    if wrong:
        told = (f"{key}: {problem}" if key else problem for key, problem in wrong.items())
        raise UsageError(f"{text}: {'; '.join(told)}")
    return {name: given}


def _parameters(text: str, said: str) -> dict[str, Any]:
    found = {}
    for part in _parts(said):
        name, equals, value = part.partition("=")
        if not equals or not name.strip():
            raise UsageError(f"{text}: write parameters as {text.partition(':')[0]}:parameter=value,other=value")
        read = None
        try:
            read, report = from_yaml(f"value: {value.strip()}", "")
            report.raise_if_wrong()
        except PolicyError:
            read = None
        if not isinstance(read, dict):
            raise UsageError(f"{text}: the value of {name.strip()} cannot be read")
        found[name.strip()] = read["value"]
    return found


def _parts(said: str) -> list[str]:
    """The text split at its commas, except those in brackets."""
    parts, depth = [""], 0
    for sign in said:
        depth += (sign in "[{") - (sign in "]}")
        if sign == "," and not depth:
            parts.append("")
        else:
            parts[-1] += sign
    return [part for part in parts if part.strip()]


def _require_fit(axis: str, text: str, entry: Guarantee) -> None:
    if getattr(type(entry), "direction", None) == "at_least":
        raise UsageError(
            f"--{axis} {text}: the larger this figure the safer the table, so that the least of it would win; name a "
            "measure that grows with what is lost"
        )
    other = "utility" if axis == "risk" else "risk"
    if f"measures.{other}." in type(entry).__module__:
        right = "loss" if axis == "risk" else "risk"
        raise UsageError(f"--{axis} {text}: is a measure of {right}; name it with --{right}")


def _is_of(entry: Guarantee, room: str) -> bool:
    return f"measures.{room}." in type(entry).__module__ and entry.threshold_field == "at_most"


def _named(entries: Sequence[Guarantee]) -> dict[str, Guarantee]:
    """Entries by catalogue name, with the kind of loss, and a number behind those that are not the first so far."""
    named: dict[str, Guarantee] = {}
    for entry in entries:
        kind = entry.parameters().get("measure")
        name = f"{entry.name()}.{kind}" if kind else entry.name()
        times = sum(other == name or other.startswith(f"{name}[") for other in named)
        named[name if not times else f"{name}[{times + 1}]"] = entry
    return named


MOST_POINTS = 1000
FIXED = (
    "version",
    "name",
    "source",
    "sink",
    "engine",
    "engines",
    "record_id",
    "person_id",
    "household_id",
    "seed",
    "allow_insecure_seed",
)
"""Sections in which points may not differ: they are compared record by record, on the same sample."""
STEP = re.compile(r"([^.\[\]]+)|\[(\d+)\]")
PERCENT = ("sse_sst",)
Grid = Mapping[str, Sequence[Any]]
Place = tuple[str | int, ...]
Look = Callable[[Mapping[str, Any], RunContext, Staged, Assessment], None]
"""Called with each setting that was judged, while both tables are at hand."""


def read_grid(path: Path) -> dict[str, list[Any]]:
    """The grid of a YAML or JSON file: places of the policy, each with its list of values.

    Raises
    ------
    UsageError
        Not such a file, or more than `MOST_POINTS` points.
    """
    try:
        document, report = from_yaml(decoded(path.read_bytes(), str(path), "grid"), str(path))
    except (OSError, ValueError) as error:
        raise UsageError(f"the grid file {str(path)!r} cannot be read ({type(error).__name__})") from None
    report.raise_if_wrong()
    if not isinstance(document, dict) or not document:
        raise UsageError(
            'a grid maps places of the policy to lists of values: `"transform[0].rank_swap.p": [0.02, 0.05]`'
        )
    for place, values in document.items():
        place_of(place)
        if not isinstance(values, list) or not values:
            raise UsageError(f"grid: {place}: give a list of values, at least one")
    points = math.prod(len(values) for values in document.values())
    if points > MOST_POINTS:
        raise UsageError(f"the grid has {points:,} points, {MOST_POINTS:,} are run at most; give shorter lists")
    return document


def place_of(text: str) -> Place:
    """The steps of a place.

    Examples
    --------
    >>> place_of("transform[0].rank_swap.p")
    ('transform', 0, 'rank_swap', 'p')
    """
    place: list[str | int] = []
    at = 0
    while at < len(text):
        found = STEP.match(text, at)
        if found is None:
            raise UsageError(f"grid: {text!r} is not a place in a policy; write it as transform[0].rank_swap.p")
        place.append(found[1] if found[1] is not None else int(found[2]))
        at = found.end() + (text[found.end() : found.end() + 1] == ".")
    if len(place) < 2 or place[0] in FIXED:
        raise UsageError(f"grid: {text!r} cannot differ between points; vary parameters of stages or guarantees")
    return tuple(place)


def settings_of(grid: Grid) -> list[dict[str, Any]]:
    """Every combination of values, the last place varying fastest.

    Examples
    --------
    >>> settings_of({"a": [1, 2], "b": [3]})
    [{'a': 1, 'b': 3}, {'a': 2, 'b': 3}]
    """
    return [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]


def with_setting(policy: Policy, setting: Mapping[str, Any]) -> Policy:
    """The policy with other values at these places.

    Raises
    ------
    UsageError
        A place that the policy does not have, or a policy that is wrong with the value.
    """
    document: Any = copy.deepcopy(dict(policy.document))
    for text, value in setting.items():
        *steps, last = place_of(text)
        inner = document
        for step in steps:
            inner = _inside(inner, step, text)
        if isinstance(inner, dict) and isinstance(last, str):
            inner[last] = copy.deepcopy(value)
        else:
            _inside(inner, last, text)
            inner[last] = copy.deepcopy(value)
    return Policy.from_dict(document, policy.base_dir)


def _inside(inner: Any, step: str | int, text: str) -> Any:
    if isinstance(step, int) and isinstance(inner, list) and step < len(inner):
        return inner[step]
    if isinstance(step, str) and isinstance(inner, dict):
        if inner.get(step, None) is None and step in inner:
            inner[step] = {}
        if step in inner:
            return inner[step]
        raise UsageError(f"grid: {text}: the policy has no {step!r} there{did_you_mean(step, list(inner))}")
    raise UsageError(f"grid: {text}: the policy has no {step!r} there")


def compare_grid(
    policy: Policy,
    grid: Grid,
    *,
    risk: Sequence[str] = (),
    loss: Sequence[str] = (),
    engine: str | None = None,
    progress: Callable[[str], None] | None = None,
) -> RiskUtilityMap:
    """Stage and judge every point of a grid; nothing is published, and the files written for judging are removed.

    All points share the seed, and so the record ids, the draws of equal stages, and the sample of attacked
    records, so that differences between points are paired as far as may be.

    Parameters
    ----------
    policy : Policy
    grid : mapping of place to list of values
    risk, loss : sequence of str
        Entries of the policy, or other measures, that count as risk and as loss; see `Chosen`.
    engine : str, optional
        Instead of the policy's.
    progress : callable, optional
        Called with each point.

    Raises
    ------
    UsageError
        A place or value that makes no policy; raised before anything runs.
    NoSolutionError
        No point has a solution.
    """
    require_one_table(policy, "compare --grid")
    chosen = Chosen.of(policy, risk, loss)
    settings = settings_of(grid)
    policies = [with_setting(policy, setting).replaced(source=policy.source) for setting in settings]
    return compare_policies(policy, list(zip(settings, policies, strict=True)), chosen, engine, progress)


def compare_policies(
    policy: Policy,
    settings: Sequence[tuple[Mapping[str, Any], Policy]],
    chosen: Chosen,
    engine: Any = None,
    progress: Callable[[str], None] | None = None,
    look: Look | None = None,
) -> RiskUtilityMap:
    """Stage and judge some policies over one source, as `compare_grid` does the points of a grid.

    Parameters
    ----------
    policy : Policy
        Whose seed, source and sample all share.
    settings : sequence of (mapping, Policy)
        What each point is called by, and its policy.
    chosen : Chosen
        Of `policy`; a policy that lacks a measure of it is judged by it as well.
    engine : str or Engine, optional
    look : callable, optional
        Called with each setting, its run, its table and its verdict, before the written files are removed.
    """
    seed, attacked = seed_of(policy), policy.run_digest()
    weights = risk_weights(chosen.risk, chosen.kinds)
    losses = {name: 1 / len(chosen.loss) for name in chosen.loss}
    measured = [Chosen.of(variant, chosen.risk, chosen.loss) for _, variant in settings]
    data = policy.source.frame if isinstance(policy.source, FrameSpec) else policy
    points = []
    opened = OpenedEngine(engine, data, policy)
    with workplace(policy, "compared") as place, opened as running, watched(progress) as tell:
        for at, ((setting, variant), own) in enumerate(zip(settings, measured, strict=True)):
            asked = _Asked(running, seed, place, attacked, own.names, look)
            tell(f"point {at + 1} of {len(settings)}")
            judged = own.policy.replaced(source=variant.source)
            points.append(_point(asked, judged, setting, weights, losses))
    if all(point.outcome == "no_solution" for point in points):
        raise NoSolutionError(
            f"none of the {len(points):,} points has a solution within its limits; {points[0].reason}"
        )
    return RiskUtilityMap(points=tuple(points), risk_weights=weights, loss_weights=losses)


@dataclass(frozen=True)
class _Asked:
    """What all points have in common; `names` are those of the entries, in their order."""

    engine: Engine
    seed: Seed
    place: LocalTarget
    attacked: str
    names: tuple[str, ...]
    look: Look | None = None


def _point(
    asked: _Asked,
    policy: Policy,
    setting: Mapping[str, Any],
    weights: Mapping[str, float],
    losses: Mapping[str, float],
) -> Point:
    look = None if asked.look is None else partial(asked.look, setting)
    try:
        judged = judged_without_publishing(asked.engine, policy, asked.seed, asked.place, asked.attacked, look)
    except NoSolutionError as error:
        return Point(setting=setting, outcome="no_solution", reason=str(error))
    except UnsupportedError as error:
        return Point(setting=setting, outcome="error", reason=str(error))
    verdicts = dict(zip(asked.names, (*judged.verdicts, *judged.measures), strict=True))
    figures = {name: _scaled(verdicts[name]) for name in (*weights, *losses)}
    failed = [verdicts[name].reason for name, value in figures.items() if value is None]
    outcomes = [verdict.outcome for verdict in judged.verdicts]
    return Point(
        setting=setting,
        outcome="pass" if judged.passed else "error" if _is_error(judged) else "fail",
        risk=_mean(figures, weights),
        loss=_mean(figures, losses),
        figures=figures,
        gates=dict(zip(list(verdicts)[: len(outcomes)], outcomes, strict=True)),
        suppressed_records=judged.suppressed_records,
        reason="; ".join(failed),
    )


def _is_error(judged: Assessment) -> bool:
    return any(verdict.outcome == "error" for verdict in judged.failed)


def judged_without_publishing(
    engine: Engine,
    policy: Policy,
    seed: Seed,
    place: LocalTarget,
    attacked: str,
    look: Callable[[RunContext, Staged, Assessment], None] | None = None,
) -> Assessment:
    """The verdict that a release of the policy would get; its files are removed.

    Parameters
    ----------
    attacked : str
        Digest of the compared policy, so that all points attack the same records.
    look : callable, optional
        Called with the run, its table and its verdict.
    """
    run_id = secrets.token_hex(4)
    with Remembering(policy) as memory:
        context = RunContext(engine, policy, seed)
        original = attach(context, source_of(policy))
        generalized = context.generalized_population
        population = None if generalized else population_beside(engine, policy, original)
        staged = run_stages(context, original, population=population)
        if generalized:
            staged = replace(staged, population=population_beside(engine, policy, staged.table))
        staged = replace(staged, run=RunKey.of(seed, attacked, staged.source))
        memory.gather(engine, staged.original, staged.table, staged.roles)
        staged = replace(staged, rules=replace(staged.rules, histories=memory.histories))
        folder = place.stage(run_id)
        try:
            written = write_rows(context, staged, folder)
            judged = judge_written(context, without_notes(staged), folder, written)
            if look is not None:
                look(context, staged, judged)
            return judged
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _scaled(verdict: Any) -> float | None:
    figure = leading_figure(verdict.observed)
    if figure is None or not math.isfinite(figure):
        return None
    return figure / 100 if verdict.parameters.get("measure") in PERCENT else figure


def _mean(figures: Mapping[str, float | None], weights: Mapping[str, float]) -> float | None:
    parts = [(figures[name], weight) for name, weight in weights.items() if weight > 0]
    if any(figure is None for figure, _ in parts):
        return None
    return math.fsum(figure * weight for figure, weight in parts if figure is not None)
