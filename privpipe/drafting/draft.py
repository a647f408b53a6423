"""Write the first policy of a table, with a comment on every guess."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from privpipe.drafting.guarantees import RESEARCH, Proposal, Purpose, propose
from privpipe.drafting.guesses import column_disclosure, likeliest_sensitive
from privpipe.drafting.methods import Method, flow
from privpipe.drafting.profile import Profile
from privpipe.drafting.questions import Answers
from privpipe.drafting.relations import Relations
from privpipe.drafting.roles import Planned, finely_valued, household_key, person_key, planned
from privpipe.drafting.source_formats import database_keys, made_up_names
from privpipe.judging.recovery import GUARD

if TYPE_CHECKING:
    from privpipe.engines import Source

__all__ = [
    "SCHEMA_FILE",
    "Asked",
    "column_lines",
    "draft_policy",
    "person_lines",
    "place_of",
    "proposals",
    "source_keys",
]

MANY = 8
LEAST_K = 5
LEAST_L = 3
SCHEMA_FILE = "policy.schema.json"
"""Where editors look for the schema of a drafted policy: next to it."""


@dataclass(frozen=True)
class Asked:
    """The options of the draft that is wanted.

    Parameters
    ----------
    suggest : bool
        Whether to suggest hierarchies, a method and guarantees with their reasons.
    purpose : Purpose
        Who will see the release.
    uses : tuple of str
        What the data will be used for.
    answers : Answers
        What a person said on open questions.
    """

    suggest: bool = True
    purpose: Purpose = RESEARCH
    uses: tuple[str, ...] = ()
    answers: Answers = field(default_factory=Answers)


def draft_policy(
    source: Source,
    profiles: Sequence[Profile],
    *,
    home: Path,
    asked: Asked | None = None,
    unsure: Sequence[str] = (),
    relations: Relations | None = None,
    method: Method | None = None,
) -> str:
    """The text of a policy for these columns.

    Parameters
    ----------
    source : Source
        A path, as the policy shall read it; a frame has no place in a policy, and is left out.
    profiles : sequence of Profile
    home : Path
        The folder the policy will be in; its paths start there.
    asked : Asked, optional
    unsure : sequence of str
        Columns of dates that would also be dates with the month first.
    relations : Relations, optional
        Between the columns.
    method : Method, optional
        Default: an optimal generalization.
    """
    asked, found, method = asked or Asked(), relations or Relations(), method or Method()
    made = planned(
        profiles, found, asked.answers, left_out=method.left_out, revealing=method.revealing, suggest=asked.suggest
    )
    place = place_of(source)
    stem = re.sub(r"\W+", "-", Path(place).stem).strip("-") or "table"
    person = asked.answers.person_of(person_key(profiles, made.guesses))
    household = household_key(profiles, made.guesses)
    lines = [
        f"# yaml-language-server: $schema={SCHEMA_FILE}",
        "# Written by `privpipe init`. Roles and types are guesses: read every line before you rely on it.",
        f"# Editors check it by the file that the first line names; `privpipe schema --out {SCHEMA_FILE}` writes it.",
        "version: 1",
        f"name: {flow(stem)}",
        *_doubts(source, profiles, unsure),
        *_measured(found),
        *([f"source: {flow(source_keys(source, profiles, home))}"] if place else []),
        *(person_lines(person) if person else []),
        *(_household(household) if household and household != person else []),
        *([f"uses: {flow(list(asked.uses))}"] if asked.uses else []),
        *_open_question(profiles, made),
        "columns:",
        *column_lines(profiles, made),
        *_transform(profiles, made, method, asked),
        *(_suggested(profiles, made, method, asked) if asked.suggest else _guarantees(profiles, made)),
        "measures:",
        f"  - average_risk: {flow(_classes(made))}",
        f"sink: {flow({'path': f'published/{stem}', 'format': 'parquet'})}",
        "# seed: {from_env: PRIVPIPE_SEED}   # of `privpipe seed`, to repeat a run; left out, each run draws its own",
    ]
    return "\n".join(lines) + "\n"


def proposals(profiles: Sequence[Profile], made: Planned, asked: Asked) -> list[Proposal]:
    """The guarantees of a draft."""
    sensitive = [profile for profile in profiles if made.guesses[profile.name].role == "sensitive"]
    return propose(sensitive, max(profile.records for profile in profiles), asked.purpose, asked.answers.k)


def place_of(source: Source) -> str:
    """Where the table is; nothing for a frame, which no policy names."""
    from privpipe.engines.databases import Database

    if source.is_path:
        return str(source.data)
    return source.data.at if isinstance(source.data, Database) else ""


def source_keys(source: Source, profiles: Sequence[Profile], home: Path) -> dict[str, Any]:
    """The keys of `source:` in a policy that is in a folder; defaults are left out."""
    if not source.is_path:
        return database_keys(source.data, home)
    path = str(source.data)
    found: dict[str, Any] = {"path": path if "://" in path else os.path.relpath(path, home)}
    found["format"] = source.resolved_format
    if source.resolved_format == "csv":
        found["delimiter"] = source.delimiter
        if not source.header:
            found |= {"header": False, "columns": list(source.columns)}
        nulls = ["", *dict.fromkeys(text for profile in profiles for text in profile.null_values if text)]
        if len(nulls) > 1:
            found["null_values"] = nulls
        usual = vars(type(source.form)())
        found |= {name: said for name, said in vars(source.form).items() if said != usual[name]}
    return found


def _doubts(source: Source, profiles: Sequence[Profile], unsure: Sequence[str]) -> list[str]:
    """What of the source a person has to look at."""
    lines = []
    if not source.header and tuple(source.columns) == made_up_names(len(profiles)):
        lines += [
            "# WARNING: the file has no header, so these names of columns are made up, and roles are guessed by names:",
            "# draft again with `privpipe init DATA --columns age,sex,...`, all names in their order.",
        ]
    if source.form.footer:
        lines.append(f"# The last {source.form.footer} line(s) of the file look like totals or notes, no records.")
    if unsure:
        lines.append(f"# UNSURE: {', '.join(map(flow, unsure))}: day first, or month first? The dates fit both.")
    return lines


def _open_question(profiles: Sequence[Profile], made: Planned) -> list[str]:
    """Which column no one may learn, where nothing was taken for it."""
    if any(guess.role == "sensitive" for guess in made.guesses.values()):
        return []
    likeliest = likeliest_sensitive(profiles, made.guesses)
    asked = f"Is it {flow(likeliest)}? " if likeliest else ""
    return [
        "# QUESTION: what must no one learn of a person? No column was taken for sensitive, so that no guarantee below",
        f"# judges what a class has in common. {asked}Give it `role: sensitive` and list `distinct_l_diversity` of it.",
    ]


def _measured(found: Relations) -> list[str]:
    if not found.records:
        return []
    by = f"whole groups of {flow(found.by_key)}" if found.by_key else "single records, for no column groups them"
    return [f"# Relations between columns were measured on a sample of {found.records:,} records ({by})."]


def person_lines(column: str) -> list[str]:
    """The lines that say which column distinguishes persons."""
    return ["# A person may have several records: guarantees count persons.", f"person_id: {flow(column)}"]


def _household(column: str) -> list[str]:
    return [
        "# Against an attacker who knows a whole family: `privpipe explain household_k_anonymity`.",
        f"household_id: {flow(column)}",
    ]


def column_lines(profiles: Sequence[Profile], made: Planned) -> list[str]:
    """The lines below `columns:`, each with the reason of its guess."""
    many = sum(guess.role == "quasi_identifier" for guess in made.guesses.values())
    lines = []
    if many > MANY:
        lines.append(f"  # {many} quasi-identifiers seldom leave a useful table: keep those that an attacker can know.")
    for profile in profiles:
        guess = made.guesses[profile.name]
        spec: dict[str, Any] = {"role": guess.role, "type": profile.type}
        if profile.name in made.hierarchies:
            spec["hierarchy"] = made.hierarchies[profile.name]
        missing = f"; {profile.missing:,} missing" if profile.missing else ""
        lines.append(f"  # {guess.reason}{missing}")
        named = [str(finding) for finding in profile.findings if str(finding) not in guess.reason]
        if named:
            lines.append(f"  # HIPAA Safe Harbor: {'; '.join(named)}")
        if told := column_disclosure(profile, guess.role):
            lines.append(f"  # {told}")
        lines.append(f"  {flow(profile.name)}: {flow(spec)}")
    return lines


def _transform(profiles: Sequence[Profile], made: Planned, method: Method, asked: Asked) -> list[str]:
    lines = []
    fine = finely_valued(profiles, made.guesses) if asked.suggest and method.masked else []
    if fine:
        lines.append("  # By a measured number records can be linked: each value becomes the mean of at least 5.")
        lines.append("  # A note that another column tells such a number speaks of its group, not of the number.")
        integers = {profile.name for profile in profiles if profile.type == "integer"}
        for whole in (True, False):
            some = [[name] for name in fine if (name in integers) == whole]
            spec = {
                "columns": some,
                "k": 5,
                "method": "univariate",
                "keep_ties": True,
                **({"round": True} if whole else {}),
            }
            lines += [f"  - microaggregate: {flow(spec)}"] if some else []
    if not any(guess.role == "quasi_identifier" for guess in made.guesses.values()):
        return ["transform:", *lines] if lines else []
    if made.hierarchies and asked.suggest:
        note = "  # Hierarchies are kept short so that the search ends soon; fewer quasi-identifiers allow finer ones."
        lines += [note] if made.shortened else []
        lines += [f"  # {said}" for said in method.notes]
        return ["transform:", *lines, *(f"  - {stage}" for stage in method.stages)]
    if not asked.suggest:
        lines.append("  # Without hierarchies records can only be left out; without --bare some are proposed.")
    return ["transform:", *lines, "  - suppress_records: {suppress_at_most: 0.03}"]


def _guarantees(profiles: Sequence[Profile], made: Planned) -> list[str]:
    own = _classes(made)
    lines = ["guarantees:", *_nobody_known(made), f"  - k_anonymity: {flow({'k': LEAST_K, **own})}"]
    for profile in profiles:
        if made.guesses[profile.name].role == "sensitive":
            least = min(LEAST_L, profile.distinct)
            lines.append(f"  - distinct_l_diversity: {flow({'column': profile.name, 'l': least, **own})}")
    return lines


def _suggested(profiles: Sequence[Profile], made: Planned, method: Method, asked: Asked) -> list[str]:
    """Guarantees with the reason of each."""
    own = _classes(made)
    lines = [
        "guarantees:",
        *_nobody_known(made),
        "  # Proposals: start from the risk that you can tolerate; `privpipe explain NAME` shows more.",
        f"  # For {asked.purpose.name} use: {asked.purpose.reason}.",
    ]
    for proposal in proposals(profiles, made, asked):
        lines.append(f"  # {proposal.reason}")
        line = f"- {proposal.name}: {flow({**proposal.parameters, **own})}"
        if proposal.name in method.without:
            lines.append(f"  # Left out, for no method met it on this table without blanking columns: {line}")
        else:
            lines.append(f"  {line}")
    return [*lines, *_recovery(made, method), *_criteria(profiles, made, method)]


def _recovery(made: Planned, method: Method) -> list[str]:
    """The bound on what released columns give back of generalized ones; trials measure it by themselves."""
    columns = [name for name, guess in made.guesses.items() if guess.role == "quasi_identifier"]
    columns = [name for name in columns if name in made.hierarchies]
    if not columns or not method.masked or method.stages[0].startswith("microaggregate"):
        return []
    bounds = {"at_most": GUARD.at_most, "determined_at_most": GUARD.determined_at_most, "beyond_chance": True}
    return [
        "  # No released column gives back what was generalized or suppressed: at most half of the records in addition",
        "  # to the label, and the one value left for at most a fifth. Without this line every release has to meet it.",
        f"  - recovery: {flow({'columns': columns, **bounds})}",
    ]


def _criteria(profiles: Sequence[Profile], made: Planned, method: Method) -> list[str]:
    """The attacks of the WP216 criteria, commented, where rows of the release belong to no person."""
    if not any(stage.startswith("synthesize") for stage in method.stages):
        return []
    roles = {profile.name: made.guesses[profile.name].role for profile in profiles}
    open_ = [name for name, role in roles.items() if role not in ("identifier", "drop")]
    known = [name for name in open_ if roles[name] == "quasi_identifier"]
    known = known if len(known) > 1 else open_
    secrets = [profile for profile in profiles if roles[profile.name] == "sensitive"]
    secrets = secrets or [profile for profile in profiles if profile.name in open_ and profile.name not in known][:1]
    others = {"holdout": "others.csv"}
    lines = [
        "  # WP216 criteria: attacks give lower bounds and a pass is not a certificate. A holdout has",
        "  # records of the same population that are not in the source; it comes from outside, not from a split of it.",
        f"  # - singling_out_attack: {flow({**others, 'at_most': 0.1})}",
    ]
    if len(known) > 1:
        halves = [known[::2], known[1::2]]
        lines.append(f"  # - linkability_attack: {flow({'known': halves, **others, 'at_most': 0.05})}")
    for secret in secrets:
        asked: dict[str, Any] = {"column": secret.name, **others, "at_most": 0.1}
        if secret.type in ("integer", "number", "decimal"):
            asked["tolerance"] = {"relative": 0.05}
        elif secret.type in ("date", "timestamp"):
            asked["tolerance"] = {"absolute": 30}
        lines.append(f"  # - inference_attack: {flow(asked)}")
    return lines


def _nobody_known(made: Planned) -> list[str]:
    """A warning where the guarantees below it hold for any table."""
    if not _classes(made):
        return []
    return [
        "  # WARNING: no column was taken for a quasi-identifier, so that all records are one class, and k-anonymity",
        "  # holds for any table. Give `role: quasi_identifier` to what an attacker can know of a person, and take out",
        "  # `quasi_identifiers: []` below.",
    ]


def _classes(made: Planned) -> dict[str, Any]:
    """One class of all records where nothing was taken for a quasi-identifier, which the reader asks to be said."""
    named = any(guess.role == "quasi_identifier" for guess in made.guesses.values())
    return {} if named else {"quasi_identifiers": []}
