"""Frozen plans: stages as an earlier run learnt them, once they are known to be the policy's own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from privpipe.blocks.verdict import plain
from privpipe.draws import Seed
from privpipe.errors import UsageError
from privpipe.running.plan import Plan

if TYPE_CHECKING:
    from privpipe.policy import Policy

__all__ = ["frozen_plan", "read_plan", "released_columns", "require_fitting", "require_same_columns"]


def read_plan(path: str | Path, policy: Policy | None = None) -> Plan:
    """The plan of a JSON file.

    Parameters
    ----------
    policy : Policy, optional
        The one it must have been made for.

    Raises
    ------
    UsageError
        The file cannot be read, or holds no plan of this version (or policy).
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot read the plan {str(path)!r}: {type(error).__name__}") from None
    return Plan.from_json(text, policy)


def frozen_plan(policy: Policy, given: Plan | str | Path | None) -> Plan | None:
    """The plan that is given, else the one that the policy names under `plan:`; None: stages learn anew."""
    if isinstance(given, Plan):
        return given
    if given is not None:
        return read_plan(given)
    return None if policy.plan is None else read_plan(policy.plan.target(policy.base_dir))


def released_columns(policy: Policy) -> dict[str, str]:
    """The role of each column that the policy releases."""
    roles = policy.released_roles
    return {name: roles.of(name) for name in roles.columns if name not in roles.unreleased}


def require_same_columns(plan: Plan, policy: Policy) -> None:
    """Refuse a plan that was made for a policy which releases other columns, or gives them other roles.

    Releases under one plan can be joined by what its stages draw for, so what the join shows is what each of them
    shows. A plan of version 1 does not say what was released under it.

    Raises
    ------
    UsageError
        It names the first column that differs.
    """
    here = released_columns(policy)
    for name in sorted({*plan.columns, *here}) if plan.version > 1 and plan.columns else ():
        before, now = plan.columns.get(name, "not released"), here.get(name, "not released")
        if before != now:
            raise UsageError(
                f"the frozen plan does not fit: column {name!r} is {now} in the policy and {before} in the plan; "
                "releases under one plan can be joined, so all of them show the same columns in the same roles: make a "
                "new plan for this policy"
            )


def require_fitting(plan: Plan, policy: Policy, seed: Seed) -> None:
    """Refuse a plan that was made for other stages, parameters or released columns, or with another seed.

    The rest of the policy may differ: guarantees are judged over what is written, whatever the plan was made for.

    Raises
    ------
    UsageError
        It names the first stage that differs, and the first parameter.
    """
    if policy.seed is not None and not plan.made_with(seed):
        raise UsageError("the plan was made with another seed than the policy's; make a new plan, or restore the seed")
    require_same_columns(plan, policy)
    names, planned = [stage.name() for stage in policy.transform], [stage.name for stage in plan.stages]
    for at, (name, other) in enumerate(zip(names, planned, strict=False)):
        if name != other:
            raise UsageError(
                f"the frozen plan does not fit: {policy.located_stage(at)} is {other} in the plan; make a new plan"
            )
    if len(names) != len(planned):
        raise UsageError(
            f"the frozen plan does not fit: it has {len(planned)} stages, the policy {len(names)}; make a new plan"
        )
    for at, (stage, made) in enumerate(zip(policy.transform, plan.stages, strict=True)):
        wanted, found = plain(stage.stated_parameters()), plain(made.parameters)
        for parameter in sorted({*wanted, *found}):
            if wanted.get(parameter) != found.get(parameter):
                raise UsageError(
                    f"the frozen plan does not fit: {policy.located_stage(at)}.{parameter} is another in the plan; "
                    "make a new plan, or take the parameter back"
                )
