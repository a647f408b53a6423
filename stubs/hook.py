"""What hatchling does before it packs: it writes the stubs, and adds compiled kernels to a wheel for one platform."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class BuildHook(BuildHookInterface[Any]):
    """Runs ``python -m stubs``, in a process where stand-ins for libraries do no harm.

    ``PRIVPIPE_WHEEL_KERNELS`` names a folder of ``privpipe warm`` whose code goes into a wheel for this platform.
    """

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the stubs next to the modules, also for an editable installation; add compiled kernels where named."""
        subprocess.run([sys.executable, "-m", "stubs"], cwd=self.root, check=True)
        kernels = os.environ.get("PRIVPIPE_WHEEL_KERNELS")
        if kernels and self.target_name == "wheel" and version == "standard":
            if not list(Path(kernels).glob("*/*.nbc")):
                raise SystemExit(f"{kernels} has no compiled kernels: run `privpipe warm {kernels}` first")
            # Code of no processor in particular calls no function of the system, so it asks for no version of glibc.
            platform = re.sub("[-.]", "_", sysconfig.get_platform()).replace("linux_", "manylinux_2_17_", 1)
            build_data["force_include"][str(Path(kernels).absolute())] = "privpipe/machine_code"
            build_data["pure_python"] = False
            python = f"cp{sys.version_info.major}{sys.version_info.minor}"
            build_data["tag"] = f"{python}-{python}-{platform}"
