"""Suites of privacy expectations: from guarantees or templates, saved as JSON and loaded in a fresh process."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Final

from great_expectations.core.expectation_suite import ExpectationSuite
from great_expectations.core.suite_parameters import is_suite_parameter

from privpipe.blocks import Guarantee
from privpipe.blocks.verdict import plain
from privpipe.border import bordered
from privpipe.errors import UnsupportedError, UsageError, did_you_mean
from privpipe.gx.action import DECLARED, is_privacy_type
from privpipe.gx.expectations import COLUMNS, EXPECTATIONS, REFUSED, ExpectSafeHarbor, PrivacyExpectation
from privpipe.gx.joint_expectations import JOINT_EXPECTATIONS, JointExpectation
from privpipe.gx.rendering import MEANT, meaning_of
from privpipe.judging.rules import named_columns, undeclared_rule
from privpipe.models.identity.no_identifiers import NoIdentifiers
from privpipe.policy.catalogues import named_entries
from privpipe.roles import Roles, read_roles

__all__ = ["COLUMN_PARAMETERS", "TEMPLATES", "load_suite", "save_suite", "suite_of", "template"]


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
    **beside: Any,
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
    **beside
        Further arguments of every expectation that needs them: `original_source`, `align`, `record_id`,
        `population_source`, `hierarchies`, `plan`, `seed`, `person_id`, `household_id`, `empty`, as in
        `PrivacyExpectation`.

    Raises
    ------
    UnsupportedError
        A guarantee that is not an expectation; `privpipe.gx.REFUSED` lists them.
    UsageError
        A setting that no expectation has.
    """
    for setting in beside:
        if setting not in BESIDE:
            raise UsageError(f"unknown setting {setting!r} of a suite{did_you_mean(setting, BESIDE)}")
    settings = {"nulls": nulls, "suppression_mark": suppression_mark, **beside}
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


def _expectation(
    guarantee: Guarantee, roles: Roles, shared: Sequence[str], named: Sequence[str], settings: Mapping[str, Any]
) -> PrivacyExpectation:
    """The expectation of a guarantee; of the sensitive columns of the suite it counts those that are not its keys."""
    kind = EXPECTATIONS[guarantee.name()]
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

    The meta of each privacy expectation says its threshold, what that means, against what it guards, and the source.

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
                raise UnsupportedError(f"{entry} is no expectation: {REFUSED[entry]}")
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
