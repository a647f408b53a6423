"""The memory limit is the process's: by default three quarters of what container or machine offer."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from privpipe.engines.embedded import EmbeddedEngine
from privpipe.engines.embedded import session as memory_module
from privpipe.engines.embedded.session import database_share, offered_memory

GIGABYTE = 1 << 30


def laid(root: Path, **files: str) -> Path:
    for name, text in files.items():
        path = root / name.replace("__", "/").replace("_DOT_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_the_least_limit_of_all_groups_counts(tmp_path: Path) -> None:
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert offered_memory(tmp_path) == machine
    second = laid(
        tmp_path / "second",
        proc__self__cgroup="0::/pods/job\n",
        sys__fs__cgroup__pods__job__memory_DOT_max="max\n",
        sys__fs__cgroup__pods__memory_DOT_max=f"{GIGABYTE}\n",
    )
    assert offered_memory(second) == GIGABYTE
    first = laid(
        tmp_path / "first",
        proc__self__cgroup="5:cpu,cpuacct:/a\n4:memory:/a\n",
        sys__fs__cgroup__memory__a__memory_DOT_limit_in_bytes=f"{GIGABYTE // 2}\n",
        sys__fs__cgroup__memory__memory_DOT_limit_in_bytes="9223372036854771712\n",
    )
    assert offered_memory(first) == GIGABYTE // 2


def test_the_database_gets_what_the_process_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    def given(engine: Any) -> int:
        amount, unit = engine.session.value("SELECT current_setting('memory_limit')").split()
        return int(float(amount) * {"MiB": 2**20, "GiB": 2**30}[unit])

    with EmbeddedEngine.open({"memory_limit": "4GiB"}) as engine:
        assert engine.resources.memory == 4 * GIGABYTE
        assert given(engine) == pytest.approx(database_share(4 * GIGABYTE, GIGABYTE // 2), rel=0.02)
    with EmbeddedEngine.open({"memory_limit": "4GiB"}) as engine:  # the database opens later this time
        assert given(engine) < 3.5 * GIGABYTE
    monkeypatch.setattr("privpipe.engines.embedded.session._LIMITS", {})
    monkeypatch.setattr("privpipe.engines.embedded.session.offered_memory", lambda: 8 * GIGABYTE)
    with EmbeddedEngine.open({}) as engine:
        assert engine.resources.memory == pytest.approx(6 * GIGABYTE, rel=0.02)
    assert memory_module.OWN_BYTES < GIGABYTE
