"""Trials of methods on a sample: those that may meet the guarantees, and the one that keeps most of the data."""

from __future__ import annotations

import copy
import re
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from privpipe.drafting.methods import Candidate, Method, candidates
from privpipe.drafting.profile import NUMBERS, Profile
from privpipe.drafting.use_figures import Paired, lost_of_use
from privpipe.draws import Seed
from privpipe.engines import Engine, open_engine
from privpipe.errors import DataError, HierarchyError, NoSolutionError, PolicyError, UnsupportedError, UsageError
from privpipe.policy import Policy
from privpipe.policy.specs import require_one_table
from privpipe.roles import column_type_of

if TYPE_CHECKING:
    from privpipe.measures.risk.attribute.recovery import Recovered
    from privpipe.transforms.base import StagePlan

__all__ = [
    "MOST_LOSS",
    "MOST_RECORDS",
    "SECONDS",
    "Choice",
    "Clock",
    "Suggestion",
    "Trial",
    "chosen_method",
    "loaded",
    "sample_of",
    "suggested",
    "tried",
]


MOST_LOSS = 0.9
"""Loss from which on a column carries no information worth a place in the table."""
MOST_RECORDS = 20_000
SECONDS = 60.0
SEARCHES = ("generalize", "mondrian", "local_recoding")


@dataclass
class Clock:
    """The time that is left, in CPU seconds of this process, so that a busy machine drafts the same.

    Parameters
    ----------
    seconds : float
    tell : callable, optional
        Called with what is tried next.
    untried : list of str
        Methods that there was no time for.
    """

    seconds: float = SECONDS
    tell: Callable[[str], None] = lambda step: None
    untried: list[str] = field(default_factory=list)
    _start: float = field(default_factory=time.process_time)

    @property
    def left(self) -> float:
        """Seconds until the end; below 0 when it is over."""
        return self.seconds - (time.process_time() - self._start)

    def missed(self, stages: Sequence[str]) -> None:
        """Note that no time was left for a method."""
        text = "; ".join(stages)
        if text not in self.untried:
            self.untried.append(text)


@dataclass(frozen=True)
class Trial:
    """What a method made of the sample.

    Parameters
    ----------
    stages : tuple of str
    columns : mapping of column to float
        Loss of each quasi-identifier, from 0 to 1; empty where the guarantees do not hold.
    suppressed : float
        Share of the records that were suppressed.
    seconds : float
        CPU seconds.
    records : int
        It was tried on.
    paired : Paired, optional
        The output together with the input.
    revealing : tuple of (str, str)
        Columns that give back a generalized one, and what was found.
    thinned : tuple of str
        Columns of which something is left, and too many cells are blanked.
    moved : tuple of str
        Numbers that are released as such, and whose mean the suppressed records moved by more than 2 % of the mean size
        of a value.
    """

    stages: tuple[str, ...]
    columns: Mapping[str, float] = field(default_factory=dict)
    suppressed: float = 0.0
    seconds: float = 0.0
    records: int = 0
    paired: Paired | None = field(default=None, repr=False, compare=False)
    revealing: tuple[tuple[str, str], ...] = ()
    thinned: tuple[str, ...] = ()
    moved: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        """Whether it meets the guarantees."""
        return self.paired is not None

    @property
    def loss(self) -> float:
        """Mean loss of the quasi-identifiers, a suppressed record all of it."""
        kept = sum(self.columns.values()) / len(self.columns) if self.columns else 0.0
        return self.suppressed + (1 - self.suppressed) * kept

    @property
    def blanked(self) -> list[str]:
        """Columns of which next to nothing is left."""
        return [name for name, loss in self.columns.items() if loss > MOST_LOSS]


def loaded(text: str, home: Path) -> Policy:
    """The policy of a draft; a draft that does not load would be our mistake, raised at once."""
    from privpipe.policy import Policy
    from privpipe.policy.plain_values import from_yaml

    document, report = from_yaml(text, "draft")
    report.raise_if_wrong()
    return Policy.from_dict(document, home)


def sample_of(engine: Engine, policy: Policy, frame: Any = None, most: int = MOST_RECORDS) -> Any:
    """All records, or about as many as the limit says."""
    from privpipe.running.run_context import read_as_source, scanned, source_of, without_others

    source = source_of(policy) if frame is None else read_as_source(frame, policy)
    table = without_others(engine, scanned(engine, source), policy)
    records = engine.count(table)
    if records > most:
        named = engine.with_record_ids(table, None, Seed.of(secrets.token_bytes(32)))
        table = engine.thinned(named, most / records)
    return engine.collect(table)


def tried(stages: tuple[str, ...], policy: Policy, rows: Any, engine: Engine) -> Trial:
    """Stage a sample by a policy, judge it, and report what its quasi-identifiers lost."""
    import pyarrow as pa

    from privpipe.policy.specs import FrameSpec
    from privpipe.running.attached_source import attach
    from privpipe.running.judged_rows import judge_staged, recoveries_of_source
    from privpipe.running.report_figures import lost_columns
    from privpipe.running.report_figures import sample_of as both_of
    from privpipe.running.run_context import RunContext, read_as_source, seed_of
    from privpipe.running.staging import run_stages

    began = time.process_time()
    policy = policy.replaced(source=FrameSpec(frame=rows))
    try:
        context = RunContext(engine, policy, seed_of(policy))
        original = attach(context, read_as_source(rows, policy))
        staged = run_stages(context, original)
        judged = judge_staged(context, staged, staged.table)
        sample = both_of(context, staged)
        lost = lost_columns(context, staged, sample)
        found = recoveries_of_source(engine, staged, sample)
    except (NoSolutionError, DataError, HierarchyError, UnsupportedError, UsageError):
        return Trial(stages, seconds=time.process_time() - began)
    spent = time.process_time() - began
    if not judged.holds or sample is None:
        return Trial(stages, seconds=spent)
    share = judged.suppressed_records / max(len(rows), 1)
    first, second = sample.pairs
    before, after = (
        pa.Table.from_batches([block.to_batch()])
        for block in (sample.original.take(first), sample.released.take(second))
    )
    paired = Paired(before, after)
    shares = _shares(staged.plan.stages)
    spared = (None, "blanked") if len(policy.roles.quasi_identifiers) <= FEW_KNOWN else (None,)
    columns = {
        row.column: 1.0 if row.alarm not in spared else shares.get(row.column, paired.covered(row.column))
        for row in lost.columns
        if row.column in policy.roles.quasi_identifiers
    }
    thinned = tuple(row.column for row in lost.columns if row.alarm == "blanked" and columns.get(row.column, 1) < 1)
    moved = tuple(name for name in after.column_names if _moved(rows, after, name))
    return Trial(stages, columns, share, spent, len(rows), paired, _revealing(found.exceeding, policy), thinned, moved)


def _moved(rows: Any, after: Any, name: str) -> bool:
    """Whether the mean of a number is another one in the release."""
    import pyarrow.compute as pc

    if name not in rows.column_names:
        return False
    kinds = {column_type_of(side.schema.field(name).type) for side in (rows, after)}
    before, left = (pc.drop_null(side.column(name)) for side in (rows, after))
    if not kinds <= {*NUMBERS} or not len(before) or not len(left):
        return False
    size, *means = (float(pc.mean(each).as_py()) for each in (pc.abs(before), before, left))
    return abs(means[1] - means[0]) > MOST_MOVED * size


def _revealing(found: Sequence[Recovered], policy: Policy) -> tuple[tuple[str, str], ...]:
    """The column to drop for each that is given back: what gives it back, or that itself where this is sensitive."""
    dropped: dict[str, str] = {}
    for each in sorted(found, key=lambda each: -each.gain):
        spare = [name for name in each.by if name not in policy.roles.sensitive]
        if not dropped.keys() & {each.column, *each.by}:
            dropped[spare[0] if spare else each.column] = f"{each} in a trial, although that is generalized"
    return tuple(dropped.items())


def _shares(stages: Sequence[StagePlan]) -> dict[str, float]:
    """What a search shows that its columns lost, where it is the last stage that touches them."""
    searched = [stage for stage in stages if stage.name in SEARCHES]
    others = [stage for stage in stages if stage.name not in (*SEARCHES, "suppress_records")]
    return dict(searched[-1].detail.get("column_losses", {})) if searched and not others else {}


LATER = ("t_closeness",)
"""Proposed guarantees that are given up where nothing meets them; some guarantee has to judge a sensitive column."""
MOST_LEFT_OUT = 6
FEWEST = 5_000
"""Records below which a sample is not made smaller."""
SOON = 2.0
"""Seconds below which nothing more is tried."""
FEW_KNOWN = 3
"""Quasi-identifiers of which none is left out for the blanks of others."""
MOST_AGAIN = 2
"""Methods that are tried again after something was given up: the best ones."""
MOST_MOVED = 0.02
LESS = (0.01, 0.0)
"""Shares of suppressed records that are tried where those of the best method moved means."""
MOST_MORE = 0.05
"""How much more may be lost for means that stay."""
SHARE = re.compile(r"(?<=suppress_at_most: )[\d.]+")


@dataclass(frozen=True)
class Choice:
    """What is tried, and how it is compared.

    Parameters
    ----------
    draft : callable
        The text of the policy with a method.
    methods : callable
        The candidates, given the names of the guarantees and the columns that are left out.
    order : callable
        Columns by how soon they are left out, the first first.
    score : callable
        Of a trial, the less the better; by default the loss.
    said : str
        What the score is, in a note.
    """

    draft: Callable[[Method], str]
    methods: Callable[[Method], Sequence[Candidate]]
    order: Callable[[Sequence[str]], Sequence[str]]
    score: Callable[[Trial], float] = lambda trial: trial.loss
    said: str = "What the quasi-identifiers lose on a sample"


def chosen_method(choice: Choice, home: Path, rows: Any, engine: Engine, clock: Clock | None = None) -> Method:
    """The method of the best score on a sample, with the figures of all.

    Where every method blanks a column, guarantees that may be are given up, then columns left out one by one.

    Parameters
    ----------
    choice : Choice
    home : Path
        Where the paths of the draft start.
    rows : frame
        The sample.
    engine : Engine
    clock : Clock, optional
        Default: a minute.
    """
    clock = clock or Clock()
    asked = Method(masked=False)
    best: tuple[Method, list[Trial]] | None = None
    fewer: list[str] | None = None
    whole_rows = len(rows)

    def rank(trial: Trial) -> tuple[int, int, float]:
        return len(trial.blanked) + len(trial.thinned), len(trial.revealing), choice.score(trial)

    for _ in range(len(LATER) + MOST_LEFT_OUT + 1):
        before = clock.left
        trials = list(_trials(choice, asked, home, rows, engine, clock, fewer))
        good = [trial for trial in trials if trial.holds]
        whole = [trial for trial in good if not (trial.blanked or trial.thinned or trial.revealing)]
        if good and (best is None or whole or _lacking(asked, trials) < _lacking(*best)):
            best = (asked, trials)
        if whole or clock.left < SOON:
            break
        if before - clock.left > clock.left / 3:
            rows = rows.slice(0, max(FEWEST, len(rows) // 2))
        again = sorted(good, key=rank)[:MOST_AGAIN]
        # Cell by cell, so that what it keeps of a column grows most with every other column that goes.
        again += [trial for trial in good if trial.stages[0].startswith("local_recoding")]
        fewer = [trial.stages[0] for trial in again] or None
        following = _without_revealing(asked, good) or _less(asked, good, choice)
        if following is None:
            break
        if following.without != asked.without:
            fewer = None  # what a method keeps under one guarantee says little of what it keeps under others
        asked = following
    if best is None:
        note = "No method met all guarantees: choose fewer quasi-identifiers, or lower thresholds."
        return replace(asked, notes=(note,), masked=True)
    asked, trials = best
    good = [trial for trial in trials if trial.holds]
    found = min(good, key=rank)
    for trial in _fewer_suppressed(found, choice, asked, home, rows, engine):
        trials = [*trials, trial]
        if trial.holds and rank(trial)[:2] <= rank(found)[:2] and len(trial.moved) < len(found.moved):
            found = trial if choice.score(trial) <= choice.score(found) + MOST_MORE else found
        if not found.moved:
            break
    made = replace(
        asked,
        stages=found.stages,
        notes=tuple(_notes(trials, found, choice, whole_rows, clock.untried)),
        left_out=(*asked.left_out, *_spared(found, choice, asked)),
        revealing=(*asked.revealing, *found.revealing),
        masked=True,
    )
    return _without_what_masks_reveal(made, choice, home, rows, engine)


def _fewer_suppressed(
    found: Trial, choice: Choice, asked: Method, home: Path, rows: Any, engine: Engine
) -> Iterator[Trial]:
    """The method with fewer records suppressed, where these moved means."""
    for share in LESS if found.moved else ():
        stages = tuple(SHARE.sub(f"{share:g}", stage) for stage in found.stages)
        if stages != found.stages:
            policy = loaded(choice.draft(replace(asked, stages=stages)), home)
            yield tried(stages, policy, rows.slice(0, found.records), engine)


def _lacking(asked: Method, trials: Sequence[Trial]) -> int:
    """Columns that are left out, or of which nothing or too little is left, by the best trial."""
    counts = [len(trial.blanked) + len(trial.thinned) for trial in trials if trial.holds]
    return len(asked.left_out) + min(counts)


def _without_what_masks_reveal(made: Method, choice: Choice, home: Path, rows: Any, engine: Engine) -> Method:
    """Without columns that give something back once they are masked: of few values then, they are evidence."""
    for _ in range(MOST_AGAIN):
        policy = loaded(choice.draft(made), home)
        if not any(stage.name() == "microaggregate" for stage in policy.transform):
            break
        judged = [each for each in policy.guarantees if each.name() != "recovery"]
        trial = tried(made.stages, policy.replaced(guarantees=judged), rows, engine)
        if not trial.revealing:
            break
        made = replace(made, revealing=(*made.revealing, *trial.revealing))
    return made


def _spared(found: Trial, choice: Choice, asked: Method) -> list[str]:
    """Columns of which nothing is left and no time to see whether others make room: without them the rest holds."""
    known = choice.order(asked.left_out)
    return [name for name in found.blanked if name in known] if len(found.blanked) < len(known) else []


def _trials(
    choice: Choice,
    asked: Method,
    home: Path,
    rows: Any,
    engine: Engine,
    clock: Clock,
    fewer: Sequence[str] | None,
) -> Iterator[Trial]:
    """Each candidate on the sample, as long as there is time; of a second round those that served in the first."""
    for at, candidate in enumerate(choice.methods(asked)):
        if fewer is not None and candidate.stages[0] not in fewer:
            continue
        if clock.left < SOON and at:
            clock.missed(candidate.stages)
            continue
        clock.tell(f"try {candidate.stages[0].partition(':')[0]}")
        try:
            policy = loaded(choice.draft(replace(asked, stages=candidate.stages)), home)
        except (PolicyError, UnsupportedError):  # a method that does not count persons, say
            continue
        some = rows.slice(0, candidate.records) if candidate.records else rows
        yield tried(candidate.stages, policy, some, engine)


def _without_revealing(asked: Method, good: Sequence[Trial]) -> Method | None:
    """Without the fewest columns by which a method gives something back; nothing where one gives nothing back."""
    least = min((trial.revealing for trial in good if not trial.blanked), key=len, default=())
    return replace(asked, revealing=(*asked.revealing, *least)) if least else None


def _less(asked: Method, good: Sequence[Trial], choice: Choice) -> Method | None:
    """What is given up next: a guarantee, else the most dispensable column."""
    for name in LATER:
        if name not in asked.without:
            return replace(asked, without=(*asked.without, name))
    if len(asked.left_out) >= MOST_LEFT_OUT:
        return None
    blanked = min((trial.blanked for trial in good), key=len, default=[])
    known = choice.order(asked.left_out)
    if good and not blanked and len(known) <= FEW_KNOWN:
        return None
    spare = [name for name in known if not blanked or name in blanked]
    if not spare or len(known) < 2:
        return None
    return replace(asked, left_out=(*asked.left_out, spare[0]))


def _notes(trials: Sequence[Trial], best: Trial, choice: Choice, records: int, untried: Sequence[str]) -> Iterator[str]:
    yield f"{choice.said}, from 0 (nothing) to 1 (all), on {records:,} records; the least was chosen:"
    for trial in sorted(trials, key=lambda trial: (not trial.holds, choice.score(trial))):
        figure = format(choice.score(trial), ".3f") if trial.holds else "cannot meet the guarantees"
        gone = [*trial.blanked, *trial.thinned]
        blank = f" (blanks {', '.join(gone)})" if trial.holds and gone else ""
        fewer = f" (on {trial.records:,} records)" if trial.holds and trial.records < records else ""
        yield f"  {figure}: {'; '.join(trial.stages)}{blank}{fewer}"
    for stages in untried:
        yield f"  not tried within `--seconds`: {stages}"
    if not best.stages[0].startswith("generalize"):
        yield "Cells of one column may have labels of several levels."


REPLACED_STAGES = ("generalize", "mondrian", "local_recoding", "suppress_cells", "suppress_records")
Suggestion = dict[str, Any]


def suggested(
    policy: Policy, *, seconds: float = SECONDS, tell: Callable[[str], None] = lambda step: None
) -> list[Suggestion]:
    """What each method makes of a sample, the least loss first; those that do not meet the guarantees last.

    The other stages of the policy stay unchanged; what searches for its guarantees is replaced.

    Parameters
    ----------
    policy : Policy
    seconds : float
        CPU seconds that trials may take.
    tell : callable, optional
        Called with each step.

    Raises
    ------
    UsageError
        No quasi-identifier has a hierarchy.
    """
    require_one_table(policy, "compare --suggest")
    names = [name for name in policy.roles.quasi_identifiers if name in policy.hierarchies]
    if not names:
        raise UsageError("no quasi-identifier of the policy has a `hierarchy:`, so there is nothing to choose from")
    clock = Clock(seconds, tell)
    with open_engine("embedded") as engine:
        rows = sample_of(engine, policy)
        found = [
            _row(policy, trial)
            for trial in _compared_trials(policy, _candidates(policy, names, rows), rows, engine, clock)
        ]
    return sorted(found, key=lambda row: (row["loss"] is None, row["score"] if row["loss"] is not None else 1.0))


def _candidates(policy: Policy, names: list[str], rows: Any) -> list[Candidate]:
    profiles = []
    for name in names:
        column = rows.column(name)
        kind: Any = policy.types.get(name, "text")
        numeric = kind in NUMBERS
        profiles.append(
            Profile(name, kind, len(rows), column.null_count, len(column.unique()), spread=1.0 if numeric else 0.0)
        )
    hierarchies = {name: policy.hierarchies[name].to_dict() for name in names}
    k = max((int(each.parameters().get("k") or 1) for each in policy.guarantees), default=2)
    return list(candidates(profiles, hierarchies, [each.name() for each in policy.guarantees], max(k, 2)))


def _compared_trials(
    policy: Policy, methods: list[Candidate], rows: Any, engine: Engine, clock: Clock
) -> Iterator[Trial]:
    for at, method in enumerate(methods):
        if at and clock.left <= 0:
            clock.missed(method.stages)
            continue
        clock.tell(f"try {method.stages[0].partition(':')[0]}")
        try:
            made = _with(policy, method.stages)
        except (PolicyError, UnsupportedError):
            continue
        yield tried(method.stages, made, rows.slice(0, method.records) if method.records else rows, engine)


def _with(policy: Policy, stages: tuple[str, ...]) -> Policy:
    from privpipe.policy.plain_values import from_yaml

    document: Any = copy.deepcopy(dict(policy.document))
    lines, _ = from_yaml("\n".join(f"- {stage}" for stage in stages), "stages")
    kept = [each for each in document.get("transform") or [] if next(iter(each)) not in REPLACED_STAGES]
    document["transform"] = [*kept, *lines]
    return Policy.from_dict(document, policy.base_dir)


def _row(policy: Policy, trial: Trial) -> Suggestion:
    uses = {str(use): lost_of_use(use, trial.paired) for use in policy.uses} if trial.paired is not None else {}
    score = sum(uses.values()) / len(uses) if uses else trial.loss
    return {
        "stages": list(trial.stages),
        "loss": trial.loss if trial.holds else None,
        "score": score if trial.holds else None,
        "uses": uses,
        "columns": dict(trial.columns),
        "suppressed": trial.suppressed if trial.holds else None,
        "records": trial.records,
        "seconds": round(trial.seconds, 1),
    }
