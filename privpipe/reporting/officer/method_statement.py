"""What may be published about the method of a release, ready to copy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from privpipe.reporting.entry_rows import entry_class

if TYPE_CHECKING:
    from privpipe.reporting.officer.wording import Wording

__all__ = ["method_statement"]

PERTURBING = ("perturbative", "synthetic")


def method_statement(say: Wording) -> list[str]:
    """The statement sentence by sentence; from what is public of the method alone.

    Parameters
    ----------
    say : Wording
        The report in the language of the page.
    """
    text, data = say.messages.text, say.data
    released = sum(row.released for row in data.columns)
    kinds = {stage["kind"] for stage in data.stages}
    found = [
        text("statement.intro", name=data.run["name"], version=data.run["versions"].get("privpipe", "")),
        text(
            "statement.columns" if released < len(data.columns) else "statement.columns_same",
            released=say.numbers.number(released),
            all=say.numbers.number(len(data.columns)),
        ),
        text("statement.records", records=say.figure(data.records["released"])),
    ]
    stages = [
        say.stage(each["name"]) + (f" ({each['parameters']})" if each["parameters"] else "") for each in data.stages
    ]
    found.append(text("statement.stages", stages="; ".join(stages)) if stages else text("statement.no_stages"))
    levels = {name: level for each in data.stages for name, level in each["levels"].items()}
    if levels:
        found.append(text("statement.levels", levels=say.levels(levels)))
    if kinds & set(PERTURBING):
        found.append(text("statement.perturbed"))
    elif stages:
        found.append(text("statement.coarse"))
    held = [
        f"{say.title(row.name)} ({say.asked(row)})" if row.asked is not None else say.title(row.name)
        for row in data.guarantees
        if row.outcome == "pass"
    ]
    found.append(text("statement.judged", guarantees="; ".join(dict.fromkeys(held))))
    if any(_suppresses(stage["name"]) for stage in data.stages):
        found.append(text("statement.missing"))
    return found


def _suppresses(name: str) -> bool:
    return bool(getattr(entry_class(name), "suppresses", False))
