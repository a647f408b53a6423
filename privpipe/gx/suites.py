"""Suites of privacy expectations: from guarantees or templates, saved as JSON or in a project."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Final

import great_expectations as gx
from great_expectations.core.expectation_suite import ExpectationSuite
from great_expectations.core.suite_parameters import is_suite_parameter
from great_expectations.exceptions import DataContextError

from privpipe.blocks import Guarantee
from privpipe.blocks.verdict import plain
from privpipe.border import bordered
from privpipe.errors import UnsupportedError, UsageError, did_you_mean
from privpipe.gx.action import DECLARED, is_privacy_type
from privpipe.gx.expectations import (
    COLUMNS,
    EXPECTATIONS,
    MEANT,
    REFUSED,
    ExpectSafeHarbor,
    PrivacyExpectation,
    meaning_of,
)
from privpipe.gx.joint_expectations import JOINT_EXPECTATIONS, JointExpectation, place_of
from privpipe.gx.store import protect, root_of
from privpipe.judging.rules import named_columns, undeclared_rule
from privpipe.models.attribute.base_distribution import BaseTable
from privpipe.models.identity.no_identifiers import NoIdentifiers
from privpipe.policy import Policy
from privpipe.policy.catalogues import named_entries
from privpipe.policy.related import RelatedRelease
from privpipe.relations.guarantees import JointGuarantee
from privpipe.roles import Roles, read_roles

__all__ = [
    "COLUMN_PARAMETERS",
    "TEMPLATES",
    "Initialised",
    "init",
    "load_suite",
    "save_suite",
    "suite_of",
    "suites_of",
    "template",
]


BESIDE = (
    *("original_source", "align", "record_id", "population_source", "hierarchies", "plan", "seed"),
    *("person_id", "household_id", "empty"),
)


@bordered
def suite_of(
    guarantees: Any,
    roles: Roles | Mapping[str, Any],
    *,
    name: str,
    nulls: str = "own_value",
    suppression_mark: str = "*",
    undeclared: str | None = None,
    **options: Any,
) -> ExpectationSuite:
    """One expectation per guarantee; all over one count for each set of quasi-identifiers.

    One that only warns is an expectation of severity ``warning``: it fails where the guarantee does not hold, and
    `RaiseOnFailure` does not raise for it.

    Parameters
    ----------
    guarantees : sequence of Guarantee
        Such as ``policy.guarantees``; or as in a policy, ``[{"k_anonymity": {"k": 5}}]``.
    roles : Roles or mapping of columns to roles
    name : str
    nulls, suppression_mark
        As in a policy.
    undeclared : {"refuse", "note"}, optional
        Whether a column of the batch (or a named index level) that `roles` leaves out fails each expectation, or is
        noted; it puts `expect_no_identifiers` first, so that columns have a separate line in the results. Left
        out: ``refuse``, without that line. Identifiers that `roles` name fail each expectation in any case.
    **options
        Further arguments of every expectation that needs them: `original_source`, `align`, `record_id`,
        `population_source`, `hierarchies`, `plan`, `seed`, `person_id`, `household_id`, `empty`, as in
        `PrivacyExpectation`.

    Raises
    ------
    UnsupportedError
        A guarantee that is not an expectation; `privpipe.gx.REFUSED` lists them.
    UsageError
        A setting that no expectation has; an entry without a threshold, or with a table that is given in Python.
    """
    for setting in options:
        if setting not in BESIDE:
            raise UsageError(f"unknown setting {setting!r} of a suite{did_you_mean(setting, BESIDE)}")
    settings = {"nulls": nulls, "suppression_mark": suppression_mark, **options}
    roles, guarantees = read_roles(roles), named_entries(guarantees, "guarantees")
    if guarantees is None or not all(isinstance(each, Guarantee) for each in guarantees):
        raise UsageError("guarantees must be a list of models, as in [KAnonymity(k=5)]")
    shared = sorted({column for guarantee in guarantees for column in guarantee.with_roles(roles).sensitive_columns()})
    settings["undeclared"] = undeclared_rule(undeclared, whole=True)
    if undeclared is not None and not any(guarantee.way.of_columns for guarantee in guarantees):
        guarantees = (NoIdentifiers(), *guarantees)
    named = list(dict.fromkeys((*roles.columns, *named_columns(guarantees))))
    expectations = [_expectation(guarantee, roles, shared, named, settings) for guarantee in guarantees]
    # Passed to the constructor: adding one later requires a data context.
    return ExpectationSuite(name=name, expectations=expectations, meta={"privpipe": {DECLARED: len(expectations)}})


def _require_saveable(guarantee: Guarantee) -> None:
    """Refuse what an expectation, which is saved as JSON and passes or fails, cannot be."""
    if not guarantee.is_gate():
        raise UsageError(
            f"{guarantee.name()} has no threshold, so there is nothing for an expectation to hold or fail; give "
            f"`{guarantee.threshold_field}`, or observe it by pp.observe"
        )
    if isinstance(guarantee.base_distribution(), BaseTable):
        raise UsageError(
            f"{guarantee.name()}: a suite is saved as JSON and holds no table: write the base distribution to a file, "
            "and give base={'file': path}"
        )


def _expectation(
    guarantee: Guarantee, roles: Roles, shared: Sequence[str], named: Sequence[str], settings: Mapping[str, Any]
) -> PrivacyExpectation:
    """The expectation of a guarantee; of the sensitive columns of the suite it counts those that are not its keys."""
    kind = EXPECTATIONS[guarantee.name()]
    _require_saveable(guarantee)
    own = guarantee.quasi_identifiers
    keys = list(roles.quasi_identifiers if own is None else own)
    counted = [column for column in shared if column not in keys]
    said = {*keys, *counted, *roles.unreleased, *roles.insensitive, *roles.carried}
    others = {
        "identifiers": list(roles.unreleased),
        "insensitive": [*roles.insensitive, *roles.carried],
        "declared": [name for name in named if name not in said],
    }
    if not guarantee.binds:
        if "severity" not in kind.__fields__:
            raise UnsupportedError("this Great Expectations knows no severity, so no expectation can only warn")
        settings = {**settings, "severity": "warning"}
    parameters = plain({name: value for name, value in guarantee.parameters().items() if name != "severity"})
    return kind(
        meta={MEANT: meaning_of(type(guarantee), parameters)},
        **{role: columns for role, columns in others.items() if columns},
        **settings,
        **{
            **parameters,
            "quasi_identifiers": keys,
            "sensitive": counted,
        },
    )


@bordered
def save_suite(suite: ExpectationSuite, path: str | PathLike[str]) -> None:
    """Write a suite as JSON, without the ids that a data context gave it.

    The meta of each privacy expectation states its threshold, its meaning, what it protects against, and the source.

    Raises
    ------
    UsageError
        An expectation was given a table since it was made, which would be written with all its records.
    """
    for expectation in suite.expectations:
        if isinstance(expectation, PrivacyExpectation | JointExpectation):
            expectation.require_places()
    document = suite.to_json_dict()
    document.pop("id", None)
    for expectation in document["expectations"]:
        expectation.pop("id", None)
        name = str(expectation["type"]).removeprefix("expect_")
        kind = {**EXPECTATIONS, **JOINT_EXPECTATIONS}.get(name)
        if kind is not None:
            told = meaning_of(kind.entry, expectation["kwargs"])
            expectation["meta"] = {**(expectation.get("meta") or {}), MEANT: told}
    held = sum(is_privacy_type(expectation["type"]) for expectation in document["expectations"])
    document["meta"] = {**(document.get("meta") or {}), "privpipe": {DECLARED: held}}
    Path(path).write_text(json.dumps(document, indent=2, sort_keys=True) + "\n", encoding="utf-8")


@bordered
def load_suite(path: str | PathLike[str]) -> ExpectationSuite:
    """Read a saved suite.

    Raises
    ------
    UsageError
        Not a suite, or one with an expectation that cannot be made, which Great Expectations would pass over.
    UnsupportedError
        It asks for an entry that is not an expectation.
    """
    try:
        document = json.loads(Path(path).read_text(encoding="utf-8"))
        for expectation in document["expectations"]:
            entry = str(expectation["type"]).removeprefix("expect_")
            if entry in REFUSED:
                raise UnsupportedError(f"{entry} is not an expectation: {REFUSED[entry]}")
        suite = ExpectationSuite(
            name=document["name"], expectations=document["expectations"], meta=document.get("meta")
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{str(path)!r} is not a saved suite: {type(error).__name__}") from None
    lost = len(document["expectations"]) - len(suite.expectations)
    if lost:
        raise UsageError(f"{str(path)!r}: {lost} of its expectations cannot be made; make the suite again")
    return suite


def _parameter(name: str) -> dict[str, str]:
    return {"$PARAMETER": name}


_ROLES = {name: _parameter(name) for name in COLUMNS if name != "declared"} | {"undeclared": "refuse"}


@dataclass(frozen=True)
class Template:
    """A suite whose thresholds and columns are parameters.

    Parameters
    ----------
    about : str
        What it asks of a table.
    source : str
        Where its starting values come from.
    defaults : mapping
        Values of parameters that `init` fills in; each of the others must be given to it, or by every run.
    entries : mapping
        By the name of an expectation its parameters other than the roles of columns.
    """

    about: str
    source: str
    defaults: Mapping[str, Any]
    entries: Mapping[str, Mapping[str, Any]]


COLUMN_PARAMETERS: Final = (*COLUMNS, "vouched")
"""Parameters that are lists of columns."""
_NO_OTHERS: Final[Mapping[str, list[str]]] = {"sensitive": [], "identifiers": [], "insensitive": []}
TEMPLATES: Final[Mapping[str, Template]] = {
    "k_anonymity": Template(
        "Every column has a role, no column is an identifier, and each record is one of at least k that are alike.",
        "Samarati, Protecting Respondents' Identities in Microdata Release, IEEE TKDE 13(6), 2001",
        {"k": 5, **_NO_OTHERS},
        {"no_identifiers": {}, "k_anonymity": {"k": _parameter("k")}},
    ),
    "research_file": Template(
        "A file for researchers under contract: k-anonymity, and l values of one sensitive column in each class.",
        "ESSNet handbooks on statistical disclosure control; Machanavajjhala et al., ACM TKDD 1(1), 2007",
        {"k": 5, "l": 2, "identifiers": [], "insensitive": []},
        {
            "no_identifiers": {},
            "k_anonymity": {"k": _parameter("k")},
            "distinct_l_diversity": {"column": _parameter("column"), "l": _parameter("l")},
        },
    ),
    "safe_harbor": Template(
        "Every column has a role, and none looks like one of the 18 kinds of identifiers of HIPAA Safe Harbor.",
        "45 CFR 164.514(b)(2)",
        {"vouched": [], "quasi_identifiers": [], **_NO_OTHERS},
        {"no_identifiers": {}, "safe_harbor": {"vouched": _parameter("vouched")}},
    ),
}
"""Templates by name, in the order of the documentation."""


@bordered
def template(name: str, **parameters: Any) -> ExpectationSuite:
    """A suite made from a template.

    Parameters
    ----------
    name : str
        A key of `TEMPLATES`.
    **parameters
        Values to fill in. What is left out stays a parameter, which each run gives:
        ``checkpoint.run(expectation_parameters={"k": 5, ...})``.

    Raises
    ------
    UsageError
        No such template, or it has no such parameter.

    Examples
    --------
    >>> suite = template("k_anonymity", k=5, quasi_identifiers=["age"])
    >>> [each.expectation_type for each in suite.expectations]
    ['expect_no_identifiers', 'expect_k_anonymity']
    >>> suite.expectations[1].awaited
    ['identifiers', 'insensitive', 'sensitive']
    """
    if name not in TEMPLATES:
        raise UsageError(f"no template ({', '.join(TEMPLATES)}) is called {name!r}{did_you_mean(name, TEMPLATES)}")
    chosen, known, made = TEMPLATES[name], set(), []
    for entry, own in chosen.entries.items():
        kwargs = {**own, **({} if entry == "safe_harbor" else _ROLES)}
        known |= {value["$PARAMETER"] for value in kwargs.values() if is_suite_parameter(value)}
        kwargs = {
            key: parameters.get(value["$PARAMETER"], value) if is_suite_parameter(value) else value
            for key, value in kwargs.items()
        }
        if entry == "safe_harbor":
            made.append(ExpectSafeHarbor(**kwargs))
        else:
            kind = EXPECTATIONS[entry]
            made.append(kind(meta={MEANT: meaning_of(kind.entry, plain(kwargs))}, **kwargs))
    for parameter in sorted(set(parameters) - known):
        raise UsageError(
            f"template {name!r} has no parameter {parameter!r}{did_you_mean(parameter, known)}; it has "
            f"{', '.join(sorted(known))}"
        )
    meta = {"privpipe": {DECLARED: len(made)}, "about": chosen.about, "source": chosen.source}
    return ExpectationSuite(name=name, expectations=made, meta=meta)


@bordered
def suites_of(
    policy: Policy, tables: Mapping[str, Any] | None = None, *, name: str | None = None, **options: Any
) -> dict[str, ExpectationSuite]:
    """One suite for each of the related tables of a policy; together they ask what `validate` asks of finished tables.

    The suite of the table whose rows are persons holds the joint guarantees too. Their expectations read the other
    tables, whole, from the places given here, so that a checkpoint with a validation for each table judges the
    tables alone and together.

    Parameters
    ----------
    policy : Policy
    tables : mapping of str to BatchDefinition or place, optional
        For each table but the persons', the batch definition of its validation; or a path, a mapping with the keys of
        `source:` in a policy, or ``{"handle": name}`` of `privpipe.gx.hold`. Left out: the folder of the policy's sink.
    name : str, optional
        Suites are called by it and the table, as in ``clinic.visits``. Default: the name of the policy.
    **options
        As of `suite_of`, for every table.

    Raises
    ------
    UsageError
        The policy is about one table; a place is missing, or given for a table that is not there.
    UnsupportedError
        A guarantee of a table is not an expectation, or missing values are judged as no expectation judges them.
    """
    related = policy.related
    if related is None:
        raise UsageError(f"policy {policy.name!r} is about one table: use `suite_of`, or `init`")
    if policy.nulls not in ("own_value", "refuse"):
        raise UnsupportedError(
            f"an expectation judges with `nulls: own_value` or `refuse`, the policy with {policy.nulls}"
        )
    places = _places(policy, related, tables or {})
    return {
        table: _suite(related, table, f"{name or policy.name}.{table}", places, options) for table in related.tables
    }


def _suite(
    related: RelatedRelease, table: str, name: str, places: Mapping[str, Any], options: Mapping[str, Any]
) -> ExpectationSuite:
    own = related.finished(table)
    for each in own.guarantees:
        if each.name() in REFUSED:
            raise UnsupportedError(f"table {table!r}: {each.name()} is not an expectation: {REFUSED[each.name()]}")
    persons = {key: getattr(own, key) for key in ("person_id", "household_id") if getattr(own, key)}
    alone = suite_of(
        own.guarantees,
        own.released_roles,
        name=name,
        nulls=own.nulls,
        suppression_mark=own.suppression_mark,
        undeclared=own.undeclared,
        **{**persons, **options},
    )
    if table != related.tree.root:
        return alone
    joint = [_joint(related, each, places) for each in related.guarantees]
    # Passed to the constructor: adding one later requires a data context.
    made = [*alone.expectations, *joint]
    return ExpectationSuite(name=name, expectations=made, meta={"privpipe": {DECLARED: len(made)}})


def _joint(related: RelatedRelease, guarantee: JointGuarantee, places: Mapping[str, Any]) -> JointExpectation:
    kind, tree = JOINT_EXPECTATIONS[guarantee.name()], related.tree
    settings: dict[str, Any] = {}
    if not guarantee.binds:
        if "severity" not in kind.__fields__:
            raise UnsupportedError("this Great Expectations knows no severity, so no expectation can only warn")
        settings["severity"] = "warning"
    parameters = plain({key: value for key, value in guarantee.parameters().items() if key != "severity"})
    return kind(
        meta={MEANT: meaning_of(type(guarantee), parameters)},
        root=tree.root,
        tables=dict(places),
        relations=[{"from": _from(each.table, each.columns), "to": each.to} for each in tree.relations],
        keys={table: list(columns.key) for table, columns in tree.tables.items() if columns.key},
        quasi_identifiers={
            table: list(related.finished(table).released_roles.quasi_identifiers) for table in tree.tables
        },
        orphans=related.orphans,
        **settings,
        **parameters,
    )


def _from(table: str, columns: tuple[str, ...]) -> str:
    """The start of a relation as a policy writes it.

    Examples
    --------
    >>> _from("visits", ("patient",)), _from("visits", ("hospital", "patient"))
    ('visits.patient', 'visits.[hospital, patient]')
    """
    return f"{table}.{columns[0]}" if len(columns) == 1 else f"{table}.[{', '.join(columns)}]"


def _places(policy: Policy, related: RelatedRelease, given: Mapping[str, Any]) -> dict[str, Any]:
    for table in given:
        if table not in related.tables:
            raise UsageError(f"tables: there is no table {table!r}{did_you_mean(str(table), related.tables)}")
    sink, found = policy.sink, {}
    for table in related.tree.children:
        if table in given:
            found[table] = place_of(given[table])
        elif sink is not None and sink.is_folder:
            folder = sink.target(policy.base_dir)
            found[table] = {"path": f"{folder}/{table}", "format": sink.file_format}
        else:
            raise UsageError(
                f"tables: {table!r} is missing; give its batch definition or its path: the policy publishes no folder"
            )
    return found


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

    Creates the project if there is none, and protects it (`protect`).

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
