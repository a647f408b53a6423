"""No identifier among the released columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Self

from typing_extensions import Doc

from privpipe.blocks import Verdict
from privpipe.blocks.guarantee import ColumnRule
from privpipe.blocks.marks import KeyColumns, OwnColumns
from privpipe.errors import UsageError
from privpipe.roles import Roles

__all__ = ["NoIdentifiers"]


@dataclass(frozen=True, kw_only=True, repr=False)
class NoIdentifiers(ColumnRule):
    """No column of the table is an identifier, or one to be dropped; observed = number of such columns.

    Every table is judged by it, whether or not a policy lists it.

    Parameters
    ----------
    columns : tuple of str, optional
        Columns that must not be there in addition to those whose role is `identifier` or `drop`.
    quasi_identifiers : tuple of str, optional
        Not used: only the names of columns are checked.

    Notes
    -----
    What a `pseudonymise` stage of the policy releases is no longer an identifier. A guarantee over
    quasi-identifiers shows nothing about a row that carries a name.

    Examples
    --------
    >>> verdict = NoIdentifiers().judge_columns(["name", "zip"], Roles(identifiers=["name"]))
    >>> verdict.outcome, verdict.observed, verdict.reason
    ('fail', 1, "1 column is an identifier: 'name'; take it out, or pseudonymise it.")
    """

    source = "45 CFR 164.514(b)(2), where direct identifiers are removed before any other requirement"
    threat = "An intruder reads the name, or any other direct identifier, off the row."
    formula = "number of columns with the role identifier or drop = 0"
    choose = "Built in: nothing to choose. Released identifiers go through `pseudonymise`."

    columns: Annotated[OwnColumns, Doc("columns that must not be there either, whatever their role")] = None

    quasi_identifiers: Annotated[KeyColumns, Doc("not used: names of columns are looked at, no classes")] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        names = self.columns
        if names is None:
            return
        if isinstance(names, str) or not all(isinstance(name, str) and name for name in names):
            raise UsageError("NoIdentifiers: columns must be a list of column names")
        object.__setattr__(self, "columns", tuple(dict.fromkeys(names)))

    def judge_columns(self, present: Sequence[str], roles: Roles) -> Verdict:
        """The verdict over a table with these columns."""
        named = {*roles.unreleased, *(self.columns or ())}
        found = [name for name in present if name in named]
        if not found:
            return Verdict(self, 0, "pass", 0, reason="no column is an identifier.")
        shown = ", ".join(map(repr, found))
        are, them = ("column is an identifier", "it") if len(found) == 1 else ("columns are identifiers", "them")
        reason = f"{len(found)} {are}: {shown}; take {them} out, or pseudonymise {them}."
        if any(name in roles.dropped for name in found):
            are = "column is" if len(found) == 1 else "columns are"
            reason = f"{len(found)} {are} to be dropped, or an identifier: {shown}; take {them} out."
        return Verdict(self, len(found), "fail", 0, reason=reason)

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(), cls(columns=("name",))]
