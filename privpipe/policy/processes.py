"""Conditions under which the record of a process is valid in a policy."""

from __future__ import annotations

from privpipe.policy.draft import Draft
from privpipe.policy.places import Report
from privpipe.policy.secret import SecretSpec
from privpipe.transforms.sampling.safepub import HARMLESS_BEFORE, Safepub
from privpipe.transforms.synthesis.synthesize import Synthesize

__all__ = ["check_processes"]


def check_processes(draft: Draft, report: Report) -> None:
    """Differential privacy is of the whole way from the data to the release."""
    for at, read in enumerate(draft.transform):
        if isinstance(read.entry, Synthesize) and read.entry.method == "marginals":
            for other in draft.transform[:at]:
                if other.entry is not None and other.name not in HARMLESS_BEFORE:
                    report.wrong(
                        read.place,
                        f"comes after transform[{other.at}].{other.name}, which looks at other records too; draw first",
                    )
    places = [read for read, stage in draft.stages() if isinstance(stage, Safepub)]
    if not places:
        return
    first = places[0]
    for again in places[1:]:
        report.wrong(again.place, f"is there already (transform[{first.at}].{first.name}); one stage draws the sample")
    for read in draft.transform[: first.at]:
        if read.entry is not None and read.name not in HARMLESS_BEFORE:
            report.wrong(
                first.place,
                f"comes after transform[{read.at}].{read.name}, which looks at other records too; draw first",
            )
    seed = draft.values.get("seed")
    if isinstance(seed, SecretSpec) and seed.within is not None:
        report.warn(first.place, "the sample is drawn by the seed written in this file: it is as secret as the file")
    beside = _released_beside(draft)
    if beside:
        report.warn(
            first.place,
            f"classes are formed over the quasi-identifiers; {', '.join(map(repr, beside))} "
            "will be released beside them and is not covered: declare it a quasi-identifier, or leave it out",
        )


def _released_beside(draft: Draft) -> list[str]:
    """Columns of the release that are no quasi-identifiers."""
    beside = [*draft.with_role("sensitive", "insensitive")]
    for _, stage in draft.stages():
        if stage.name() == "pseudonymise":
            beside += stage.masked_columns()
    return list(dict.fromkeys(beside))
