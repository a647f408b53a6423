"""A hierarchy as tables of a page: levels, counts and digest, no raw value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from privpipe.html_tables import Table, html_tables, short_list

__all__ = ["hierarchy_page"]

DIGEST_SIGNS = 12
FEW = 8


def hierarchy_page(described: Mapping[str, Any], told: Sequence[Sequence[str]]) -> str:
    """The page.

    Parameters
    ----------
    described : mapping
        Of `Hierarchy.describe`.
    told : sequence of sequence of str
        Labels of each level that may be shown.

    Examples
    --------
    >>> from privpipe.hierarchies import Hierarchy
    >>> page = Hierarchy.from_tree({"Europe": ["Paris"], "Asia": ["Tokyo"]})._repr_html_()
    >>> "Europe" in page, "Paris" in page
    (True, False)
    """
    rows = [
        (level["level"], level["name"], level["labels"], short_list(labels, FEW))
        for level, labels in zip(described["levels"], told, strict=True)
    ]
    column = described["column"]
    about = [
        ("made of", described["source"]),
        ("levels in use", f"{described['min_level']} to {described['max_level']}"),
        ("size of the domain", described["domain_size"]),
        ("values outside", described["unknown"]),
        ("values outside, found", described["unknown_values"] or None),
        ("leaf of nulls", "yes" if described["nulls"] else "no"),
        ("depends on the data", "yes" if described["data_dependent"] else "no"),
        ("digest", described["digest"][:DIGEST_SIGNS]),
    ]
    return html_tables(
        f"Hierarchy of {column}" if column else "Hierarchy",
        Table(head=("level", "name", "labels", "such as"), rows=rows),
        Table(rows=[row for row in about if row[1] is not None]),
        notes=[f"warning: {each}" for each in described["warnings"]],
    )
