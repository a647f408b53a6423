"""The policy document: read, checked and frozen before anything runs."""

from __future__ import annotations

from privpipe.release.policy.document import Policy
from privpipe.release.policy.schema import json_schema
from privpipe.release.policy.secret import SecretSpec
from privpipe.release.policy.specs import ColumnSpec, SinkSpec, SourceSpec

__all__ = ["ColumnSpec", "Policy", "SecretSpec", "SinkSpec", "SourceSpec", "json_schema"]
