"""``python driver.py FOLDER ENGINE URL PHASE ...``: what an engine does on a cluster, in one session, as JSON."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

sys.path.insert(0, str(Path(__file__).parent))

from deadly import KINDS, dies_once
from every_entry import judged_alike, small_settings, staged_alike
from released import policy_of, release_on, write_people

from privpipe.engines import Engine, open_engine
from privpipe.engines.base import part_files

FEW_STAGES = ("generalize", "pseudonymise")
"""Labels, and a key that only the driver's environment has."""
FEW_KINDS = ("exchange", "write")
RECORDS, FILES = 24_000, 6


def options_of(engine: str, url: str) -> dict[str, Any]:
    if engine == "dask":
        return {"address": url, "driver_bytes": 0}
    conf = {
        "spark.executor.memory": "600m",
        "spark.driver.memory": "1g",
        "spark.scheduler.minRegisteredResourcesRatio": 1.0,
        "spark.task.maxFailures": 8,
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
    return {"master": url, "driver_bytes": 0, "conf": conf}


class Phases:
    """What can be asked for, by name."""

    def __init__(self, engine: Engine, folder: Path) -> None:
        self.engine, self.folder = engine, folder
        write_people(folder / "people", RECORDS, FILES)

    def processes(self) -> Any:
        return self.engine.resources.processes

    def judged(self) -> Any:
        return list(self._beside(judged_alike, small_settings()))

    def staged(self) -> Any:
        return list(self._beside(staged_alike))

    def few_staged(self) -> Any:
        return list(self._beside(staged_alike, FEW_STAGES))

    def few_killed(self) -> Any:
        return self.killed(FEW_KINDS)

    def killed(self, kinds: Sequence[str] = KINDS) -> Any:
        """The same release again and again, a worker killed in each kind of stage; the first is left alone."""
        policy, found = policy_of(self.folder / "people"), {}
        for kind in ("none", *kinds):
            marker, began = self.folder / f"died-{kind}", time.monotonic()
            with self._small_parts():
                if kind == "none":
                    found[kind] = release_on(self.engine, policy, self.folder / f"killed-{kind}")
                else:
                    with dies_once(self.engine.name, kind, marker):
                        found[kind] = release_on(self.engine, policy, self.folder / f"killed-{kind}")
            found[kind] |= {"died": marker.exists(), "seconds": round(time.monotonic() - began, 1)}
            found[kind]["left"] = sorted(path.name for path in self.folder.glob(f"killed-{kind}/*") if path.is_dir())
        return found

    def _beside(self, ask: Callable[..., Any], *given: Any) -> Any:
        place = self.folder / ask.__name__
        place.mkdir()
        with open_engine("embedded") as embedded:
            yield from ask(self.engine, embedded, place, *given)

    def _small_parts(self) -> Any:
        """Part files of few records, so that workers write them."""
        return mock.patch.object(part_files, "ROWS_PER_FILE", 8_000)


def main(folder: str, engine: str, url: str, *phases: str) -> None:
    place = Path(folder)
    with open_engine(engine, options_of(engine, url)) as opened:
        asked = Phases(opened, place)
        found: dict[str, Any] = {}
        for phase in phases:
            began = time.monotonic()
            found[phase] = getattr(asked, phase)()
            print(f"{phase}: {time.monotonic() - began:.1f} s", file=sys.stderr, flush=True)
            (place / "found.json").write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
