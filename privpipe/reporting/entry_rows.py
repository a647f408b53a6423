"""Entries as rows of tables: judged ones, and those of the catalogues."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from privpipe.blocks import Catalogue, Entry, Guarantee
from privpipe.blocks.guarantee import COMMON_KEYS, MEETS
from privpipe.blocks.public_edition import PublicRules
from privpipe.blocks.verdict import plain
from privpipe.errors import UsageError
from privpipe.measures import CATALOGUE as MEASURES
from privpipe.models import CATALOGUE as MODELS
from privpipe.relations import JOINT_GUARANTEES
from privpipe.relations import STAGES as SET_STAGES
from privpipe.tables import CELL_GUARANTEES, STAGES
from privpipe.transforms import CATALOGUE as TRANSFORMS
from privpipe.transforms.base import Transformer

__all__ = [
    "FEW",
    "FEWEST_SHOWN",
    "JudgedRow",
    "asked_in_words",
    "catalogue_tables",
    "entry_class",
    "judged_row",
    "leading_figure",
    "own_parameters",
    "parameter_text",
    "public_figure",
    "without_few",
]


LEADING = ("loss", "share", "risk", "gain", "figure", "highest", "k", "average")
FEWEST_SHOWN = 5
FEW = "< 5 records"


def leading_figure(observed: Any) -> float | None:
    """The figure that a threshold is compared with, of a figure alone or of several under names; None without one.

    Examples
    --------
    >>> leading_figure(3), leading_figure({"columns": {"a": 0.1}, "loss": 0.2}), leading_figure(None)
    (3.0, 0.2, None)
    """
    if isinstance(observed, Mapping):
        named = [observed[name] for name in LEADING if name in observed]
        found = (leading_figure(value) for value in (*named, *observed.values()) if not isinstance(value, Mapping))
        return next((value for value in found if value is not None), None)
    if isinstance(observed, bool) or not isinstance(observed, int | float):
        return None
    return float(observed)


def public_figure(value: Any, records: int, *, share: bool = True) -> str:
    """A figure in a few characters, a share or count of fewer than 5 records as ``< 5 records``.

    Parameters
    ----------
    value : float, int, mapping, list, str or None
    records : int
        What a share is of.
    share : bool
        Whether figures between 0 and 1 are shares of records.

    Examples
    --------
    >>> public_figure(0.25, 100), public_figure(0.03, 100), public_figure(0.03, 100, share=False)
    ('0.25', '< 5 records', '0.03')
    >>> public_figure({"share": 0.5, "columns": {"age": 0.01}}, 100)
    'share 0.5, columns (age < 5 records)'
    """
    if value is None:
        return "-"
    if isinstance(value, Mapping):
        first = [name for name in LEADING if name in value]
        order = [*first, *(name for name in value if name not in first)]
        return ", ".join(_named(str(name), value[name], records, share) for name in order)
    if isinstance(value, list | tuple):
        return ", ".join(public_figure(item, records, share=share) for item in value)
    if isinstance(value, bool | str):
        return str(value)
    if share and 0 < value < 1 and value * records < FEWEST_SHOWN - 1e-9:
        return FEW
    return f"{value:,}" if isinstance(value, int) else f"{value:.6g}"


def _named(name: str, value: Any, records: int, share: bool) -> str:
    share = share or name.endswith("share")
    counts = share and isinstance(value, int) and not isinstance(value, bool) and 0 < value < FEWEST_SHOWN
    shown = FEW if counts else public_figure(value, records, share=share)
    return f"{name} ({shown})" if isinstance(value, Mapping) else f"{name} {shown}"


def entry_class(name: str) -> type[Entry] | None:
    """The class of a row's entry; None for one that this version does not have, nor a sound plug-in."""
    from privpipe.measures import CATALOGUE as MEASURES
    from privpipe.models import CATALOGUE as MODELS
    from privpipe.relations import JOINT_GUARANTEES
    from privpipe.relations import STAGES as SET_STAGES
    from privpipe.tables import CELL_GUARANTEES, STAGES
    from privpipe.transforms import CATALOGUE as TRANSFORMS

    for catalogue in (MODELS, MEASURES, TRANSFORMS, CELL_GUARANTEES, STAGES, JOINT_GUARANTEES, SET_STAGES):
        if name in catalogue:
            with contextlib.suppress(UsageError):
                found: type[Entry] = catalogue[name]
                return found
    return None


def own_parameters(row: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters that the user chose: those that are not the entry's defaults.

    Examples
    --------
    >>> own_parameters({"name": "record_linkage", "parameters": {"at_most": 0.05, "ties": "fractional"}})
    {'at_most': 0.05}
    """
    entry = entry_class(str(row["name"]))
    fields = dataclasses.fields(entry) if entry is not None else ()  # type: ignore[arg-type]
    defaults = {field.name: plain(field.default) for field in fields if field.default is not dataclasses.MISSING}
    return {name: value for name, value in row["parameters"].items() if not _same(value, defaults.get(name))}


def _same(value: Any, default: Any) -> bool:
    return value == default and isinstance(value, bool) is isinstance(default, bool)


def parameter_text(value: Any) -> str:
    """A parameter in a few characters.

    Examples
    --------
    >>> [parameter_text(value) for value in ("il1s", ["age", "zip"], 0.05, {"age": 2})]
    ['il1s', '[age, zip]', '0.05', '{"age": 2}']
    """
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return f"[{', '.join(value)}]"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


ATTACKS = ("measures.risk.linkage", "measures.risk.membership", "measures.risk.algorithm", "measures.risk.releases")
ATTACKS_ON_VALUES = ("measures.risk.attribute",)
CRITERIA = ("measures.risk.criteria",)
LOSSES = ("measures.utility",)
COUNTED = re.compile(
    r"(?<![\d,.])(\d{1,3}(?:,\d{3}){0,6})(?= (?:of (?:them|the|[\d,]+) )?"
    r"(?:[a-z]+ ){0,2}(?:records?|persons?|people|households?|cells?|rows?)\b)"
)


@dataclass(frozen=True, kw_only=True)
class JudgedRow:
    """One guarantee or measure.

    Parameters
    ----------
    name : str
        Of the catalogue.
    kind : {"risk", "attack", "criterion", "loss"}
    parameters : str
        Those that the user chose.
    columns : tuple of str
        What it is about, where it says so.
    observed, asked : Any
        Plain JSON; observed None where it is withheld or was not to be had.
    few : bool
        Whether the figure is based on too few records to be shown.
    direction : {"at_least", "at_most", "below"}
    margin : float or None
        The margin between the figure and the threshold; negative if it is not met.
    outcome : str
        ``pass``, ``fail``, ``error`` or ``measured``.
    warns : bool
    failing : int or None
        Failing records; None where few, none counted, or withheld.
    few_failing : bool
    share : bool
        Whether the figure is a share.
    table : str
        Which of related tables was judged alone, if any.
    """

    name: str
    kind: str
    parameters: str
    columns: tuple[str, ...] = ()
    observed: Any = None
    asked: Any = None
    few: bool = False
    direction: str = "at_most"
    margin: float | None = None
    outcome: str = "measured"
    warns: bool = False
    failing: int | None = None
    few_failing: bool = False
    share: bool = False
    table: str = ""


def judged_row(row: Mapping[str, Any], records: int, least: int) -> JudgedRow:
    """A row of a verdict document as a report shows it.

    Parameters
    ----------
    row : mapping
    records : int
        Of the table that was judged.
    least : int
        Records that a figure must be based on.

    Examples
    --------
    >>> row = {"name": "k_anonymity", "parameters": {"k": 5}, "observed": 7, "threshold": 5, "outcome": "pass"}
    >>> found = judged_row({**row, "failing_records": 0}, 100, 5)
    >>> found.direction, found.margin, found.failing
    ('at_least', 2.0, 0)
    """
    entry = entry_class(str(row["name"]))
    rules = PublicRules(columns=frozenset(), least=least)
    counts = entry is None or entry.counts_records()
    observed = row.get("observed")
    shown = rules.reported(observed, records) if counts else observed
    few = shown != observed
    failing = row.get("failing_records")
    direction = _direction(entry, row)
    asked = row.get("threshold")
    table = str(row.get("table") or "")
    own = {name: value for name, value in own_parameters(row).items() if name != _threshold_field(entry)}
    own = {"table": table, **own} if table else own
    return JudgedRow(
        name=str(row["name"]),
        kind=_kind(entry),
        parameters=", ".join(f"{name}: {parameter_text(value)}" for name, value in own.items()),
        columns=_columns(row["parameters"]),
        observed=shown,
        asked=asked,
        few=few,
        direction=direction,
        margin=None if few else _margin(observed, asked, direction),
        outcome=str(row.get("outcome", "measured")),
        warns=row.get("severity") == "warn",
        failing=rules.reported(failing, records),
        few_failing=failing is not None and rules.reported(failing, records) is None,
        share=counts,
        table=table,
    )


def asked_in_words(row: Mapping[str, Any], shown: str) -> str:
    """A threshold with the side of it that is good, in English.

    Examples
    --------
    >>> asked_in_words({"name": "k_anonymity", "parameters": {"k": 5}, "threshold": 5}, "5")
    'at least 5'
    """
    words = {"at_least": "at least", "at_most": "at most", "below": "below"}
    return (
        f"{words[_direction(entry_class(str(row['name'])), row)]} {shown}" if row.get("threshold") is not None else ""
    )


def _kind(entry: Any) -> str:
    module = getattr(entry, "__module__", "")
    if any(room in module for room in (*ATTACKS, *ATTACKS_ON_VALUES)):
        return "attack"
    if any(room in module for room in CRITERIA):
        return "criterion"
    return "loss" if any(room in module for room in LOSSES) else "risk"


def _threshold_field(entry: Any) -> str | None:
    found: str | None = getattr(entry, "threshold_field", None)
    return found


def _direction(entry: Any, row: Mapping[str, Any]) -> str:
    if "at_least" in row["parameters"] or _threshold_field(entry) in ("k", "l"):
        return "at_least"
    # Some attacks have a field of that name, which gives the direction of the search.
    found = getattr(entry, "direction", "at_most")
    return found if found in MEETS else "at_most"


def _columns(parameters: Mapping[str, Any]) -> tuple[str, ...]:
    for name in ("column", "columns", "quasi_identifiers"):
        value = parameters.get(name)
        if isinstance(value, str):
            return (value,)
        if isinstance(value, list) and all(isinstance(each, str) for each in value):
            return tuple(value)
    return ()


def _margin(observed: Any, asked: Any, direction: str) -> float | None:
    reached, wanted = leading_figure(observed), leading_figure(asked)
    if reached is None or wanted is None:
        return None
    return reached - wanted if direction == "at_least" else wanted - reached


def without_few(sentence: str, least: int) -> str:
    """A sentence without counts of records below what may be shown.

    Examples
    --------
    >>> without_few("3 records of 1,200 rows, 41 cells", 5)
    'fewer than 5 records of 1,200 rows, 41 cells'
    """
    return COUNTED.sub(lambda found: _few(found[1], least), sentence)


def _few(count: str, least: int) -> str:
    return f"fewer than {least}" if 0 < int(count.replace(",", "")) < least else count


def catalogue_tables(*, plug_ins: bool = False) -> str:
    """All entries of this package with their parameters, as Markdown.

    Parameters
    ----------
    plug_ins : bool
        Whether those of installed plug-ins are listed too.

    Examples
    --------
    >>> "`k_anonymity`" in catalogue_tables()
    True
    """
    parts = []
    for title, catalogue in (
        ("**Guarantees** (privacy models)", MODELS),
        ("**Transformers**", TRANSFORMS),
        ("**Measures**", MEASURES),
        ("**Stages on tables**", STAGES),
        ("**Guarantees on cells of tables**", CELL_GUARANTEES),
        ("**Stages on related tables**", SET_STAGES),
        ("**Guarantees on related tables**", JOINT_GUARANTEES),
    ):
        parts += ["", title, *_table(catalogue, catalogue if plug_ins else catalogue.built_in)]
    return "\n".join(parts[1:]) + "\n"


def _table(catalogue: Catalogue, names: Iterable[str]) -> Iterable[str]:
    transformers = catalogue is TRANSFORMS
    yield "| name | what it does | parameters |" + (" kind |" if transformers else "")
    yield "|---|---|---|" + ("---|" if transformers else "")
    for name in names:
        entry = catalogue[name]
        row = f"| `{name}` | {_cell(entry.summary())} | {_cell(', '.join(_parameters(entry)))} |"
        yield row + (f" {entry.taxon} |" if issubclass(entry, Transformer) else "")


def _parameters(entry: type[Entry]) -> Iterable[str]:
    shared = set(COMMON_KEYS) if issubclass(entry, Guarantee) else set()
    for field in dataclasses.fields(entry):  # type: ignore[arg-type]
        if field.name not in shared:
            yield f"`{field.name}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
