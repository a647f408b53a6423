"""A release between its verdict and its publication."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from privpipe.engines import Written
from privpipe.judging import Assessment
from privpipe.running.release_result import ReleaseResult
from privpipe.running.run_report import RunReport
from privpipe.running.staging import Staged
from privpipe.sinks.target import Target

__all__ = ["Ready"]


@dataclass(frozen=True)
class Ready:
    """A release that was judged and has not been published; `folder` holds its staged files and public documents."""

    staged: Staged
    judged: Assessment
    written: Written
    private: Mapping[str, Mapping[str, Any]]
    public: Mapping[str, Mapping[str, Any]]
    report: RunReport
    folder: Path

    def result(self, place: Target) -> ReleaseResult:
        """What is told of it."""
        return ReleaseResult(
            path="",
            run_id=str(self.judged.run["run_id"]),
            assessment=self.judged,
            plan=self.staged.plan,
            manifest=self.private["manifest"],
            public=self.public,
            target=place.name,
        )
