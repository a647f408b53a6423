"""Tables of several holders added up by shares: no holder's cells leave it, and one joint table is published."""

from __future__ import annotations

from privpipe.sharing.holder_steps import Budget, Participant
from privpipe.sharing.joint_table import joint_policy
from privpipe.sharing.run_document import RunDocument
from privpipe.sharing.sealed_files import SealingKey

__all__ = ["Budget", "Participant", "RunDocument", "SealingKey", "joint_policy"]
