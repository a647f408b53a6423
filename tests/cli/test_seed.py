"""`privpipe seed`: strong, private, and never over another."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

from privpipe.draws import Seed
from privpipe.policy.secret import SecretSpec


def test_each_seed_is_fresh_and_strong(run: Any) -> None:
    one, other = (run("seed").stdout for _ in range(2))
    assert one != other
    assert len(one.strip()) == 64
    assert Seed.of(one.strip()) != Seed.of(other.strip())


def test_a_file_is_for_its_owner_and_is_not_overwritten(run: Any, tmp_path: Path) -> None:
    out = tmp_path / "seed"
    done = run("seed", "--out", out)
    assert done.exit_code == 0
    text = out.read_text()
    assert text.strip() not in done.output
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    assert SecretSpec(from_file="seed", base_dir=tmp_path).resolve() == Seed.of(text.strip())
    again = run("seed", "--out", out)
    assert again.exit_code == 2
    assert "not overwritten" in again.stderr
    assert out.read_text() == text
    assert run("seed", "--out", tmp_path / "none" / "seed").exit_code == 4
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    assert run("seed", "--out", tmp_path / "link").exit_code == 2
    assert not (tmp_path / "elsewhere").exists()
