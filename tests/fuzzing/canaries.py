"""Every public function over hostile tables: no canary in an exception, its chain, a log record or a warning.

``python -m tests.fuzzing.canaries --tables 2000`` runs all tables, each through some functions in turn.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import re
import tempfile
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

import privpipe as pp
from privpipe.errors import PrivpipeError
from privpipe.measures import CATALOGUE as MEASURES
from privpipe.models import CATALOGUE as MODELS
from privpipe.testing import people
from privpipe.transforms import CATALOGUE as TRANSFORMS
from tests.fuzzing.canary_tables import BASE, CANARY, ROWS, hostile, table_of

__all__ = ["FACES", "Trial", "leaks", "tried"]

PEOPLE = people(ROWS)
KEYS = ["age", "zip", "town", "sex"]
ROLES = pp.Roles(
    quasi_identifiers=KEYS,
    sensitive=["illness"],
    identifiers=["name"],
    insensitive=["household", "income", "born", "weight"],
)
HIERARCHIES = {name: given["hierarchy"] for name, given in PEOPLE.columns.items() if "hierarchy" in given}
STAGES: list[dict[str, Any]] = [{"top_code": {"columns": ["income"], "at": 50}}, {"generalize": {}}]
BESIDE: dict[str, Any] = {"original": BASE, "align": "position"}
Face = Callable[[Any, Path], Any]


def _policy(**more: Any) -> pp.Policy:
    document = {"version": 1, "columns": PEOPLE.columns, "guarantees": list(PEOPLE.guarantees), **more}
    return pp.Policy.from_dict(document)


def _no_section(value: Any) -> Any:
    """A value that is not a section of a policy: errors quote the keys of a mapping, which are policy text."""
    return [value] if isinstance(value, dict) else value


def _released(frame: Any, place: Path, **more: Any) -> Any:
    path = _file(frame, place)
    sink = {"path": str(place / "out"), "format": "parquet"}
    found = pp.release(_policy(source={"path": path}, sink=sink, transform=STAGES, **more))
    pp.read_release(str(place / "out"))
    return found


def _file(frame: Any, place: Path) -> str:
    """The table as a file, where it can be one."""
    if isinstance(frame, str):
        return frame
    path = place / "source.parquet"
    try:
        frame.to_parquet(path)
    except Exception:  # noqa: BLE001 not what is tried here
        with contextlib.suppress(Exception):
            path = path.with_suffix(".csv")
            frame.to_csv(path)
    return str(path)


def _cli(*words: str) -> Face:
    def run(frame: Any, place: Path) -> None:
        from typer.testing import CliRunner

        from privpipe.cli import app

        source = _file(frame, place)
        policy = place / "policy.yaml"
        sink = {"path": str(place / "out")}
        policy.write_text(_policy(source={"path": source}, sink=sink, transform=STAGES).to_yaml())
        given = [{"SOURCE": source, "POLICY": str(policy)}.get(word, word) for word in words]
        ours = logging.getLogger("privpipe")
        before = list(ours.handlers)
        try:
            done = CliRunner().invoke(app, given)
        finally:
            ours.handlers[:] = before  # that of --debug writes to a stream of this call
        if re.search(CANARY, done.output) and "init" not in words:
            raise AssertionError(f"printed: {done.output}")
        if done.exit_code == 1:
            raise PrivpipeError("a crash")

    return run


def _sklearn(frame: Any, place: Path) -> Any:
    from privpipe.sklearn import RankSwap, TopCode

    TopCode(at=80).fit_transform(frame)
    return RankSwap(columns=["income"], p=0.2).fit(BASE).transform(frame)


def _expectation(frame: Any, place: Path) -> Any:
    from privpipe.gx.batch import Asked, opened

    asked = Asked(roles=ROLES, counted=("illness",), nulls="own_value", mark="*")
    return opened(frame).judged(pp.models.DistinctLDiversity(column="illness", l=2), asked)


def _dbt(frame: Any, place: Path) -> Any:
    from privpipe.dbt import gate, release

    policy = place / "policy.yaml"
    policy.write_text(_policy(transform=STAGES).to_yaml())
    for verb in (gate, release):
        verb(None, frame, str(policy))


def _fitted(name: str) -> Face:
    stage = TRANSFORMS[name].examples()[0]

    def run(frame: Any, place: Path) -> Any:
        fitted = stage.fit(BASE, roles=ROLES, hierarchies=HIERARCHIES, engine=None)
        return fitted.transform(frame)

    return run


def _applied(name: str, **options: Any) -> Face:
    stage = TRANSFORMS[name].examples()[0]
    return lambda frame, place: stage.apply(frame, roles=ROLES, hierarchies=HIERARCHIES, **options)


def _judged(entry: Any, **options: Any) -> Face:
    def run(frame: Any, place: Path) -> Any:
        return entry.assess(frame, quasi_identifiers=KEYS, sensitive=["illness"], **options)

    return run


def _hierarchy(frame: Any, place: Path) -> Any:
    values = list(frame["age"]) if isinstance(frame, pd.DataFrame) else [frame]
    with contextlib.suppress(PrivpipeError):
        pp.Hierarchy.from_rows([[value, "*"] for value in values], column="age")
    return pp.Hierarchy.read_csv(_file(frame, place))


FACES: dict[str, Face] = {
    "observe.k_anonymity": lambda frame, place: pp.k_anonymity(frame, KEYS),
    "observe.l_diversity": lambda frame, place: pp.l_diversity(frame, KEYS, "illness"),
    "observe.t_closeness": lambda frame, place: pp.t_closeness(frame, KEYS, "illness", distance="ordered"),
    "observe.uniqueness": lambda frame, place: pp.uniqueness(frame, ["born", "income"]),
    "observe.average_risk": lambda frame, place: pp.average_risk(frame, ["name", "household", "weight"]),
    "assess": lambda frame, place: pp.assess(frame, _policy()),
    "assess of a file": lambda frame, place: pp.assess(_file(frame, place), _policy()),
    "assess with an original": lambda frame, place: pp.assess(BASE, _policy(), original=frame, align="position"),
    "assess on Dask": lambda frame, place: pp.assess(frame, _policy(), engine="dask"),
    "check": lambda frame, place: pp.check(frame, [pp.models.KAnonymity(k=5)], roles=ROLES, nulls="wildcard"),
    "check of a population": lambda frame, place: pp.check(
        BASE, [pp.models.KMap(k=2)], quasi_identifiers=KEYS, population=frame
    ),
    "validate": lambda frame, place: pp.validate(frame, _policy()),
    "plan": lambda frame, place: pp.plan(frame, _policy(transform=STAGES)),
    "plan and transform": lambda frame, place: pp.transform(frame, pp.plan(BASE, _policy(transform=STAGES))),
    "transform by stages": lambda frame, place: pp.transform(
        frame, [pp.transforms.TopCode(columns=["age"], at=40), pp.transforms.Round(columns=["income"], base=5)]
    ),
    "Policy.apply": lambda frame, place: _policy(transform=STAGES).apply(frame),
    "Policy.apply on Dask": lambda frame, place: _policy(transform=STAGES).apply(frame, engine="dask"),
    "Policy.release": lambda frame, place: _policy(transform=STAGES, sink={"path": str(place / "out")}).release(frame),
    "Policy of a value": lambda frame, place: pp.Policy.from_dict(
        {"version": 1, "columns": {"age": _no_section(frame)}}
    ),
    "release": _released,
    "release on Dask": lambda frame, place: _released(frame, place, engine="dask"),
    "release as CSV": lambda frame, place: pp.release(
        _policy(
            source={"path": _file(frame, place)}, sink={"path": str(place / "o"), "format": "csv"}, transform=STAGES
        )
    ),
    "init": lambda frame, place: pp.init(frame, seconds=0.01),
    "init of a file": lambda frame, place: pp.init(_file(frame, place), seconds=0.01, out=place / "drafted.yaml"),
    "plan_cost": lambda frame, place: pp.plan_cost(_policy(transform=STAGES), frame),
    "compare": lambda frame, place: pp.compare(frame, [_policy(transform=STAGES), _policy()]),
    "Hierarchy": _hierarchy,
    "fetch": lambda frame, place: pp.fetch(_file(frame, place), place / "fetched"),
    "report": lambda frame, place: pp.report(_file(frame, place)),
    "FittedStage.load": lambda frame, place: pp.FittedStage.load(_file(frame, place)),
    "scikit-learn": _sklearn,
    "Great Expectations": _expectation,
    "dbt": _dbt,
    "cli assess": _cli("--debug", "assess", "POLICY"),
    "cli validate": _cli("--debug", "validate", "SOURCE", "POLICY"),
    "cli release": _cli("--debug", "--verbose", "release", "POLICY"),
    "cli init": _cli("--debug", "init", "SOURCE", "--seconds", "1"),
    "cli hierarchy": _cli("--debug", "hierarchy", "check", "SOURCE"),
    **{f"models.{name}": _judged(MODELS[name].examples()[-1]) for name in MODELS},
    **{
        f"measures.{name}": _judged(MEASURES[name].examples()[-1], original=BASE, align="position") for name in MEASURES
    },
    **{f"apply {name}": _applied(name) for name in TRANSFORMS},
    **{f"fit {name}": _fitted(name) for name in TRANSFORMS},
    **{f"apply {name} on Dask": _applied(name, engine="dask") for name in ("generalize", "top_code", "pram")},
}


def leaks(error: BaseException) -> list[str]:
    """Where an exception shows a canary."""
    found: list[str] = []
    seen: set[int] = set()
    waiting = [("", error)]
    while waiting:
        path, each = waiting.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        shown = {"str": str(each), "repr": repr(each), "args": repr(each.args), "dict": repr(vars(each))}
        shown["notes"] = repr(getattr(each, "__notes__", ""))
        found += [f"{path}{type(each).__name__}.{name}" for name, text in shown.items() if re.search(CANARY, text)]
        for name in ("__cause__", "__context__"):
            inner = getattr(each, name)
            if inner is not None:
                waiting.append((f"{path}{type(each).__name__}.{name}.", inner))
    if re.search(CANARY, "".join(traceback.format_exception(error))):
        found.append("format_exception")
    return found


@dataclass
class Trial:
    """What one function made of one table.

    Parameters
    ----------
    outcome : str
        ``returned`` or the class of the exception.
    leaks : list of str
    """

    outcome: str
    ours: bool
    leaks: list[str] = field(default_factory=list)


class _Heard(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(logging.Formatter().format(record))


@contextlib.contextmanager
def _listening() -> Iterator[_Heard]:
    heard, root = _Heard(), logging.getLogger()
    level = root.level
    root.addHandler(heard)
    root.setLevel(logging.DEBUG)
    try:
        yield heard
    finally:
        root.removeHandler(heard)
        root.setLevel(level)


def tried(face: str, number: int) -> Trial:
    """One function over the table of a number."""
    with tempfile.TemporaryDirectory(prefix="canary-") as name, _listening() as heard:
        place = Path(name)
        table = table_of(hostile(number), number, place)
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            try:
                FACES[face](table, place)
                trial = Trial("returned", True)
            except Exception as error:  # noqa: BLE001 it is what is looked at
                trial = Trial(type(error).__name__, isinstance(error, PrivpipeError), leaks(error))
                if isinstance(error, AssertionError):
                    trial.leaks.append("output")
        trial.leaks += ["log" for line in heard.lines if re.search(CANARY, line)]
        trial.leaks += [f"warning {each.category.__name__}" for each in warned if re.search(CANARY, str(each.message))]
    return trial


def pairs(tables: int, each: int) -> Iterator[tuple[int, str]]:
    """Tables, each with some of the functions in turn."""
    names = list(FACES)
    for number in range(tables):
        for at in range(each):
            yield number, names[(number * each + number // 106 + at) % len(names)]


def main() -> None:
    """Run all, and print what came out."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--tables", type=int, default=2000)
    parser.add_argument("--each", type=int, default=3)
    asked = parser.parse_args()
    outcomes: Counter[str] = Counter()
    foreign: Counter[str] = Counter()
    leaking: Counter[str] = Counter()
    shown: Counter[str] = Counter()
    for number, face in pairs(asked.tables, asked.each):
        trial = tried(face, number)
        outcomes[trial.outcome] += 1
        foreign[trial.outcome] += not trial.ours
        if trial.leaks:
            leaking[trial.outcome] += 1
        if trial.leaks or not trial.ours or trial.outcome == "InternalError":
            line = f"{trial.outcome} from {face}: {hostile(number)}: {', '.join(trial.leaks)}"
            shown[line] += 1
            if shown[line] == 1:
                print(f"  {number} {line}", flush=True)
    print(f"{sum(outcomes.values()):,} calls over {asked.tables:,} tables and {len(FACES)} functions")
    print("outcome, calls, not ours, with a canary")
    for name, count in outcomes.most_common():
        print(f"{name:30} {count:7,} {foreign[name]:7,} {leaking[name]:7,}")
    print(f"calls with a canary: {sum(leaking.values()):,}")


if __name__ == "__main__":
    pd.set_option("display.max_rows", 5)
    main()
