"""What a notebook shows of policies, plans, verdicts and hierarchies: escaped, short, and no value of the data."""

from __future__ import annotations

from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any

import pandas as pd
import pytest

import privpipe as pp
from privpipe.blocks.public_edition import shown_parameters
from privpipe.hierarchies import HierarchySpec
from privpipe.html_tables import MOST_ROWS, Table, html_tables

HOSTILE = "<script>alert('x')</script>\"&\u202e$x$"
SECRET = "0123456789abcdef0123456789abcdef"
TOWNS = ("Zanzibarium", "Quuxville", "Fnordstadt", "Grumblecity")
AGES = (97123, 97127, 97131, 97137)
LONGEST = 200
EMPTY = {"br", "hr", "img", "input", "link", "meta"}


class Page(HTMLParser):
    """Tags that must close, and the text between them."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag not in EMPTY
        self.open.append(tag)
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data

    @classmethod
    def of(cls, text: str) -> Page:
        page = cls()
        page.feed(text)
        page.close()
        assert not page.open
        return page


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    return pd.DataFrame({HOSTILE: [*TOWNS] * 3, "age": [*AGES] * 3, "ill": ["Xanthopox", "Yellowitis"] * 6})


@pytest.fixture(scope="module")
def policy() -> pp.Policy:
    document: dict[str, Any] = {
        "version": 1,
        "name": HOSTILE,
        "columns": {
            HOSTILE: {
                "role": "quasi_identifier",
                "hierarchy": {"tree": {"*": {"North": list(TOWNS[:2]), "South": list(TOWNS[2:])}}},
            },
            "age": {
                "role": "quasi_identifier",
                "type": "integer",
                "hierarchy": {"intervals": {"widths": [10, 100]}},
            },
            "ill": {"role": "sensitive"},
        },
        "transform": [{"generalize": {"levels": {HOSTILE: 1, "age": 2}}}],
        "guarantees": [{"k_anonymity": {"k": 2}}, {"distinct_l_diversity": {"column": "ill", "l": 2}}],
        "measures": [{"average_risk": {}}],
        "seed": {"insecure": SECRET},
        "allow_insecure_seed": True,
    }
    return pp.Policy.from_dict(document)


@pytest.fixture(scope="module")
def shown(frame: pd.DataFrame, policy: pp.Policy, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    plan = pp.plan(frame, policy)
    out, lost = pp.transform(frame, plan, losses=True)
    judged = pp.assess(out, policy)
    release = policy.release(frame, str(tmp_path_factory.mktemp("faces") / "out"))
    hierarchies = {
        f"hierarchy of {name}": spec.build(list(map(str, frame[name].unique())), None, policy.types.get(name))
        for name, spec in policy.hierarchies.items()
    }
    verdicts = {each.name: each for each in (*judged.verdicts, *judged.measures)}
    told = {"release": release, "losses": lost, "runs": pp.compare(release, release.record)}
    return {"policy": policy, "plan": plan, "assessment": judged, **told, **verdicts, **hierarchies}


def pages(shown: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for name, each in shown.items():
        yield name, each._repr_html_()


def test_pages_are_whole_and_hold_nothing_but_plain_tables(shown: dict[str, Any]) -> None:
    for name, text in pages(shown):
        page = Page.of(text)
        assert page.tags <= {"div", "p", "b", "table", "caption", "tr", "th", "td"}, name
        assert page.attributes <= {"class", "colspan"}, name
        assert "table" in page.tags, name


def test_a_hostile_name_is_text(shown: dict[str, Any]) -> None:
    for name in ("policy", "plan", f"hierarchy of {HOSTILE}"):
        text = shown[name]._repr_html_()
        assert "<script>alert(" in Page.of(text).text, name
        assert "\u202e" not in text, name
    assert "\u202e" not in repr(shown["policy"])


def test_no_value_of_the_data_and_no_secret_is_shown(shown: dict[str, Any]) -> None:
    for name, each in shown.items():
        said = each._repr_html_() + repr(each)
        for value in (*TOWNS, *map(str, AGES), "Xanthopox", "Yellowitis", SECRET):
            assert value not in said, name


def test_a_plan_shows_its_public_edition_alone(shown: dict[str, Any]) -> None:
    plan = shown["plan"]
    said = plan._repr_html_() + repr(plan)
    for private in (plan.seed_commitment, plan.seed_salt, plan.source, plan.hash_key.hex()):
        assert not private or private not in said
    assert plan.policy_digest[:12] in said
    assert "age 2" in Page.of(plan._repr_html_()).text


def test_a_release_shows_nothing_of_its_private_record(shown: dict[str, Any]) -> None:
    said = shown["release"]._repr_html_() + repr(shown["release"])
    private = shown["release"].manifest["plan"]
    for name in ("seed_commitment", "source", "policy_digest"):
        assert private[name] not in said, name


def test_text_is_short(shown: dict[str, Any]) -> None:
    for name, each in shown.items():
        assert len(repr(each)) <= LONGEST, name
        assert "\n" not in repr(each), name


def test_texts_in_words(shown: dict[str, Any]) -> None:
    assert repr(shown["k_anonymity"]) == "Verdict(k_anonymity, pass, observed 6, required 2)"
    assert repr(shown["assessment"]) == "Assessment(passed, 12 records, 2 guarantees, 0 of them failed, 1 measures)"
    assert repr(shown["plan"]).startswith("Plan(1 stages: generalize; policy ")
    assert repr(shown["policy"]).endswith("3 columns, 1 stages, 2 guarantees, 1 measures)")


def test_a_hierarchy_shows_the_labels_that_a_policy_writes_out(shown: dict[str, Any]) -> None:
    words = Page.of(shown[f"hierarchy of {HOSTILE}"]._repr_html_()).text
    assert "North" in words
    assert "South" in words
    counted = shown["hierarchy of age"]
    assert counted.labels(1)
    assert all(label not in counted._repr_html_() for label in counted.labels(1))


@pytest.mark.parametrize("mapping", [{"redact": {"keep": "left"}}, {"groups": {"order": "text", "sizes": [2]}}])
def test_labels_that_come_from_values_are_counted(mapping: dict[str, Any]) -> None:
    hierarchy = HierarchySpec.from_mapping(mapping, column="town").build(list(TOWNS), None, None)
    text = hierarchy._repr_html_()
    for level in range(hierarchy.height):
        assert all(label not in text for label in hierarchy.labels(level))


def test_a_label_that_is_a_raw_value_is_not_shown() -> None:
    rows = [["Quuxville", "Quuxville", "*"], ["Fnordstadt", "others", "*"]]
    text = pp.Hierarchy.from_rows(rows)._repr_html_()
    assert "others" in text
    assert "Quuxville" not in text
    assert "Fnordstadt" not in text


def test_a_file_of_labels_is_counted(tmp_path: Any) -> None:
    path = tmp_path / "zip.csv"
    path.write_text("08193;0819X;*\n08194;0819X;*\n", encoding="utf-8")
    assert "0819" not in pp.Hierarchy.read_csv(path)._repr_html_().replace(
        pp.Hierarchy.read_csv(path).digest()[:12], ""
    )


def test_words_and_tables_of_parameters_are_counted() -> None:
    given = {"column": "ill", "t": 0.2, "base": {"Xanthopox": 3}, "unheard": "Yellowitis", "several": ["Yellowitis"]}
    assert shown_parameters(pp.models.TCloseness, given) == (
        "column: ill, t: 0.2, base: 1 entry, unheard: a text, several: 1 value"
    )


def test_a_failed_assessment_says_why(frame: pd.DataFrame) -> None:
    judged = pp.assess(frame, [pp.models.KAnonymity(k=99)], quasi_identifiers=["age"])
    text = Page.of(judged._repr_html_()).text
    assert text.startswith("Failed")
    assert "k_anonymity: " in text
    assert repr(judged).startswith("Assessment(failed, 12 records, 1 guarantees, 1 of them failed")


def test_many_rows_are_counted() -> None:
    text = html_tables("many", Table(head=("a", "b"), rows=[(at, at) for at in range(MOST_ROWS + 7)]))
    assert Page.of(text).text.endswith("and 7 more")


def test_a_wide_policy_stays_a_page() -> None:
    names = [f"column_{at}" for at in range(500)]
    policy = pp.Policy(roles=pp.Roles(quasi_identifiers=names), guarantees=[pp.models.KAnonymity(k=2)])
    assert len(policy._repr_html_()) < 10_000
    assert len(repr(policy)) <= LONGEST
