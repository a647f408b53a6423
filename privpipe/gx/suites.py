"""Suites from policies, saved as JSON and loaded in a fresh process."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from great_expectations.core.expectation_suite import ExpectationSuite

from privpipe.blocks import Guarantee
from privpipe.blocks.verdict import plain
from privpipe.border import bordered
from privpipe.errors import UnsupportedError, UsageError, did_you_mean
from privpipe.gx.action import DECLARED, is_privacy_type
from privpipe.gx.expectations import EXPECTATIONS, REFUSED, PrivacyExpectation
from privpipe.gx.meaning import MEANT, meaning_of
from privpipe.judging.gate import named_columns, undeclared_rule
from privpipe.models.identity.no_identifiers import NoIdentifiers
from privpipe.roles import Roles

__all__ = ["load_suite", "save_suite", "suite_of"]


BESIDE = (
    *("original_source", "align", "record_id", "population_source", "hierarchies", "plan", "seed"),
    *("person_id", "household_id", "empty"),
)


@bordered
def suite_of(
    guarantees: Any,
    roles: Roles,
    *,
    name: str,
    nulls: str = "own_value",
    suppression_mark: str = "*",
    undeclared: str | None = None,
    **beside: Any,
) -> ExpectationSuite:
    """One expectation a guarantee; all over one count for each set of quasi-identifiers.

    One that only warns is an expectation of severity ``warning``: it fails where the guarantee does not hold, and
    `RaiseOnFailure` does not raise for it.

    Parameters
    ----------
    guarantees : sequence of Guarantee
        Such as ``policy.guarantees``.
    roles : Roles
    name : str
    nulls, suppression_mark
        As in a policy.
    undeclared : {"refuse", "note"}, optional
        Whether a column of the batch (or a named index level) that `roles` leaves out fails each expectation, or is
        noted; it puts `expect_no_identifiers` first, so that columns have a line of their own among the results. Left
        out: ``refuse``, without that line. Identifiers that `roles` name fail each expectation in any case.
    **beside
        Further arguments of every expectation that needs them: `original_source`, `align`, `record_id`,
        `population_source`, `hierarchies`, `plan`, `seed`, `person_id`, `household_id`, `empty`, as in
        `PrivacyExpectation`.

    Raises
    ------
    UnsupportedError
        A guarantee that is no expectation; `privpipe.gx.REFUSED` lists them.
    UsageError
        A setting that no expectation has.
    """
    for setting in beside:
        if setting not in BESIDE:
            raise UsageError(f"unknown setting {setting!r} of a suite{did_you_mean(setting, BESIDE)}")
    settings = {"nulls": nulls, "suppression_mark": suppression_mark, **beside}
    shared = sorted({column for guarantee in guarantees for column in guarantee.with_roles(roles).sensitive_columns()})
    settings["undeclared"] = undeclared_rule(undeclared, whole=True)
    if undeclared is not None and not any(guarantee.way.of_columns for guarantee in guarantees):
        guarantees = (NoIdentifiers(), *guarantees)
    named = list(dict.fromkeys((*roles.columns, *named_columns(guarantees))))
    expectations = [_expectation(guarantee, roles, shared, named, settings) for guarantee in guarantees]
    # Handed over at birth: adding one later asks for a data context.
    return ExpectationSuite(name=name, expectations=expectations, meta={"privpipe": {DECLARED: len(expectations)}})


def _expectation(
    guarantee: Guarantee, roles: Roles, shared: Sequence[str], named: Sequence[str], settings: Mapping[str, Any]
) -> PrivacyExpectation:
    """The expectation of a guarantee; of the sensitive columns of the suite it counts those that are no keys of its."""
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
        if isinstance(expectation, PrivacyExpectation):
            expectation.require_places()
    document = suite.to_json_dict()
    document.pop("id", None)
    for expectation in document["expectations"]:
        expectation.pop("id", None)
        name = str(expectation["type"]).removeprefix("expect_")
        if is_privacy_type(expectation["type"]) and name in EXPECTATIONS:
            told = meaning_of(EXPECTATIONS[name].entry, expectation["kwargs"])
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
        It asks for an entry that is no expectation.
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
        raise UsageError(f"{str(path)!r}: {lost} of its expectations cannot be made; make the suite anew")
    return suite
