"""Tables of several holders added up by shares: no holder's cells leave it, and one joint table is published."""

from __future__ import annotations

from privpipe.sharing.holder_steps import Budget, add_up, split
from privpipe.sharing.joint_table import joint_policy
from privpipe.sharing.run_document import RunDocument
from privpipe.sharing.sealed_files import SealingKey

__all__ = ["Budget", "RunDocument", "SealingKey", "add_up", "joint_policy", "split"]
