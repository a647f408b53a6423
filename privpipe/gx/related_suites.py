"""Suites of a policy about related tables: one per table, and the joint guarantees in that of the persons' table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from great_expectations.core.expectation_suite import ExpectationSuite

from privpipe.blocks.verdict import plain
from privpipe.border import bordered
from privpipe.errors import UnsupportedError, UsageError, did_you_mean
from privpipe.gx.action import DECLARED
from privpipe.gx.expectations import REFUSED
from privpipe.gx.joint_expectations import JOINT_EXPECTATIONS, JointExpectation, place_of
from privpipe.gx.rendering import MEANT, meaning_of
from privpipe.gx.suites import suite_of
from privpipe.policy import Policy
from privpipe.policy.related import RelatedRelease
from privpipe.relations.guarantees import JointGuarantee

__all__ = ["suites_of"]


@bordered
def suites_of(
    policy: Policy, tables: Mapping[str, Any] | None = None, *, name: str | None = None, **beside: Any
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
    **beside
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
    return {table: _suite(related, table, f"{name or policy.name}.{table}", places, beside) for table in related.tables}


def _suite(
    related: RelatedRelease, table: str, name: str, places: Mapping[str, Any], beside: Mapping[str, Any]
) -> ExpectationSuite:
    own = related.finished(table)
    for each in own.guarantees:
        if each.name() in REFUSED:
            raise UnsupportedError(f"table {table!r}: {each.name()} is no expectation: {REFUSED[each.name()]}")
    persons = {key: getattr(own, key) for key in ("person_id", "household_id") if getattr(own, key)}
    alone = suite_of(
        own.guarantees,
        own.released_roles,
        name=name,
        nulls=own.nulls,
        suppression_mark=own.suppression_mark,
        undeclared=own.undeclared,
        **{**persons, **beside},
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
