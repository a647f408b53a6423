"""Checks of `doctor` that ask what is installed: versions that fit together, and a solver that solves."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from importlib import metadata
from typing import Any

from privpipe.cli.finding import Finding
from privpipe.errors import PrivpipeError

__all__ = ["check_packages", "check_solver"]

_NAME = re.compile(r"[\w.-]+")
_BOUND = re.compile(r"(>=|<=|==|!=|<|>)\s*([\d.]+)")
_HOLDS: dict[str, Callable[[Any, Any], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
}


def check_packages() -> Finding:
    """Every package the core needs, by its metadata alone: importing them all takes seconds."""
    missing, other, found = [], [], []
    try:
        requirements = metadata.requires("privpipe") or []
    except metadata.PackageNotFoundError:
        return Finding("packages", "warning", "privpipe runs from a folder, not installed", "pip install privpipe")
    for requirement in requirements:
        named = _NAME.match(requirement)
        if named is None or "extra ==" in requirement:
            continue
        try:
            version = metadata.version(named[0])
        except metadata.PackageNotFoundError:
            missing.append(named[0])
            continue
        found.append(f"{named[0]} {version}")
        asked = requirement.partition(";")[0][named.end() :].strip()
        if not _within(version, asked):
            other.append(f"{named[0]} {version} is installed and {asked} is needed")
    if missing or other:
        told = [f"missing: {', '.join(missing)}"] * bool(missing) + other
        return Finding("packages", "failed", "; ".join(told), "pip install --upgrade privpipe")
    return Finding("packages", "ok", ", ".join(found) or "all")


def check_solver() -> Finding:
    """Whether a small integer program is modelled and solved, the way cell suppression does it."""
    title, remedy = "integer programs", "pip install --upgrade --force-reinstall pulp scipy"
    try:
        from privpipe.kernels.integer_programs import NAME, PACKAGE
        from privpipe.transforms.local_suppression.integer_programs import new_program, new_variable, solve

        program = new_program()
        whole = new_variable(program, "x", 9)
        program += whole + 0
        program += 2 * whole >= 3
        solved = solve(program, seconds=60)
    except PrivpipeError as error:
        return Finding(title, "failed", str(error), remedy)
    except Exception as error:  # noqa: BLE001 whatever breaks a foreign library is the finding
        return Finding(title, "failed", f"none could be modelled ({type(error).__name__})", remedy)
    if not solved.proved or whole.value() != 2:
        return Finding(title, "failed", f"{PACKAGE} gives a wrong optimum", remedy)
    told = f"{NAME} in {PACKAGE} {metadata.version(PACKAGE)} solves them, pulp {metadata.version('pulp')} models them"
    return Finding(title, "ok", told)


def _within(version: str, asked: str) -> bool:
    """Whether a version lies within bounds as our own requirements write them.

    Examples
    --------
    >>> _within("1.26.4", ">=2.0"), _within("2.0.0", ">=1.5,!=2.0.0"), _within("2.0.1", "!=2.0.0,>=1.5")
    (False, False, True)
    """
    return all(_HOLDS[sign](_release(version), _release(bound)) for sign, bound in _BOUND.findall(asked))


def _release(version: str) -> tuple[int, ...]:
    """Its numbers without trailing zeros; what is behind them (rc1, .post1) is left out.

    Examples
    --------
    >>> _release("2.0.0rc1"), _release("1.10.3")
    ((2,), (1, 10, 3))
    """
    numbers = [int(part) for part in re.match(r"[\d.]*", version)[0].split(".") if part]  # type: ignore[index]
    while numbers and not numbers[-1]:
        numbers.pop()
    return tuple(numbers)
