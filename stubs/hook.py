"""The step of hatchling that writes the stubs before anything is packed."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class StubsHook(BuildHookInterface[Any]):
    """Runs ``python -m stubs``, in a process where stand-ins for libraries do no harm."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the stubs next to the modules, also for an editable installation."""
        subprocess.run([sys.executable, "-m", "stubs"], cwd=self.root, check=True)
