"""The policy document: read, checked and frozen before anything runs."""

from __future__ import annotations

from typing import Any

from privpipe.policy.document import Policy
from privpipe.policy.secret import SecretSpec
from privpipe.policy.specs import ColumnSpec, SinkSpec, SourceSpec

__all__ = ["ColumnSpec", "Policy", "SecretSpec", "SinkSpec", "SourceSpec", "json_schema"]


def json_schema(catalogues: Any = None) -> dict[str, Any]:
    """See `privpipe.policy.schema.json_schema`, which reads every catalogue."""
    from privpipe.policy import schema

    return schema.json_schema(catalogues)
