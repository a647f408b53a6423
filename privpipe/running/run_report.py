"""The report of a run: figures gathered while it has the tables, and the pages of both editions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

from privpipe.reporting.officer.page import report_page
from privpipe.reporting.officer.report_data import ReportData
from privpipe.reporting.run_documents import RunDocuments
from privpipe.running.report_figures import earlier_run, report_figures
from privpipe.sinks.records import document_text

if TYPE_CHECKING:
    from privpipe.judging.paired_sample import PairedSample
    from privpipe.running.run_context import RunContext
    from privpipe.running.staging import Staged
    from privpipe.sinks.records import PrivateRecords

__all__ = ["RunReport"]

Documents = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class RunReport:
    """What a run writes for people; nothing where its policy says so, or where nothing is kept.

    Parameters
    ----------
    context : RunContext
    records : PrivateRecords or None
        None: a dry run.
    current : str or None
        The release that is published while this one is made.
    documents : mapping of str to mapping
        The private document of figures, by its name, once they are gathered.
    """

    context: RunContext = field(repr=False)
    records: PrivateRecords | None
    current: str | None
    documents: Documents = field(default_factory=dict, repr=False)

    @property
    def wanted(self) -> bool:
        """Whether a report is written."""
        return self.context.policy.report.write and self.records is not None

    def gathered(self, staged: Staged, sample: PairedSample | None) -> Self:
        """The same report with its figures."""
        if not self.wanted or self.records is None:
            return self
        earlier = earlier_run(self.records.home, self.current)
        return replace(self, documents={"report": report_figures(self.context, staged, sample, earlier)})

    def private_page(self, documents: Documents) -> str | None:
        """The internal edition, of the documents of the private record."""
        return self._page(documents, self.documents.get("report", {})) if self.wanted else None

    def public_page(self, documents: Documents) -> str | None:
        """The public edition, of the public documents alone."""
        return self._page(documents, {}) if self.wanted else None

    def waiting_page(self, documents: Documents, request: Mapping[str, Any], folder: str) -> str | None:
        """The internal edition of a run that waits in a folder for signatures."""
        return self._page(documents, self.documents.get("report", {}), request, folder) if self.wanted else None

    def _page(
        self, documents: Documents, figures: Mapping[str, Any], request: Mapping[str, Any] | None = None, path: str = ""
    ) -> str:
        # As they are read back, so that `privpipe report` makes the same page of them.
        verdict, manifest, report = (
            json.loads(document_text(each)) for each in (documents["verdict"], documents.get("manifest", {}), figures)
        )
        run = RunDocuments(path or str(verdict.get("run_id", "")), verdict, manifest, report, request or {})
        return report_page(ReportData.of(run), self.context.policy.report.lang)
