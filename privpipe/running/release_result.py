"""What a release run gives back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from privpipe.html_tables import Table, cut, html_tables
from privpipe.judging import Assessment
from privpipe.running.plan import Plan

__all__ = ["ReleaseResult"]


@dataclass(frozen=True, kw_only=True, repr=False)
class ReleaseResult:
    """A published release.

    Parameters
    ----------
    path : str
        Where it is read.
    run_id : str
    assessment : Assessment
        Of the published files.
    plan : Plan
    manifest : mapping
        The whole manifest, as the private record holds it.
    record : str
        Folder of the private record.
    public : mapping of str to mapping
        The public documents by name, as published: verdict, manifest, plan.
    target : str
        What it is published to: a path, a URL, a table.
    quarantine : str
        Folder of the records that were left out, where the policy has `failing:`; nothing where none was.
    quarantined : int
        Their number.
    published : bool
        False after a dry run, and where the source had no records (`nothing_to_publish`): there is no path and no
        record, and `target` is where it would have gone.
    repeated : bool
        The batch was published before, by the run `run_id`: nothing was judged, so `assessment` has no verdict, and
        plan and manifest are empty.
    unfinished : tuple of str
        What could not be done once the release was published, each with what is to be done about it. The release
        stands; the private record has the same lines in `afterwards.txt`.
    """

    path: str
    run_id: str
    assessment: Assessment
    plan: Plan
    manifest: Mapping[str, Any]
    record: str = ""
    public: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, repr=False)
    target: str = ""
    quarantine: str = ""
    quarantined: int = 0
    published: bool = True
    repeated: bool = False
    unfinished: tuple[str, ...] = ()

    @property
    def nothing_to_publish(self) -> bool:
        """Whether the source had no records, which the policy's `empty: pass` allows."""
        return not self.published and not self.manifest["output"]["files"]

    @property
    def verdict_document(self) -> dict[str, Any]:
        """The whole verdict document, as the private record holds it."""
        return self.assessment.to_dict()

    def to_dict(self) -> dict[str, Any]:
        """The document of the run for machines: the whole verdict, with where the release is, or would be."""
        if self.repeated:
            return {"run_id": self.run_id, "published": False, "already_published": True, "target": self.target}
        output = self.manifest["output"]
        return {
            **self.verdict_document,
            "published": self.published,
            "target": self.target,
            "columns": list(output["columns"]),
            "files": [{"name": file["name"], "bytes": file["bytes"]} for file in output["files"]],
        }

    def __repr__(self) -> str:
        judged = self.assessment
        if self.repeated:
            return f"ReleaseResult({cut(self.run_id, 40)}, published before, at {cut(self.target, 90)!r})"
        where = f"at {cut(self.path, 90)!r}" if self.published else f"not published, meant for {cut(self.target, 90)!r}"
        return f"ReleaseResult({cut(self.run_id, 40)}, {judged.records:,} records {where})"

    def _repr_html_(self) -> str:
        if self.repeated:
            return html_tables("Published before", Table(rows=[("path", cut(self.target)), ("run", self.run_id)]))
        about = [("path", cut(self.path)), ("run", self.run_id), ("plan", repr(self.plan))]
        return html_tables("Published", Table(rows=about)) + self.assessment._repr_html_()
