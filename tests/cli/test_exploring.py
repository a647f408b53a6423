"""`privpipe plan --explore` lists what less risk costs in loss."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def test_explore_lists_the_front_of_loss_and_risk(run: Any, place: Path) -> None:
    done = run("plan", place / "release.yaml", "--explore")
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    (head,) = [at for at, line in enumerate(lines) if line.startswith("generalize: loss against risk")]
    rows = [line.split() for line in lines[head + 2 :]]
    losses, risks = [float(row[0]) for row in rows], [float(row[1]) for row in rows]
    assert len(rows) > 1
    assert losses == sorted(losses)
    assert risks == sorted(risks, reverse=True)
    detail = json.loads(run("plan", place / "release.yaml", "--json", "--explore").stdout)["stages"][0]["detail"]
    assert rows[0][-3:] == f"{detail['levels']['age']}, zip {detail['levels']['zip']}".split()
    assert not any(value in done.stdout for value in ("asthma", "8033"))
