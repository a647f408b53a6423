"""Write the first policy of a table, with a comment on every guess."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from privpipe.drafting.database_sources import database_keys
from privpipe.drafting.guessing import Guess, Profile, column_disclosure, suggest_hierarchy
from privpipe.drafting.relating import Relations, finely_valued, related_guesses
from privpipe.drafting.suggesting import propose
from privpipe.drafting.thinning import thinned

if TYPE_CHECKING:
    from privpipe.engines import Source

__all__ = ["Method", "draft_policy", "flow", "source_keys"]

PLAIN = re.compile(r"[A-Za-z_]([\w ./-]*[\w/-])?", re.ASCII)
WORDS_OF_YAML = frozenset(("true", "false", "null", "yes", "no", "on", "off", "y", "n"))  # of 1.1 too
MANY = 8
LEAST_K = 5
LEAST_L = 3


@dataclass(frozen=True)
class Method:
    """How the guarantees are to be met.

    Parameters
    ----------
    stage : str
        A line of `transform:`, for the quasi-identifiers.
    notes : tuple of str
        What is said of it and of the others.
    without : tuple of str
        Names of proposed guarantees that no method met: they stand as comments.
    """

    stage: str = "generalize: {search: optimal, suppress_at_most: 0.05}"
    notes: tuple[str, ...] = ()
    without: tuple[str, ...] = ()


def draft_policy(
    source: Source,
    profiles: Sequence[Profile],
    *,
    home: Path,
    suggest: bool,
    unsure: Sequence[str] = (),
    relations: Relations | None = None,
    method: Method | None = None,
) -> str:
    """The text of a policy for these columns.

    Parameters
    ----------
    source : Source
        A path, as the policy shall read it.
    profiles : sequence of Profile
    home : Path
        The folder the policy will stand in; its paths start there.
    suggest : bool
        Whether to suggest hierarchies, a generalization and guarantees with their reasons.
    unsure : sequence of str
        Columns of dates that would also be dates with the month first.
    relations : Relations, optional
        Between the columns.
    method : Method, optional
        Default: an optimal generalization.
    """
    guesses = related_guesses(profiles, relations or Relations())
    method = method or Method()
    offered = {
        profile.name: found
        for profile in profiles
        if suggest and guesses[profile.name].role == "quasi_identifier" and (found := suggest_hierarchy(profile))
    }
    hierarchies = thinned(offered, {profile.name: profile.code_length for profile in profiles})
    place = str(source.data if source.is_path else source.data.at)
    stem = re.sub(r"\W+", "-", Path(place).stem).strip("-") or "table"
    lines = [
        "# Written by `privpipe init`. Roles and types are guesses: read every line before you rely on it.",
        "version: 1",
        f"name: {flow(stem)}",
        *_doubts(source, unsure),
        f"source: {flow(source_keys(source, profiles, home))}",
        "columns:",
        *_columns(profiles, guesses, hierarchies),
        *_transform(profiles, guesses, hierarchies, method if suggest else None, shortened=hierarchies != offered),
        *(_suggested(profiles, guesses, method.without) if suggest else _guarantees(profiles, guesses)),
        "measures:",
        f"  - average_risk: {flow(_classes(guesses))}",
        f"sink: {flow({'path': f'published/{stem}', 'format': 'parquet'})}",
        "# seed: {from_env: PRIVPIPE_SEED}   # of `privpipe seed`, to repeat a run; left out, each run draws its own",
    ]
    return "\n".join(lines) + "\n"


def source_keys(source: Source, profiles: Sequence[Profile], home: Path) -> dict[str, Any]:
    """The keys of `source:` in a policy that stands in a folder; what is as it is by default is left out."""
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


def _doubts(source: Source, unsure: Sequence[str]) -> list[str]:
    """What of the source a person has to look at."""
    lines = []
    if source.form.footer:
        lines.append(f"# The last {source.form.footer} line(s) of the file look like totals or notes, no records.")
    if unsure:
        lines.append(f"# UNSURE: {', '.join(map(flow, unsure))}: day first, or month first? The dates fit both.")
    return lines


def _columns(profiles: Sequence[Profile], guesses: dict[str, Guess], hierarchies: dict[str, Any]) -> list[str]:
    many = sum(guess.role == "quasi_identifier" for guess in guesses.values())
    lines = []
    if many > MANY:
        lines.append(f"  # {many} quasi-identifiers seldom leave a useful table: keep those that somebody can know.")
    for profile in profiles:
        guess = guesses[profile.name]
        spec: dict[str, Any] = {"role": guess.role, "type": profile.type}
        if profile.name in hierarchies:
            spec["hierarchy"] = hierarchies[profile.name]
        missing = f"; {profile.missing:,} missing" if profile.missing else ""
        lines.append(f"  # {guess.reason}{missing}")
        named = [str(finding) for finding in profile.findings if str(finding) not in guess.reason]
        if named:
            lines.append(f"  # HIPAA Safe Harbor: {'; '.join(named)}")
        if told := column_disclosure(profile, guess.role):
            lines.append(f"  # {told}")
        lines.append(f"  {flow(profile.name)}: {flow(spec)}")
    return lines


def _transform(
    profiles: Sequence[Profile],
    guesses: dict[str, Guess],
    hierarchies: dict[str, Any],
    method: Method | None,
    *,
    shortened: bool,
) -> list[str]:
    lines = []
    fine = finely_valued(profiles, guesses) if method is not None else []
    if fine:
        lines.append("  # By a measured number records can be linked: each value becomes the mean of at least 5.")
        lines += [f"  - microaggregate: {flow({'columns': [name], 'k': 5})}" for name in fine]
    if not any(guess.role == "quasi_identifier" for guess in guesses.values()):
        return ["transform:", *lines] if lines else []
    if hierarchies and method is not None:
        note = "  # Hierarchies are kept short so that the search ends soon; fewer quasi-identifiers allow finer ones."
        lines += [note] if shortened else []
        lines += [f"  # {said}" for said in method.notes]
        return ["transform:", *lines, f"  - {method.stage}"]
    if method is None:
        lines.append("  # Without hierarchies records can only be left out; without --bare some are proposed.")
    return ["transform:", *lines, "  - suppress_records: {suppress_at_most: 0.05}"]


def _guarantees(profiles: Sequence[Profile], guesses: dict[str, Guess]) -> list[str]:
    own = _classes(guesses)
    lines = ["guarantees:", f"  - k_anonymity: {flow({'k': LEAST_K, **own})}"]
    for profile in profiles:
        if guesses[profile.name].role == "sensitive":
            least = min(LEAST_L, profile.distinct)
            lines.append(f"  - distinct_l_diversity: {flow({'column': profile.name, 'l': least, **own})}")
    return lines


def _suggested(profiles: Sequence[Profile], guesses: dict[str, Guess], without: Sequence[str]) -> list[str]:
    """Guarantees with the reason of each."""
    own = _classes(guesses)
    sensitive = [profile for profile in profiles if guesses[profile.name].role == "sensitive"]
    lines = [
        "guarantees:",
        "  # Proposals: start from the risk that you can tolerate; `privpipe explain NAME` tells more.",
    ]
    for proposal in propose(sensitive, max(profile.records for profile in profiles)):
        lines.append(f"  # {proposal.reason}")
        line = f"- {proposal.name}: {flow({**proposal.parameters, **own})}"
        if proposal.name in without:
            lines.append(f"  # Left out, for no method met it on this table without blanking columns: {line}")
        else:
            lines.append(f"  {line}")
    return lines


def _classes(guesses: dict[str, Guess]) -> dict[str, Any]:
    """One class of all records where nothing was taken for a quasi-identifier, which the reader asks to be said."""
    named = any(guess.role == "quasi_identifier" for guess in guesses.values())
    return {} if named else {"quasi_identifiers": []}


def flow(value: Any) -> str:
    """A value as YAML on one line.

    Written here because a column may have any name, and emitters leave some unquoted that no parser takes back.

    Examples
    --------
    >>> flow({"role": "sensitive", "zip: 5": [1, 2.5, True], "no": "a\\nb"})
    '{role: sensitive, "zip: 5": [1, 2.5, true], "no": "a\\\\U0000000ab"}'
    """
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{flow(key)}: {flow(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(flow, value)) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str):
        return repr(value)
    if PLAIN.fullmatch(value) and value.lower() not in WORDS_OF_YAML:
        return value
    return '"' + "".join(map(_quoted, value)) + '"'


def _quoted(character: str) -> str:
    if character in '"\\':
        return "\\" + character
    return character if character.isprintable() else f"\\U{ord(character):08x}"
