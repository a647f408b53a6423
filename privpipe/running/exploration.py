"""Settings of a policy compared: in tables, and in a browser on this machine."""

from __future__ import annotations

import copy
import os
import secrets
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from privpipe.border import bordered
from privpipe.engines.base.frames import at_hand
from privpipe.errors import NoSolutionError, SinkError, UnsupportedError, UsageError
from privpipe.policy import Policy
from privpipe.policy.plain_values import decoded, from_yaml, written
from privpipe.policy.specs import require_one_table
from privpipe.policy.text_changes import Edit, rewritten
from privpipe.reporting.explorer_pages import ExplorerData
from privpipe.reporting.officer.charts import solution_space
from privpipe.reporting.officer.report_data import ReportData
from privpipe.reporting.run_comparison import RiskUtilityMap, RunComparison, compare_runs
from privpipe.reporting.run_documents import RunDocuments
from privpipe.running.frames import about
from privpipe.running.officers import under_officer
from privpipe.running.report_figures import least_shown, report_figures, sample_of
from privpipe.running.run_context import pinned_tables
from privpipe.running.settings_grid import Chosen, compare_grid, compare_policies, place_of, settings_of, with_setting
from privpipe.running.verbs import plan
from privpipe.transforms.base import Transformer

if TYPE_CHECKING:
    from privpipe.judging import Assessment
    from privpipe.running.run_context import RunContext
    from privpipe.running.staging import Staged

__all__ = ["Explored", "PolicyFile", "Setting", "compare", "explore"]


@bordered
def compare(
    first: Any,
    others: Any = None,
    *,
    policy: Policy | str | os.PathLike[str] | Mapping[str, Any] | None = None,
    grid: Mapping[str, Sequence[Any]] | None = None,
    risk: Sequence[str] = (),
    loss: Sequence[str] = (),
    engine: Any = None,
    progress: Callable[[str], None] | None = None,
) -> RiskUtilityMap | RunComparison:
    """Compare risk and loss of several settings, policies or stages, or the figures of two finished runs.

    ======================================  ==================================================================
    `compare(run, run)`                     two releases, by their folders, private records or results
    `compare(frame, [policy, policy])`      each policy over one table
    `compare(frame, [stage, stage],         each stage (or list of stages) instead of the policy's
    policy=...)`
    `compare(frame, policy=..., grid=...)`  each combination of values at places of the policy
    ======================================  ==================================================================

    Parameters
    ----------
    first : path or frame, or a finished run
        None: the policy's own source.
    others : sequence of policies or stages, or the second run
    policy : Policy, path or mapping, optional
    grid : mapping of place to list of values, optional
        As ``"transform[0].rank_swap.p": [0.02, 0.05]``.
    risk, loss : sequence of str
        Measures that count as risk and as loss, of the policies or any other; left out, all of risk and the first of
        loss.
    engine : str or Engine, optional
    progress : callable, optional
        Called with each point.

    Returns
    -------
    RiskUtilityMap or RunComparison
        With `rows`, `to_pandas()` and `to_dict()`. All points share the seed and the sample of attacked records;
        nothing is published.

    Raises
    ------
    UsageError
        Nothing of these, or a policy without the measures of the first.
    NoSolutionError
        No point has a solution.

    Examples
    --------
    >>> import pandas as pd
    >>> import privpipe as pp
    >>> policy = pp.Policy(
    ...     roles=pp.Roles(quasi_identifiers=["age"]),
    ...     guarantees=[pp.models.KAnonymity(k=2)],
    ...     measures=[pp.measures.ProsecutorRisk(), pp.measures.InformationLoss(measure="il1s")],
    ... )
    >>> stages = [pp.transforms.TopCode(columns=["age"], at=at) for at in (35, 38)]
    >>> pp.compare(pd.DataFrame({"age": [30, 30, 40, 50]}), stages, policy=policy)
    RiskUtilityMap(2 points, 2 met all guarantees, 1 Pareto-optimal)
    """
    left, right = _run(first), _run(others)
    if left is not None and right is not None and policy is None and grid is None:
        if risk or loss or engine is not None or progress is not None:
            raise UsageError("compare: risk=, loss=, engine= and progress= are not for finished runs")
        return compare_runs(RunDocuments.read(left), RunDocuments.read(right))
    first = at_hand(first, "compare")
    if grid is not None:
        if policy is None or others is not None:
            raise UsageError("compare: grid= varies one policy; give a frame (or None), policy= and grid=")
        if not isinstance(grid, Mapping) or not grid:
            raise UsageError("compare: grid= maps places of the policy to lists of values")
        return compare_grid(
            _compared_over(first, _policy(policy)), grid, risk=risk, loss=loss, engine=engine, progress=progress
        )
    if isinstance(others, str) or not isinstance(others, Sequence) or not others:
        raise UsageError(
            "compare: give two finished runs; a frame and a list of policies, or of stages with policy=; or a frame, "
            "policy= and grid="
        )
    points = _points(first, others, policy)
    base = points[0][1]
    return compare_policies(base, points, Chosen.of(base, risk, loss), engine, progress)


def _points(frame: Any, others: Sequence[Any], policy: Any) -> list[tuple[dict[str, str], Policy]]:
    staged = [_stages(each) for each in others]
    if all(staged):
        if policy is None:
            raise UsageError("compare: stages are compared under the guarantees and measures of policy=")
        base = _compared_over(frame, _policy(policy))
        names = [f"#{at}: {' + '.join(stage.name() for stage in stages)}" for at, stages in enumerate(staged, 1)]
        return [({"stages": name}, _with_stages(base, stages)) for name, stages in zip(names, staged, strict=True)]
    if any(staged) or policy is not None:
        raise UsageError("compare: give policies, or stages with policy=, not both")
    policies = [_compared_over(frame, _policy(each)) for each in others]
    return [({"policy": f"#{at}: {each.name}"}, each) for at, each in enumerate(policies, 1)]


def _with_stages(policy: Policy, stages: tuple[Transformer, ...]) -> Policy:
    document = {**policy.document, "transform": [written(stage) for stage in stages]}
    return Policy.from_dict(document, policy.base_dir).replaced(
        source=policy.source, population=policy.population, versions=policy.versions
    )


def _stages(given: Any) -> tuple[Transformer, ...]:
    """The stages of one point; none where it is something else."""
    stages = (given,) if isinstance(given, Transformer) else given
    found = isinstance(stages, list | tuple) and all(isinstance(each, Transformer) for each in stages)
    return tuple(stages) if found else ()


def _policy(given: Any) -> Policy:
    if isinstance(given, Policy):
        return given
    if not isinstance(given, Mapping | str | os.PathLike):
        raise UsageError(f"compare: {type(given).__name__} is not a policy, stage or list of stages")
    return Policy.from_dict(given) if isinstance(given, Mapping) else Policy.load(given)


def _compared_over(frame: Any, policy: Policy) -> Policy:
    return pinned_tables(policy if frame is None else about(policy, frame))


def _run(given: Any) -> str | None:
    """The place of a finished run, where it is one."""
    path = given if isinstance(given, str | os.PathLike) else getattr(given, "path", None)
    return os.fspath(path) if isinstance(path, str | os.PathLike) else None


OF_A_SEARCH = ("search", "criteria", "minimal", "roots_only", "approach", "budget")
"""Parameters of `generalize` that have nothing to say where its levels are given; the first gives its line to them."""
WITHOUT_RISK, WITHOUT_LOSS = ("prosecutor_risk",), ("cell_loss",)
"""Axes of a policy that measures neither."""
FRONT_SHARE = 0.5


@dataclass(frozen=True)
class Setting:
    """One way to set a policy.

    Parameters
    ----------
    shown : mapping of str to value
        Level of each column, or value at each place.
    policy : Policy
    edits : tuple of Edit
        What writes it into the policy.
    """

    shown: Mapping[str, Any]
    policy: Policy = field(repr=False)
    edits: tuple[Edit, ...] = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class Explored:
    """What was tried.

    Parameters
    ----------
    settings : tuple of Setting
    data : ExplorerData
        What may be shown of each: no count of records in it is below the reporting threshold.
    """

    settings: tuple[Setting, ...]
    data: ExplorerData = field(repr=False)


@dataclass(frozen=True)
class PolicyFile:
    """A policy file as it was when it was read.

    Parameters
    ----------
    path : Path
    content : bytes
    """

    path: Path
    content: bytes = field(repr=False)

    @classmethod
    def read(cls, path: Path) -> PolicyFile:
        """The file behind a path; links are followed."""
        real = Path(os.path.realpath(path))
        try:
            return cls(real, real.read_bytes())
        except (OSError, ValueError) as error:
            raise UsageError(f"the policy file {str(path)!r} cannot be read ({type(error).__name__})") from None

    def policy(self) -> Policy:
        """The policy that this content is; the file is not read again."""
        found: Policy = Policy.load(self.path)
        self.require_unchanged()
        return found

    def require_unchanged(self) -> None:
        """Refuse a file that was changed since it was read."""
        try:
            same = self.path.read_bytes() == self.content
        except OSError:
            same = False
        if not same:
            raise UsageError(
                f"the policy file {str(self.path)!r} changed since it was read, and nothing was written; explore again"
            )

    def with_setting(self, setting: Setting) -> bytes:
        """The content with a setting, once it reads as the policy that was tried and is held to its officer's policy.

        Raises
        ------
        UsageError
            The text cannot be changed so.
        PolicyError
            The setting falls below an officer's policy.
        """
        text = decoded(self.content, str(self.path), "policy")
        new = rewritten(text, setting.edits)
        document, report = from_yaml(new, str(self.path))
        report.raise_if_wrong()
        if document != setting.policy.document:
            raise UsageError(
                f"the policy file {str(self.path)!r} is written so that this setting would change more than itself "
                "(aliases, merge keys); nothing was written: set it by hand"
            )
        under_officer(Policy.from_dict(document, setting.policy.base_dir))
        mark = b"\xef\xbb\xbf" if self.content.startswith(b"\xef\xbb\xbf") else b""
        return mark + new.encode()

    def write(self, content: bytes) -> None:
        """Replace the file in one move; its mode stays.

        Raises
        ------
        UsageError
            The file changed since it was read.
        SinkError
            It cannot be written.
        """
        new = self.path.with_name(f".{self.path.name}.{secrets.token_hex(8)}.new")
        try:
            handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
            with os.fdopen(handle, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            shutil.copymode(self.path, new)
            self.require_unchanged()
            os.replace(new, self.path)
        except OSError as error:
            raise SinkError(f"cannot write {str(self.path)!r}: {error.strerror}") from None
        finally:
            new.unlink(missing_ok=True)


@bordered
def explore(
    policy: Policy,
    grid: Mapping[str, Sequence[Any]] | None = None,
    *,
    risk: Sequence[str] = (),
    loss: Sequence[str] = (),
    most: int = 8,
    engine: Any = None,
    progress: Callable[[str], None] | None = None,
) -> Explored:
    """Stage and judge settings of a policy over its source as `compare` does, and keep the report figures of each.

    Parameters
    ----------
    policy : Policy
    grid : mapping of place to list of values, optional
        As `compare` takes it. Left out: vectors of levels of the last stage `generalize`, the one that its search
        takes, others that less risk or less loss suggests, and those one level away; without such a stage, sizes of
        classes: half, once, twice and four times the k of k-anonymity.
    risk, loss : sequence of str
        As of `compare`; a policy that measures neither is measured by `prosecutor_risk` and `cell_loss`.
    most : int
        Vectors of levels that are tried, at most.
    engine : str or Engine, optional
    progress : callable, optional
        Called with each point.

    Raises
    ------
    UsageError
        A policy without `generalize` or k-anonymity, and no grid.
    NoSolutionError
        No setting has a solution.
    """
    require_one_table(policy, "explore")
    policy = pinned_tables(policy)
    searched: list[Any] | None = None
    if grid is None and not any(stage.name() == "generalize" for stage in policy.transform):
        grid = _class_sizes(policy)
    if grid is not None:
        settings = [_of_grid(policy, each) for each in settings_of(grid)]
        current = [at for at, each in enumerate(settings) if each.policy.document == policy.document]
        chosen = current[0] if current else None
    else:
        settings, searched = _levels(policy, most, engine, progress)
        chosen = 0
    axes = Chosen.of(policy, risk or _missing(policy, "risk"), loss or _missing(policy, "utility"))
    seen: dict[int, ReportData] = {}
    points = [({"setting": at}, each.policy) for at, each in enumerate(settings)]

    def look(setting: Mapping[str, Any], context: RunContext, staged: Staged, judged: Assessment) -> None:
        seen[setting["setting"]] = _report(policy.name, context, staged, judged)

    found = compare_policies(axes.policy.replaced(source=policy.source), points, axes, engine, progress, look)
    threshold = max((each.threshold for each in seen.values()), default=least_shown(policy))
    data = ExplorerData.of(
        policy.name,
        found,
        [seen.get(at) for at in range(len(settings))],
        shown=[each.shown for each in settings],
        current=chosen,
        space=None if searched is None else solution_space(searched, threshold),
        threshold=threshold,
    )
    return Explored(settings=tuple(settings), data=data)


def _report(name: str, context: RunContext, staged: Staged, judged: Assessment) -> ReportData:
    figures = report_figures(context, staged, sample_of(context, staged))
    return ReportData.of(RunDocuments(name, {"name": name, **judged.to_dict()}, {}, figures))


def _missing(policy: Policy, room: str) -> tuple[str, ...]:
    """The measure for comparing a policy that has none of a kind."""
    own = any(f"measures.{room}." in type(e).__module__ and e.threshold_field == "at_most" for e in policy.entries)
    return () if own else WITHOUT_RISK if room == "risk" else WITHOUT_LOSS


def _of_grid(policy: Policy, setting: Mapping[str, Any]) -> Setting:
    edits = [Edit(place[:-1], place[-1], value) for place, value in ((place_of(k), v) for k, v in setting.items())]
    return Setting(setting, _over(policy, with_setting(policy, setting)), tuple(edits))


def _over(policy: Policy, variant: Policy) -> Policy:
    return variant.replaced(source=policy.source, population=policy.population, versions=policy.versions)


def _class_sizes(policy: Policy) -> dict[str, list[int]]:
    """Several k of the k-anonymity that is required."""
    asked = [(at, each.demanded()) for at, each in enumerate(policy.guarantees) if each.name() == "k_anonymity"]
    if not asked or not policy.transform:
        raise UsageError(
            "explore: the policy has no stage `generalize`, and none that meets a k-anonymity; name the settings to "
            "try with --grid FILE, as for `privpipe compare`"
        )
    at, k = asked[0][0], int(asked[0][1] or 2)
    return {f"guarantees[{at}].k_anonymity.k": sorted({max(2, k // 2), k, 2 * k, 4 * k})}


def _levels(
    policy: Policy, most: int, engine: Any, progress: Callable[[str], None] | None
) -> tuple[list[Setting], list[Any] | None]:
    """Vectors of levels that are worth a look, the one of the policy first, and the stages of its search."""
    at = max(at for at, stage in enumerate(policy.transform) if stage.name() == "generalize")
    stage: Any = policy.transform[at]
    if stage.approach == "AG_CS":
        raise UnsupportedError(
            f"explore: {policy.located_stage(at)}: approach AG_CS blanks cells, which levels cannot "
            "say; name the settings to try with --grid FILE"
        )
    searching = policy if stage.is_search else _over(policy, _searching(policy, at))
    try:
        stages_of = plan(None, searching, engine=engine, progress=progress, losses=False).to_dict()["stages"]
    except NoSolutionError:
        if stage.is_search:
            raise
        stages_of = []
    # Stages that the policy does not name, such as the one that drops columns, are not part of a plan.
    details = [each["detail"] for each in stages_of if each["name"] == "generalize"]
    detail = details[-1] if details else {}
    vectors = [detail["levels"]] if stage.is_search else [stage.levels]
    vectors += _worth_a_look(detail, most)
    unlike = [each for place, each in enumerate(vectors) if each not in vectors[:place]]
    return [_of_levels(policy, at, dict(each)) for each in unlike[:most]], stages_of if stage.is_search else None


def _worth_a_look(detail: Mapping[str, Any], most: int) -> list[Mapping[str, int]]:
    """The front of loss and risk in even steps, then neighbours that hold, then runners-up, then those that do not."""
    front = [each["levels"] for each in detail.get("front") or ()]
    step = max(1, round(len(front) / max(1.0, most * FRONT_SHARE)))
    near = detail.get("neighbours") or ()
    holding = [each["levels"] for each in near if each["meets"]]
    others = [each["levels"] for each in detail.get("runners_up") or ()]
    failing = [each["levels"] for each in near if not each["meets"]]
    taken = [detail["levels"]] if "levels" in detail else []
    return [*taken, *front[::step], *holding, *others, *failing]


def _parameters(document: Mapping[str, Any], at: int) -> dict[str, Any]:
    return dict(document["transform"][at]["generalize"] or {})


def _with_parameters(policy: Policy, at: int, parameters: Mapping[str, Any]) -> Policy:
    document = copy.deepcopy(dict(policy.document))
    document["transform"][at]["generalize"] = dict(parameters)
    return Policy.from_dict(document, policy.base_dir)


def _searching(policy: Policy, at: int) -> Policy:
    """The policy with a search instead of its levels."""
    given = _parameters(policy.document, at)
    columns = list(given.pop("levels"))
    return _with_parameters(policy, at, {**({"columns": columns} if columns else {}), **given})


def _of_levels(policy: Policy, at: int, levels: Mapping[str, int]) -> Setting:
    given = _parameters(policy.document, at)
    place = ("transform", at, "generalize")
    edits = [Edit(place, "levels", dict(levels), without=tuple(n for n in OF_A_SEARCH if n in given))]
    kept = {name: value for name, value in given.items() if name not in OF_A_SEARCH}
    if kept.get("mark") and "suppress_at_most" not in kept:
        kept["suppress_at_most"] = 0
        edits.append(Edit(place, "suppress_at_most", 0))
    return Setting(levels, _over(policy, _with_parameters(policy, at, {**kept, "levels": dict(levels)})), tuple(edits))
