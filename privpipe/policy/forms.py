"""Read how the text of a source is written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from privpipe.engines.base.text_form import FORM_KEYS, TextForm, form_faults
from privpipe.policy.draft import Draft
from privpipe.policy.places import Place, Report
from privpipe.policy.specs import SourceSpec

__all__ = ["check_dated_columns", "read_form"]


def read_form(report: Report, found: Mapping[str, Any], place: Place) -> TextForm:
    """The form that the keys of a source describe; what is wrong with it is noted.

    Parameters
    ----------
    found : mapping
        Keys of the source, each of the kind that the grammar demands.
    """
    given = {name: found[name] for name in FORM_KEYS if name in found}
    faults = dict(form_faults(given, found.get("delimiter", ",")))
    for name, fault in faults.items():
        report.wrong((*place, name), fault)
    return TextForm() if faults else TextForm(**given)


def check_dated_columns(draft: Draft, report: Report) -> None:
    """A date format is for a column that is declared a date: of any other it would be ignored."""
    for section in ("source", "original", "population"):
        spec = draft.values.get(section)
        formats = spec.form.date_format if isinstance(spec, SourceSpec) else {}
        for name in formats if isinstance(formats, Mapping) else ():
            declared = draft.columns[name].type if name in draft.columns else None
            if name in draft.unreadable_columns or declared in ("date", "timestamp"):
                continue
            said = f"declared {declared}" if declared else "not declared a date"
            report.wrong(
                (section, "date_format", name), f"column {name!r} is {said}; give it `type: date` or `type: timestamp`"
            )
