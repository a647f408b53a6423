"""Projects of Great Expectations: the suites of a policy or a template written into one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import great_expectations as gx
from great_expectations.core.expectation_suite import ExpectationSuite
from great_expectations.exceptions import DataContextError

from privpipe.border import bordered
from privpipe.errors import UnsupportedError, UsageError, did_you_mean
from privpipe.gx.expectations import REFUSED
from privpipe.gx.related_suites import suites_of
from privpipe.gx.store import protect, root_of
from privpipe.gx.suites import TEMPLATES, suite_of, template
from privpipe.policy import Policy

__all__ = ["Initialised", "init"]


@bordered
@dataclass(frozen=True)
class Initialised:
    """What `init` wrote.

    Parameters
    ----------
    suite : str
        Name of the suite; of related tables, of that which holds the joint guarantees.
    root : Path
        Folder of the context's configuration.
    expectations : int
        How many expectations were written.
    awaited : list of str
        Parameters that each run must give.
    left_out : mapping
        By name of a guarantee of the policy that is not an expectation, the reason.
    others : tuple of str
        Of related tables, the names of the suites of the others.
    """

    suite: str
    root: Path
    expectations: int
    awaited: list[str]
    left_out: Mapping[str, str]
    others: tuple[str, ...] = ()


@bordered
def init(
    source: str | Path | Policy, context: str | Path, *, name: str | None = None, replace: bool = False, **given: Any
) -> Initialised:
    """Write the suite of a policy or of a template into a project of Great Expectations.

    Makes the project where there is none, and protects it (`protect`).

    Parameters
    ----------
    source : str, Path or Policy
        A policy or its file, or a key of `TEMPLATES`.
    context : str or Path
        Folder of the project.
    name : str, optional
        Of the suite; left out, that of the policy or template. Of a policy about related tables each table has a suite,
        as in ``clinic.visits``.
    replace : bool
        Whether a suite of that name is replaced.
    **given
        Parameters of a template; of a policy what `suite_of` takes, such as ``original_source``, and where it is about
        related tables what `suites_of` takes.

    Raises
    ------
    UsageError
        No such template or file, a parameter that it does not have, or a suite of that name is there.
    UnsupportedError
        No guarantee of the policy can be an expectation, or it judges missing values as none of them can.
    """
    left_out: dict[str, str] = {}
    if isinstance(source, str) and source in TEMPLATES:
        suites = [template(source, **{**TEMPLATES[source].defaults, **given})]
    else:
        policy = source if isinstance(source, Policy) else _policy(source)
        suites, left_out = _of_policy(policy, given, name)
    if len(suites) == 1:
        suites[0].name = name or suites[0].name
    try:
        opened = gx.get_context(mode="file", project_root_dir=context)
    except (DataContextError, OSError) as error:
        raise UsageError(f"{str(context)!r} cannot be opened as a data context: {type(error).__name__}") from None
    there = {each.name for each in opened.suites.all()}
    for suite in suites:
        if not replace and suite.name in there:
            raise UsageError(f"the project has a suite {suite.name!r}; name another with `name`, or write `replace`")
    protect(opened)
    made = [expectation for suite in suites for expectation in suite.expectations]
    awaited = sorted({each for expectation in made for each in getattr(expectation, "awaited", ())})
    for suite in suites:
        opened.suites.add_or_update(suite)
    first, *others = [suite.name for suite in suites]
    return Initialised(first, root_of(opened), len(made), awaited, left_out, tuple(others))


def _policy(source: str | Path) -> Policy:
    if not Path(source).is_file():
        named = str(source)
        raise UsageError(
            f"{named!r} is neither a policy file nor a template ({', '.join(TEMPLATES)})"
            f"{did_you_mean(named, TEMPLATES)}"
        )
    return Policy.load(source)


def _of_policy(
    policy: Policy, given: Mapping[str, Any], name: str | None
) -> tuple[list[ExpectationSuite], dict[str, str]]:
    """The suites, of related tables that of the persons' table first, and the guarantees that are left out."""
    if policy.related is not None:
        found = suites_of(policy, name=name, **given)
        root = policy.related.tree.root
        return [found[root], *(suite for table, suite in found.items() if table != root)], {}
    if policy.nulls not in ("own_value", "refuse"):
        raise UnsupportedError(
            f"an expectation judges with `nulls: own_value` or `refuse`, the policy with {policy.nulls}"
        )
    left_out = {each.name(): REFUSED[each.name()] for each in policy.guarantees if each.name() in REFUSED}
    kept: Sequence[Any] = [each for each in policy.guarantees if each.name() not in REFUSED]
    if not kept:
        raise UnsupportedError(
            f"no guarantee of the policy is an expectation: {'; '.join(map(': '.join, left_out.items()))}"
        )
    persons = {name: getattr(policy, name) for name in ("person_id", "household_id") if getattr(policy, name)}
    suite = suite_of(
        kept,
        policy.released_roles,
        name=policy.name,
        nulls=policy.nulls,
        suppression_mark=policy.suppression_mark,
        undeclared=policy.undeclared,
        **{**persons, **given},
    )
    return [suite], left_out
