"""What a report shows and no other document holds: measured while a run has both tables, and made into its pages."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from privpipe.blocks.public_edition import PublicRules
from privpipe.blocks.verdict import plain
from privpipe.errors import PrivpipeError, UsageError
from privpipe.judging.column_loss import LossTable
from privpipe.judging.loss_counts import LossAsked, labels_of, loss_table
from privpipe.judging.paired_columns import PairedSample, paired_sample
from privpipe.judging.report_counts import AT_RISK, SizeFigures, distributions, judged_keys, size_bins, size_figures
from privpipe.judging.table_facts import most_records
from privpipe.reporting.officer.languages import REPORT_VERSION
from privpipe.reporting.officer.page import make_ready, report_page
from privpipe.reporting.officer.report_data import ReportData
from privpipe.reporting.run_documents import RunDocuments
from privpipe.running.run_context import RunContext, judging_rules, population_beside, withholds_counts
from privpipe.running.run_documents import public_rules
from privpipe.running.staging import Staged
from privpipe.sinks.records import document_values

if TYPE_CHECKING:
    from pathlib import Path

    from privpipe.judging import JudgingRules
    from privpipe.policy import Policy
    from privpipe.roles import Roles
    from privpipe.sinks.records import PrivateRecords

__all__ = [
    "RunReport",
    "count_original_classes",
    "count_original_labels",
    "counted_ahead",
    "earlier_run",
    "least_records",
    "least_shown",
    "lost_columns",
    "report_figures",
    "sample_of",
]


FEWEST = 5
PERTURBING = ("perturbative", "synthetic")


def least_shown(policy: Policy) -> int:
    """Records that a figure of a report must be based on: by the policy, else its largest k, and never below 5.

    Examples
    --------
    >>> from privpipe.policy import Policy
    >>> columns = {"zip": {"role": "quasi_identifier"}}
    >>> least_shown(Policy.from_dict({"columns": columns, "guarantees": [{"k_anonymity": {"k": 12}}]}))
    12
    """
    asked = policy.report.threshold
    return max(FEWEST, public_rules(policy, ()).least) if asked is None else asked


def least_records(context: RunContext, original: Any) -> int:
    """Records that a figure of a report must be based on, so that it covers `least_shown` persons if there are any.

    In multiples of the records of the person who has most, whatever the figure counts. Under a model that forbids
    counts of the source that number is not looked up: no figure of the source is shown then.
    """
    policy, least = context.policy, least_shown(context.policy)
    over = {entry.counts_over() for entry in policy.binding}
    keys = (policy.person_id, policy.household_id if "households" in over else None)
    if withholds_counts(policy):
        return least
    return least * max([1, *(most_records(context.engine, original, key) for key in keys if key is not None)])


def report_figures(
    context: RunContext,
    staged: Staged,
    sample: PairedSample | None,
    earlier: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The figures of a report in addition to verdict and manifest; also for a refused run.

    Under a model that forbids counts of the source nothing of it is counted.
    """
    policy = context.policy
    least = least_records(context, staged.original)
    withheld = withholds_counts(policy)
    classes = _Classes(context, staged, withheld)
    raw, final = classes.before(), classes.after()
    before = None if raw is None else size_figures(context.engine, *raw)
    after = None if final is None else size_figures(context.engine, *final)
    shown = {} if sample is None else distributions(sample, policy.suppression_mark, least, compared=not withheld)
    return {
        "report_version": REPORT_VERSION,
        "edition": "private",
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "threshold": least,
        "lang": policy.report.lang,
        "policy": plain(policy.public_document()),
        "reasons": {name: column.reason for name, column in policy.columns.items() if column.reason},
        "stages": plain(staged.plan.to_dict()["stages"]),
        "columns": list(staged.table.schema.names),
        "input_records": None if withheld else staged.plan.records,
        **classes.figures(before, after, least),
        "distributions": shown,
        "sampled": None if sample is None or sample.whole else len(sample.pairs[0]),
        "earlier": None if earlier is None else plain(earlier),
    }


def count_original_classes(context: RunContext, staged: Staged) -> None:
    """What `report_figures` counts of the original, so that an engine that remembers counts has them.

    Persons, and records compared with a population, are not sizes of classes that it would remember.
    """
    policy = context.policy
    if not withholds_counts(policy) and policy.population is None and judging_rules(policy).person is None:
        raw = _Classes(context, staged, withheld=False).before()
        if raw is not None:
            size_figures(context.engine, *raw)


def earlier_run(home: Path, current: str | None) -> dict[str, Any] | None:
    """The record of the published release; None if there is none, or it cannot be read.

    Parameters
    ----------
    home : Path
        Of the private records.
    current : str, optional
        What the sink points at.
    """
    if current is None:
        return None
    try:
        found = RunDocuments.read(str(home / current.rstrip("/").rsplit("/", 1)[-1]))
    except UsageError:
        return None
    return {
        "verdict": dict(found.verdict),
        "created": found.manifest.get("created"),
        "plan": {"stages": [{name: stage[name] for name in ("name", "parameters")} for stage in found.stages]},
        "columns": list(found.manifest.get("output", {}).get("columns", [])),
    }


SizesAsked = tuple[Any, tuple[str, ...], "Roles", "JudgingRules", Any]
"""Table, keys, roles, rules and population of `size_figures`."""


@dataclass(frozen=True)
class _Classes:
    """The classes of both tables, over the columns that guarantees judge."""

    context: RunContext
    staged: Staged
    withheld: bool

    def figures(self, before: SizeFigures | None, after: SizeFigures | None, least: int) -> dict[str, Any]:
        """Bins of class sizes, and what each intruder may find before and after."""
        keys = self._keys()
        if not keys:
            return {"classes": None, "risks": None}
        sides = [side for side in (before, after) if side is not None]
        return {
            "classes": {
                "keys": list(keys),
                "unit": "persons" if self._rules(self.staged.rules).person else "records",
                "sides": [name for name, side in (("before", before), ("after", after)) if side is not None],
                "records": [side.records for side in sides],
                "bins": size_bins(sides, least) if sides else [],
                "perturbed": self._perturbed(keys),
            },
            "risks": {"at_risk": AT_RISK, "before": _risks(before, least), "after": _risks(after, least)},
        }

    def _keys(self) -> tuple[str, ...]:
        keys = judged_keys(self.context.policy.binding, self.staged.roles)
        return tuple(name for name in keys if name in self.staged.table.schema.names)

    def before(self) -> SizesAsked | None:
        """The classes of the original; None where it is not counted."""
        engine, policy, original = self.context.engine, self.context.policy, self.staged.original
        keys = self._keys()
        if self.withheld or not keys or not set(keys) <= set(original.schema.names):
            return None
        if policy.draws_records and policy.person_id is not None:
            return None  # persons before and records of no person after are not compared
        raw = policy.population is not None and not policy.population.generalized and self.staged.population is not None
        population = population_beside(engine, policy, original) if raw else None
        rules = replace(self._rules(judging_rules(policy)), mark=policy.suppression_mark)
        return original, keys, self.staged.roles, rules, self._compared(keys, population)

    def after(self) -> SizesAsked | None:
        """The classes of the release; None where there is none."""
        staged, keys = self.staged, self._keys()
        if not keys:
            return None
        table = staged.seen if staged.counted is None else staged.counted
        rules = replace(self._rules(staged.rules), released=tuple(staged.table.schema.names), base={})
        return table, keys, staged.roles, rules, self._compared(keys, staged.population)

    def _compared(self, keys: tuple[str, ...], population: Any) -> Any:
        return population if population is not None and set(keys) <= set(population.schema.names) else None

    def _rules(self, rules: JudgingRules) -> JudgingRules:
        return replace(rules, histories={}, rerun=None, models=(), entered={}, records=None)

    def _perturbed(self, keys: tuple[str, ...]) -> list[str]:
        """Keys whose values a stage perturbed: equal values are then no sign of the same person."""
        lost: set[str] = set()
        for stage in self.context.policy.transform:
            if stage.taxon in PERTURBING:
                lost |= set(stage.masked_columns() or keys)
        return [name for name in keys if name in lost]


def _risks(side: SizeFigures | None, least: int) -> dict[str, Any] | None:
    """Figures of each intruder; a share of few records is None."""
    if side is None:
        return None
    few = PublicRules(columns=frozenset(), least=least)
    found: dict[str, Any] = {"prosecutor": dict(side.prosecutor), "journalist": None, "marketer": None}
    if side.journalist:
        found["journalist"] = dict(side.journalist)
        found["marketer"] = {"average": side.marketer}
    for attacker in ("prosecutor", "journalist"):
        if found[attacker] is not None:
            share = found[attacker]["at_risk"]
            found[attacker]["at_risk"] = few.reported(share, side.records)
    found["records"] = side.records
    return found


def sample_of(context: RunContext, staged: Staged) -> PairedSample | None:
    """The records of a staged release next to their originals, with every column that both have."""
    both = [name for name in staged.table.schema.names if name in staged.original.schema.names]
    return paired_sample(context.engine, staged.table, staged.original, both) if both else None


def count_original_labels(context: RunContext, staged: Staged) -> None:
    """What `lost_columns` counts of a large original, so that an engine that remembers counts has them."""
    names = [name for name in staged.table.schema.names if name in staged.original.schema.names]
    if not withholds_counts(context.policy):
        labels_of(context.engine, staged.original, names, context.policy.suppression_mark)


def lost_columns(context: RunContext, staged: Staged, sample: PairedSample | None = None) -> LossTable:
    """What each column has lost.

    Under a model that forbids counts of the source nothing is compared with it.

    Parameters
    ----------
    sample : PairedSample, optional
        From `sample_of`, where it was brought already.
    """
    policy = context.policy
    withheld = withholds_counts(policy)
    if sample is None and not withheld:
        sample = sample_of(context, staged)
    asked = LossAsked(
        roles=policy.roles,
        stages=[
            {"name": each.name, "parameters": each.parameters, "detail": each.detail} for each in staged.plan.stages
        ],
        mark=policy.suppression_mark,
        hierarchies=staged.rules.hierarchies,
        pseudonyms=policy.pseudonyms,
        rule=policy.utility.column_loss,
        withheld=withheld,
    )
    return loss_table(context.engine, staged.seen, staged.original, asked, sample)


log = logging.getLogger("privpipe.release")


@contextmanager
def counted_ahead(context: RunContext, staged: Staged, *, reported: bool) -> Iterator[None]:
    """Count labels and classes of the original meanwhile, where the engine has spare capacity.

    The engine remembers them: a request for one that is being made waits for it. Figures are unchanged.

    Parameters
    ----------
    context : RunContext
    staged : Staged
    reported : bool
        Whether a report will show the classes of the original.
    """
    if not context.engine.known(staged.original).has_room:
        yield
        return

    def count() -> None:
        try:
            count_original_labels(context, staged)
            if reported:
                count_original_classes(context, staged)
                make_ready()
        except PrivpipeError as error:  # the caller that needs the count makes it again, and reports the error
            log.debug("counts ahead of their time failed: %s", type(error).__name__)

    with ThreadPoolExecutor(1, thread_name_prefix="privpipe-ahead") as pool:
        counting = pool.submit(count)
        yield
    counting.result()


Documents = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class RunReport:
    """What a run writes for people; nothing if its policy disables it, or if nothing is kept.

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

    def private_page(self, documents: Documents) -> str | None:
        """The internal edition, of the documents of the private record."""
        return self._page(documents, self.documents.get("report", {})) if self.wanted else None

    def public_page(self, documents: Documents) -> str | None:
        """The public edition, made only from the public documents."""
        return self._page(documents, {}) if self.wanted else None

    def waiting_page(self, documents: Documents, request: Mapping[str, Any], folder: str) -> str | None:
        """The internal edition of a run that waits in a folder for signatures."""
        return self._page(documents, self.documents.get("report", {}), request, folder) if self.wanted else None

    def _page(
        self, documents: Documents, figures: Mapping[str, Any], request: Mapping[str, Any] | None = None, path: str = ""
    ) -> str:
        # As they are read back, so that `privpipe report` makes the same page of them.
        verdict, manifest, report = (
            document_values(each) for each in (documents["verdict"], documents.get("manifest", {}), figures)
        )
        run = RunDocuments(path or str(verdict.get("run_id", "")), verdict, manifest, report, request or {})
        return report_page(ReportData.of(run), self.context.policy.report.lang)
