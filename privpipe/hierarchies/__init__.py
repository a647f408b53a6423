"""Value generalization hierarchies: what each raw value of a column becomes, level by level.

Declared in a policy (`HierarchySpec`) by a file or a builder, made into a checked, immutable `Hierarchy`. Values
meet in `canonical_text`, the one text form that files, builders and engines share.
"""

from __future__ import annotations

from privpipe.hierarchies.canonical import COLUMN_TYPES, canonical_literal, canonical_text
from privpipe.hierarchies.hierarchy import Hierarchy
from privpipe.hierarchies.options import Options
from privpipe.hierarchies.spec import BUILDERS, OPTION_KEYS, HierarchySpec, builders

__all__ = [
    "BUILDERS",
    "COLUMN_TYPES",
    "OPTION_KEYS",
    "Hierarchy",
    "HierarchySpec",
    "Options",
    "builders",
    "canonical_literal",
    "canonical_text",
]
