"""What counts as risk and as loss of a comparison: entries of the policy by name, and any other measure there is."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from privpipe.errors import PolicyError, UsageError, did_you_mean
from privpipe.policy import Policy
from privpipe.policy.entries import Catalogues
from privpipe.policy.plain_values import from_yaml

if TYPE_CHECKING:
    from privpipe.blocks import Guarantee

__all__ = ["Chosen", "measure_of"]

CELL_LOSS = {"cell_loss": "quality.cell_loss"}
"""Short for what is asked most."""


@dataclass(frozen=True)
class Chosen:
    """Which entries of a policy are risk and which are loss.

    They are called by their catalogue name: ``record_linkage``, ``information_loss.il1s``, and ``record_linkage[2]``
    for a second of that name. A measure that the policy lacks is called as `measure_of` reads it.

    Parameters
    ----------
    policy : Policy
        With the measures that were asked for besides.
    risk, loss : tuple of str
    names : tuple of str
        Of all entries of the policy, in their order.
    kinds : mapping of str to str
        Catalogue name of each.
    """

    policy: Policy
    risk: tuple[str, ...]
    loss: tuple[str, ...]
    names: tuple[str, ...]
    kinds: Mapping[str, str]

    @classmethod
    def of(cls, policy: Policy, risk: Sequence[str] = (), loss: Sequence[str] = ()) -> Chosen:
        """Those named; left out: every measure of risk that has a threshold form, and the first of loss.

        Raises
        ------
        UsageError
            A name that no entry of the policy and no measure has, a figure that is safer the larger it is, or none to
            choose from.
        PolicyError
            A measure that this policy cannot have.
        """
        named = _named(policy.entries)
        more = [text for text in dict.fromkeys((*risk, *loss)) if text not in named]
        read = {text: measure_of(text, tuple(named)) for text in more}
        if read:
            document = copy.deepcopy(dict(policy.document))
            document["measures"] = [*(document.get("measures") or ()), *read.values()]
            policy = Policy.from_dict(document, policy.base_dir)
        entries = dict(zip((*named, *read), policy.entries, strict=True))
        for axis, texts in (("risk", risk), ("loss", loss)):
            for text in texts:
                _require_fit(axis, text, entries[text])
        found = tuple(risk) or tuple(name for name, entry in entries.items() if _is_of(entry, "risk"))
        lost = tuple(loss) or tuple(name for name, entry in entries.items() if _is_of(entry, "utility"))[:1]
        if not found or not lost:
            what, hint = ("risk", "record_linkage") if not found else ("loss", "information_loss")
            raise UsageError(
                f"the policy has no measure of {what}; add one under `measures:`, such as {hint}, or name one with "
                f"--{what}"
            )
        return cls(policy, found, lost, tuple(entries), {name: entry.name() for name, entry in entries.items()})


def measure_of(text: str, known: Sequence[str] = ()) -> dict[str, dict[str, Any]]:
    """The entry of a policy that a text stands for: ``NAME``, ``NAME.KIND`` or ``NAME:parameter=value,...``.

    Parameters
    ----------
    text : str
        KIND is the value of the parameter `measure` or `name`; values are as YAML has them, lists in brackets.
    known : sequence of str
        More names that may have been meant.

    Raises
    ------
    UsageError

    Examples
    --------
    >>> measure_of("prosecutor_risk"), measure_of("information_loss.il1s:columns=[age, income]")
    ({'prosecutor_risk': {}}, {'information_loss': {'measure': 'il1s', 'columns': ['age', 'income']}})
    >>> measure_of("cell_loss")
    {'quality': {'name': 'cell_loss'}}
    """
    called, _, said = text.partition(":")
    name, _, kind = CELL_LOSS.get(called, called).partition(".")
    rooms = Catalogues.shipped().of("measures")
    room = next((room for room in rooms if name in room), None)
    if room is None:
        names = [*known, *CELL_LOSS, *(each for each_room in rooms for each in each_room)]
        raise UsageError(f"no entry of the policy and no measure is called {called!r}{did_you_mean(called, names)}")
    own = {field.name for field in dataclasses.fields(room[name])}  # type: ignore[arg-type]
    given = {**({"measure" if "measure" in own else "name": kind} if kind else {}), **_parameters(text, said)}
    wrong = room[name].problems(given)
    if wrong:
        told = (f"{key}: {problem}" if key else problem for key, problem in wrong.items())
        raise UsageError(f"{text}: {'; '.join(told)}")
    return {name: given}


def _parameters(text: str, said: str) -> dict[str, Any]:
    found = {}
    for part in _parts(said):
        name, equals, value = part.partition("=")
        if not equals or not name.strip():
            raise UsageError(f"{text}: write parameters as {text.partition(':')[0]}:parameter=value,other=value")
        read = None
        try:
            read, report = from_yaml(f"value: {value.strip()}", "")
            report.raise_if_wrong()
        except PolicyError:
            read = None
        if not isinstance(read, dict):
            raise UsageError(f"{text}: the value of {name.strip()} cannot be read")
        found[name.strip()] = read["value"]
    return found


def _parts(said: str) -> list[str]:
    """The text at its commas, but for those in brackets."""
    parts, depth = [""], 0
    for sign in said:
        depth += (sign in "[{") - (sign in "]}")
        if sign == "," and not depth:
            parts.append("")
        else:
            parts[-1] += sign
    return [part for part in parts if part.strip()]


def _require_fit(axis: str, text: str, entry: Guarantee) -> None:
    if getattr(type(entry), "direction", None) == "at_least":
        raise UsageError(
            f"--{axis} {text}: the larger this figure the safer the table, so that the least of it would win; name a "
            "measure that grows with what is lost"
        )
    other = "utility" if axis == "risk" else "risk"
    if f"measures.{other}." in type(entry).__module__:
        right = "loss" if axis == "risk" else "risk"
        raise UsageError(f"--{axis} {text}: is a measure of {right}; name it with --{right}")


def _is_of(entry: Guarantee, room: str) -> bool:
    return f"measures.{room}." in type(entry).__module__ and entry.threshold_field == "at_most"


def _named(entries: Sequence[Guarantee]) -> dict[str, Guarantee]:
    """Entries by catalogue name, with the kind of loss, and a number behind those that are not the first so far."""
    named: dict[str, Guarantee] = {}
    for entry in entries:
        kind = entry.parameters().get("measure")
        name = f"{entry.name()}.{kind}" if kind else entry.name()
        times = sum(other == name or other.startswith(f"{name}[") for other in named)
        named[name if not times else f"{name}[{times + 1}]"] = entry
    return named
