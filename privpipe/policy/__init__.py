"""The policy document: read, checked and frozen before anything runs."""

from __future__ import annotations

from privpipe.policy.document import Policy
from privpipe.policy.schema import json_schema
from privpipe.policy.secret import SecretSpec
from privpipe.policy.specs import ColumnSpec, SinkSpec, SourceSpec

__all__ = ["ColumnSpec", "Policy", "SecretSpec", "SinkSpec", "SourceSpec", "json_schema"]
