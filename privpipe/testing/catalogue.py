"""What a catalogue entry must bring along."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from privpipe.blocks import Catalogue, Entry

__all__ = ["catalogue_problems"]

EXPLAINED = ("source", "threat", "formula", "choose")


def catalogue_problems(catalogue: Catalogue, tests: Path | None = None) -> list[str]:
    """What the entries of a catalogue lack: empty when each is complete.

    Parameters
    ----------
    catalogue : Catalogue
    tests : Path, optional
        Folder that mirrors the room; each built-in entry's module must have a test file there, and plug-ins, whose
        tests lie elsewhere, are left out.

    Returns
    -------
    list of str
        One line a fault.

    Examples
    --------
    >>> from privpipe.models import CATALOGUE
    >>> catalogue_problems(CATALOGUE)
    []
    """
    problems = []
    for name in catalogue if tests is None else catalogue.built_in:
        entry = catalogue[name]
        problems += [f"{name}: {fault}" for fault in _faults(entry, explained=catalogue.kind == "privacy model")]
        module = Path(*catalogue.module_of(name).split("."))
        test = module.with_name(f"test_{module.name}.py")
        if tests is not None and not (tests / test).is_file():
            problems.append(f"{name}: has no test file {test}")
    return problems


def _faults(entry: type[Entry], *, explained: bool) -> list[str]:
    faults = _docstring_faults(entry)
    described = entry.descriptions()
    names = [field.name for field in dataclasses.fields(entry) if not field.name.startswith("_")]  # type: ignore[arg-type]
    faults += [
        f"parameter {name} has no line of text: `Doc(...)` in its annotation" for name in names if name not in described
    ]
    faults += [f"`{text}` is empty" for text in EXPLAINED if explained and not getattr(entry, text)]
    if entry.summary().count("\n") or not entry.summary().endswith("."):
        faults.append("the first line of its docstring is no sentence")
    return [*faults, *_example_faults(entry)]


def _docstring_faults(entry: type[Entry]) -> list[str]:
    text = entry.__doc__ or ""
    return [] if text.strip() and "Examples\n" in text else ["its docstring is missing or has no example"]


def _example_faults(entry: type[Entry]) -> list[str]:
    examples = entry.examples()
    if not examples:
        return ["it has no examples"]
    changed = [example for example in examples if entry.build(_plain(example)) != example]
    return ["an example does not survive the way through a policy"] * len(changed)


def _plain(entry: Entry) -> dict[str, object]:
    """Parameters as a policy would write them."""
    from privpipe.blocks.verdict import plain

    parameters: dict[str, object] = plain(entry.parameters())
    return parameters
