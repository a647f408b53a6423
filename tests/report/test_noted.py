"""Notes, alarms and what entries guard against are said in the language of the page, whoever made the sentence."""

from __future__ import annotations

import re
from string import Formatter
from types import SimpleNamespace

import pytest

from privpipe.engines.readers.files import left_out_note
from privpipe.engines.readers.unjudged_content import unjudged_note
from privpipe.judging.column_loss import ColumnLoss, ColumnLossRule, LossTable
from privpipe.judging.counted_classes import alone_notes
from privpipe.judging.judging import guarantee_notes
from privpipe.judging.notes import Values, near_unique_notes
from privpipe.judging.recovery import WORDS, Recovered
from privpipe.ledger import NOT_JUDGED
from privpipe.ledger.ledger import FEW_KNOWN
from privpipe.measures import CATALOGUE as MEASURES
from privpipe.models import CATALOGUE as MODELS
from privpipe.models import DistinctLDiversity, KAnonymity
from privpipe.reporting.entry_rows import without_few
from privpipe.reporting.officer.languages import LANGUAGES, Language, Messages, Numbers, catalogue, noted
from privpipe.reporting.officer.page import report_page
from privpipe.reporting.officer.report_data import ReportData
from privpipe.reporting.run_documents import RunDocuments
from privpipe.roles import Roles
from privpipe.running.release_memory import NOT_REMEMBERED
from privpipe.running.run_documents import INSECURE
from privpipe.sinks import delta, iceberg
from privpipe.sinks.target import WHAT

OTHERS = [lang for lang in LANGUAGES if lang != "en"]
SAMPLES = {"entry": "k_anonymity", "stages": "rank_swap, add_noise", "done": "coded", "unit": "household"}
SAMPLES |= {"part": "source", "share": "33.3 %", "label": "12 %", "columns": "'a', 'b'", "loss": "0.912"}
SAMPLES |= dict.fromkeys(("count", "all", "before", "after"), "1,204") | {"most": "0.9"}
SAMPLES["figures"] = "k_anonymity observed 3, entropy_l_diversity observed 1.25"


def said(sentence: str, lang: Language = "de") -> str:
    found = noted(sentence, Messages.of(lang), Numbers(lang))
    assert not found.english, sentence
    return found.text


@pytest.mark.parametrize("lang", OTHERS)
def test_each_note_of_the_catalogue_is_found_again(lang: Language) -> None:
    for key, text in catalogue("en").items():
        if key.startswith("note."):
            given = {name: SAMPLES.get(name, "'x'") for _, name, _, _ in Formatter().parse(text) if name}
            marks = {name: value for name, value in given.items() if value == "'x'"}
            translated = said(text.format_map(given) if given else text, lang)
            own = re.escape(catalogue(lang)[key])
            assert re.fullmatch(re.sub(r"\\\{\w+\\\}", ".+", own), translated), key
            assert all(value in translated for value in marks.values())


def test_what_the_rooms_say_is_known() -> None:
    roles = Roles(quasi_identifiers=["zip", "age"], sensitive=["ill"], insensitive=["cost"])
    sentences = [
        *near_unique_notes({"cost": Values(900, 800)}, 1000, None),
        *near_unique_notes({"cost": Values(900, 800)}, 1000, "family"),
        *guarantee_notes([KAnonymity(k=1, quasi_identifiers=("zip",))], roles, whole=True),
        *guarantee_notes([DistinctLDiversity(column="ill", l=2)], Roles(sensitive=["ill"]), whole=True),
        *(f"source: {left_out_note(names)}" for names in (["_a"], ["_a", "_b"])),
        *alone_notes(SimpleNamespace(alone=12, released=2000), ("zip", "age"), roles),  # type: ignore[arg-type]
        *alone_notes(SimpleNamespace(alone=12, released=2000), ("zip",), roles),  # type: ignore[arg-type]
        *(each for made in (delta, iceberg) for each in (made.JOINS, made.CHANGED)),
        *(delta.KEEPS_VERSIONS, iceberg.KEEPS_SNAPSHOTS, NOT_JUDGED, NOT_REMEMBERED, INSECURE),
        *(FEW_KNOWN.format(known=0, persons=1204, unit=unit) for unit in ("persons", "combinations")),
        *(unjudged_note(found) for found in ({"hidden": 1}, {"old": 2, "stray": 1})),
        "Parquet files hold metadata that is neither rows nor their writers' own: 'note'",
        f"the name of column '=a' {WHAT}: they are written behind an apostrophe",
    ]
    for by in (("cost",), ("cost", "sex")):
        found = Recovered(column="age", by=by, records=1000, right=900, by_label=125, determined=10)
        sentences += [
            f"{found} although it was {done}; drop `cost`, {remedy} (its label alone reveals 12.5 %)"
            for done in (*WORDS.values(), "transformed")
            for remedy in ("or generalize it further", "generalize it, or make it a quasi-identifier")
        ]
    alarms = LossTable(
        columns=tuple(
            ColumnLoss(column="a", role="sensitive", labels_before=before, labels_after=0, loss=0.95, alarm=alarm)
            for alarm in ("blank", "one label", "loss", "blanked", "zeros")
            for before in (None, 1, 1204)
        ),
        records=90,
        rule=ColumnLossRule(),
    ).alarms
    for sentence in (*sentences, *alarms):
        assert said(sentence) != sentence


def test_numbers_names_and_masked_counts_are_written_as_in_the_language() -> None:
    text = "1,204 of 20,000 records are complete in the quasi-identifiers and equal no other complete record: "
    text += "blanks of others alone hide them"
    assert said(text).startswith("1.204 von 20.000 Datensätzen")
    assert said(without_few(text.replace("1,204", "3"), 5)).startswith("weniger als 5 von 20.000")
    told = said("`a` has 7 values, 5 of them apart from spelling; after folding entropy_l_diversity observed 1.5")
    assert told.endswith("Entropie-l-Diversität: 1,5")


def test_names_of_columns_take_no_part_in_a_sentence() -> None:
    named = "`x` has one label left of {count}` has one label left"
    assert said(named) == "`x` has one label left of {count}` hat nur einen Wert behalten"


def test_the_english_of_what_entries_guard_against_is_their_own() -> None:
    known = {key.removeprefix("guards."): text for key, text in catalogue("en").items() if key.startswith("guards.")}
    for name, text in known.items():
        entry = MODELS[name] if name in MODELS else MEASURES[name]
        assert text == " ".join(entry.threat.split())
    assert len(known) > 50


@pytest.mark.parametrize("lang", OTHERS)
def test_nothing_on_the_pages_stays_english(lang: Language, documents: dict[str, RunDocuments]) -> None:
    for run in documents.values():
        page = report_page(ReportData.of(run), lang)
        assert 'lang="en"' not in page
        assert catalogue(lang)["as_english"] not in page
    odd = RunDocuments("a", {**run.verdict, "notes": ["said by a plug-in"]}, run.manifest, run.report)
    assert '<li lang="en">said by a plug-in</li>' in report_page(ReportData.of(odd), lang)
