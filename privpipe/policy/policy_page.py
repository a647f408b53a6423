"""A policy as tables of a notebook."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from privpipe.blocks import Entry
from privpipe.blocks.public_edition import shown_parameters
from privpipe.blocks.verdict import plain
from privpipe.hierarchies import HierarchySpec
from privpipe.hierarchies.spec import CLASSES
from privpipe.html_tables import Table, html_tables
from privpipe.policy.specs import ColumnSpec

__all__ = ["policy_page"]


def policy_page(
    name: str,
    columns: Mapping[str, ColumnSpec],
    stages: Sequence[Entry],
    entries: tuple[Sequence[Entry], Sequence[Entry]],
    about: Mapping[str, str | None],
) -> str:
    """The page of a policy.

    Parameters
    ----------
    name : str
    columns : mapping of column to ColumnSpec
    stages : sequence of Transformer
    entries : guarantees, measures
    about : mapping
        Rows of the last table; those without a value are left out.

    Examples
    --------
    >>> from privpipe.models import KAnonymity
    >>> page = policy_page("<visits>", {"zip": ColumnSpec(role="sensitive")}, [], ([KAnonymity(k=5)], []), {})
    >>> "&lt;visits&gt;" in page, "<td>k: 5</td>" in page
    (True, True)
    """
    roles = [
        (column, spec.role, spec.type or "-", "-" if spec.hierarchy is None else _builder(spec.hierarchy))
        for column, spec in columns.items()
    ]
    guarantees, measures = entries
    return html_tables(
        f"Policy {name}",
        Table(head=("column", "role", "type", "hierarchy"), rows=roles),
        Table(head=("stage", "parameters"), rows=_rows(stages)),
        Table(head=("guarantee", "parameters"), rows=_rows(guarantees)),
        Table(head=("measure", "parameters"), rows=_rows(measures)),
        Table(rows=[(title, value) for title, value in about.items() if value is not None]),
    )


def _rows(entries: Sequence[Entry]) -> list[tuple[Any, ...]]:
    return [(entry.name(), shown_parameters(type(entry), plain(entry.parameters()))) for entry in entries]


def _builder(spec: HierarchySpec) -> str:
    kind = type(spec.builder)
    return next((name for name, known in CLASSES.items() if known is kind), kind.__name__)
