"""A wrong policy says everything that is wrong with it, where, and what to do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from privpipe.errors import PolicyError, UsageError

SOUND = """\
version: 1
name: small
source: {path: data.csv, format: csv, delimiter: ";"}
columns:
  age: {role: quasi_identifier, type: integer}
  zip: {role: quasi_identifier}
  illness: {role: sensitive}
  ward: {role: insensitive}
  name: {role: identifier}
record_id: name
transform:
  - swap: {columns: [age]}
guarantees:
  - crowd: {k: 5}
  - spread: {column: illness, t: 0.2}
measures:
  - linkage: {}
sink: {path: published/small}
"""


def problems(read: Any, text: str) -> list[str]:
    """What the reader says, each as `line place: message`, without the file."""
    with pytest.raises(PolicyError) as caught:
        read(text)
    assert caught.value.exit_code == 2
    return [f"{problem.line} {problem.path}: {problem.message}" for problem in caught.value.problems]


def test_a_sound_policy_reads(read: Any) -> None:
    fields = read(SOUND)
    assert [repr(entry) for entry in fields["guarantees"]] == ["Crowd(k=5)", "Spread(column='illness', t=0.2)"]
    assert [repr(entry) for entry in fields["measures"]] == ["Linkage()"]
    assert fields["lines"]["guarantees[1].spread.t"] == 15
    assert fields["warnings"] == ()
    assert fields["sink"].format == "parquet"


def test_every_error_comes_at_once_in_the_order_of_lines_and_names_the_file(read: Any) -> None:
    text = (
        SOUND.replace("name: small", "nam: small")
        .replace("role: insensitive", "role: insensitve")
        .replace("k: 5", "k: 0")
        .replace("t: 0.2", "q: 0.2")
    )
    with pytest.raises(PolicyError) as caught:
        read(text)
    assert str(caught.value).splitlines()[0].endswith("release.yaml:2: nam: unknown key; did you mean 'name'?")
    assert [(problem.line, problem.path) for problem in caught.value.problems] == [
        (2, "nam"),
        (8, "columns.ward.role"),
        (14, "guarantees[0].crowd.k"),
        (15, "guarantees[1].spread.q"),
    ]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("version: 1", "version: 2", "1 version: is 2; this privpipe reads version 1"),
        ("version: 1", "versoin: 1", "1 versoin: unknown key; did you mean 'version'?"),
        ("name: small", "crowd: {k: 5}", "2 crowd: unknown key; it is a privacy model: add it to the list under `guar"),
        ("name: small", "swap: {}", "2 swap: unknown key; it is a transformer: add it to the list under `transform:`"),
        ("name: small", "name: 7", "2 name: must be text, not the number 7; put it in quotes"),
        ("path: data.csv", "pth: data.csv", "3 source.pth: unknown key; did you mean 'path'?"),
        ("path: data.csv, ", "", "3 source.path: is required"),
        ("format: csv", "format: cvs", "3 source.format: must be one of parquet, csv, json, delta"),
        ("data.csv, format: csv", "data.xls", "3 source.path: files that end in '.xls' are not read"),
        ('";"', '";;"', "3 source.delimiter: must be a single character"),
        ('";"', '";", header: false', "3 source.header: a file without a header needs"),
        ('";"', '";", columns: [a]', "3 source.columns: is for files without a header"),
        ("format: csv", "format: parquet", "3 source.delimiter: is for CSV files; the format here is parquet"),
        ("role: insensitive", "rol: insensitive", "8 columns.ward.rol: unknown key; did you mean 'role'?"),
        ("{role: insensitive}", "insensitive", "8 columns.ward: must be a mapping, as in {role: ...}"),
        ("type: integer", "type: int", "5 columns.age.type: must be one of text, integer"),
        ("type: integer", "nulls: refuse", "5 columns.age.nulls: is for sensitive columns"),
        ("ward: {", "Zip: {", "8 columns.Zip: column names differ only in case: 'zip', 'Zip'"),
        ("ward: {", "zip: {", "8 columns.zip: this key is given twice, first in line 6"),
        (
            "ward: {",
            "__privpipe_id: {",
            "8 columns.__privpipe_id: a column name must not be empty, be __count or start with",
        ),
        ("record_id: name", "record_id: nam", "10 record_id: 'nam' is not among `columns:`; did you mean 'name'?"),
        (
            "- swap: {columns: [age]}",
            "- swp: {}",
            "12 transform[0].swp: unknown transformer or table stage; did you mean 'swap'?",
        ),
        ("- swap: {columns: [age]}", "- crowd: {}", "12 transform[0].crowd: is a privacy model, and belongs under"),
        ("- swap: {columns: [age]}", "- swap", "12 transform[0]: an entry is a mapping with one key"),
        ("- swap: {columns: [age]}", "- {swap: {}, x: 1}", "12 transform[0]: an entry is a mapping with one key"),
        ("{columns: [age]}", "{columns: [ag]}", "12 transform[0].swap.columns[0]: 'ag' is not among `columns:`"),
        ("{columns: [age]}", "{columns: age}", "12 transform[0].swap.columns: must be a list, also for a single"),
        ("{columns: [age]}", "{columns: [name]}", "12 transform[0].swap.columns[0]: 'name' is an identifier and gone"),
        ("{columns: [age]}", "{}", "12 transform[0].swap.columns: is required"),
        ("swap: {columns: [age]}", "discard: {columns: [age]}", "12 transform[0].discard.columns: discard takes no"),
        (
            "- crowd: {k: 5}",
            "- crwd: {k: 5}",
            "14 guarantees[0].crwd: unknown privacy model, measure or guarantee on cells; did you mean",
        ),
        ("- crowd: {k: 5}", "- swap: {}", "14 guarantees[0].swap: is a transformer, and belongs under `transform:`"),
        ("{k: 5}", "{k: 0}", "14 guarantees[0].crowd.k: must be an integer >= 1, got 0"),
        ("{k: 5}", "{k: true}", "14 guarantees[0].crowd.k: "),
        ("{k: 5}", "{k: .nan}", "14 guarantees[0].crowd.k: must be a finite number"),
        ("{k: 5}", "{k: 5, kk: 1}", "14 guarantees[0].crowd.kk: unknown parameter of crowd; did you mean 'k'?"),
        ("{k: 5}", "{}", "14 guarantees[0].crowd.k: a guarantee needs its threshold `k`"),
        ("{k: 5}", "{k: 5, quasi_identifiers: [ward]}", "14 guarantees[0].crowd.quasi_identifiers[0]: 'ward' is decl"),
        ("t: 0.2", "t: -0.2", "15 guarantees[1].spread.t: must be a number >= 0 and <= 1, got -0.2"),
        ("column: illness", "column: ward", "15 guarantees[1].spread.column: 'ward' is declared insensitive"),
        ("column: illness", "column: ill", "15 guarantees[1].spread.column: 'ill' is not among `columns:`"),
        ("  - spread: {column: illness, t: 0.2}\n", "", "7 columns.illness: is sensitive and no guarantee judges it"),
        ("- linkage: {}", "- linkage: {at_most: 0.1}", "17 measures[0].linkage.at_most: a measure is reported"),
        ("- linkage: {}", "- linkage: {columns: [x]}", "17 measures[0].linkage.columns[0]: 'x' is not among"),
        ("- crowd: {k: 5}", "- census: {k: 5}", "14 guarantees[0].census: census needs `population:`"),
        ("published/small", "data.csv", "18 sink.path: overlaps with the path of `source:`"),
        ("published/small", "./data.csv/x", "18 sink.path: overlaps with the path of `source:`"),
        (
            "sink:",
            "engine: sprk\nsink:",
            "18 engine: unknown engine 'sprk'; did you mean 'spark'?; one of embedded, dask, spark",
        ),
        (
            "sink:",
            "engines: {sprk: {}}\nsink:",
            "18 engines.sprk: unknown engine 'sprk'; did you mean 'spark'?; one of embedded, dask, spark",
        ),
        ("sink:", "wildcard: '*'\nsink:", "18 wildcard: has a meaning only with `nulls: wildcard`"),
        ("sink:", "seed: {from_envy: A}\nsink:", "18 seed.from_envy: unknown key; did you mean 'from_env'?"),
        ("sink:", "seed: {from_env: A, from_file: B}\nsink:", "18 seed: must be one place as text"),
        ("sink:", "population: {path: a.csv, generalised: true}\nsink:", "18 population.generalised: unknown key; did"),
        ("path: data.csv", "generalized: true, path: data.csv", "3 source.generalized: unknown key"),
    ],
)
def test_each_wrong_thing_is_reported_with_its_place(read: Any, old: str, new: str, said: str) -> None:
    assert old in SOUND
    found = problems(read, SOUND.replace(old, new, 1))
    assert any(problem.startswith(said) for problem in found)
    assert len(found) <= 2, "one mistake sets off no avalanche"


@pytest.mark.parametrize("misspelt", ["illnes", "Illness", "ilness"])
@pytest.mark.parametrize("where", ["columns", "guarantee"])
def test_a_misspelt_sensitive_column_is_reported_once_as_missing(read: Any, misspelt: str, where: str) -> None:
    old, new = (
        ("  illness: {", f"  {misspelt}: {{") if where == "columns" else ("column: illness", f"column: {misspelt}")
    )
    assert old in SOUND
    named, declared = ("illness", misspelt) if where == "columns" else (misspelt, "illness")
    [problem] = problems(read, SOUND.replace(old, new, 1))
    assert problem.endswith(f".spread.column: {named!r} is not among `columns:`; did you mean {declared!r}?")


def test_another_unjudged_column_is_reported_with_a_misspelt_one(read: Any) -> None:
    text = SOUND.replace("column: illness", "column: illnes", 1).replace("role: insensitive", "role: sensitive", 1)
    first, second = problems(read, text)
    assert first.startswith("8 columns.ward: is sensitive and no guarantee judges it")
    assert "'illnes' is not among `columns:`; did you mean 'illness'?" in second


def test_a_policy_without_guarantees_is_refused(read: Any) -> None:
    head = SOUND.partition("guarantees:")[0].replace("role: sensitive", "role: insensitive")
    assert problems(read, head + "guarantees: []\n")[0].startswith("13 guarantees: at least one guarantee is needed")
    assert problems(read, head)[0].startswith("1 guarantees: is required")


def test_no_quasi_identifier_is_an_error_unless_one_class_is_meant(read: Any) -> None:
    bare = "columns: {a: {role: insensitive}}\nguarantees:\n  - crowd: {k: 5%s}\n"
    [problem] = problems(read, bare % "")
    assert problem.startswith("1 columns: no column has `role: quasi_identifier`")
    fields = read(bare % ", quasi_identifiers: []")
    assert ":3: guarantees[0].crowd.quasi_identifiers: the list is empty" in fields["warnings"][0]


def test_wildcard_nulls_need_entries_that_can_match(read: Any) -> None:
    said = problems(read, "nulls: wildcard\nwildcard: '*'\n" + SOUND)
    assert said
    assert all("under `nulls: wildcard` there are none" in text for text in said)


def test_a_broken_entry_causes_no_other_complaint(read: Any) -> None:
    broken = SOUND.replace("t: 0.2", "t: 9")
    assert len(problems(read, broken)) == 1  # its column is judged all the same
    assert len(problems(read, SOUND.replace("role: sensitive", "role: sensitiv"))) == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: [1\nb: 2\n", "2 : not valid YAML"),
        ("a:\n\t- b\n", "2 : not valid YAML: found character '\\t'"),
        ("a: *b\n", "1 : not valid YAML: found undefined alias 'b'"),
        ("a: 1\n---\nb: 2\n", "2 : not valid YAML"),
        ("a: !secret hunter2\n", "1 a: "),
        ("a: &a [*a]\n", "1 : aliases that refer to themselves"),
        ("- a\n- b\n", "1 : must be a mapping"),
        ("[" * 5000 + "]" * 5000, "1 : nested too deeply"),
        ("", "None : the policy file is empty"),
        ("# nothing\n", "None : the policy file is empty"),
    ],
)
def test_what_is_not_a_yaml_mapping_is_refused_without_an_excerpt(read: Any, text: str, said: str) -> None:
    found = problems(read, text)
    assert any(problem.startswith(said) for problem in found)
    assert "hunter2" not in str(found)


def test_aliases_of_aliases_do_not_grow_without_bound(read: Any) -> None:
    layers = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    layers += [f"a{at}: &a{at} [{', '.join([f'*a{at - 1}'] * 10)}]" for at in range(1, 9)]
    [problem] = problems(read, "\n".join(layers))
    assert "grow too large" in problem


def test_a_file_that_is_not_there_or_not_text_is_a_usage_error(read: Any, tmp_path: Path) -> None:
    from privpipe.policy import Policy

    with pytest.raises(PolicyError, match=r"none\.yaml: .*does not exist"):
        Policy.load(tmp_path / "none.yaml")
    (tmp_path / "latin.yaml").write_bytes(b"name: caf\xe9\n")
    with pytest.raises(PolicyError, match="not UTF-8"):
        Policy.load(tmp_path / "latin.yaml")
    with pytest.raises(PolicyError, match="cannot be read"):
        Policy.load(tmp_path)


def test_anchors_merge_keys_and_a_byte_order_mark_are_fine(read: Any) -> None:
    text = SOUND.replace("age: {role: quasi_identifier, type: integer}", "age: &qi {role: quasi_identifier}").replace(
        "zip: {role: quasi_identifier}", "zip: {<<: *qi, type: integer}"
    )
    fields = read("\ufeff" + text)
    assert fields["columns"]["zip"].type == "integer"
    assert fields["columns"]["zip"].role == "quasi_identifier"


def test_a_column_may_have_a_number_for_its_name(read: Any) -> None:
    assert "2020" in read(SOUND.replace("ward:", "2020:"))["columns"]


def test_a_document_from_python_has_the_same_errors_without_lines(read_dict: Any) -> None:
    with pytest.raises(PolicyError) as caught:
        read_dict({"columns": {"a": {"role": "qi"}}, "guarantees": [{"crowd": {"k": 0}}], 3: 4, "sink": object()})
    assert [problem.path for problem in caught.value.problems] == [
        "",
        "sink",
        "columns.a.role",
        "guarantees[0].crowd.k",
    ]
    assert str(caught.value).splitlines()[2].startswith("policy: columns.a.role: ")


def test_masking_a_judged_column_after_suppression_needs_the_released_base(read: Any) -> None:
    late = SOUND.replace("- swap: {columns: [age]}", "- coarsen: {}\n  - swap: {columns: [illness]}")
    [problem] = problems(read, late)
    assert problem.startswith("13 transform[1].swap: changes 'illness' after transform[0].coarsen")
    assert read(late.replace("t: 0.2", "t: 0.2, base: released"))
    early = SOUND.replace("- swap: {columns: [age]}", "- swap: {columns: [illness]}\n  - coarsen: {}")
    assert read(early)


def test_an_identifier_that_is_kept_under_a_pseudonym_may_be_named(read: Any) -> None:
    stages = "- rename: {columns: [name]}\n  - swap: {columns: [age], by: [name]}\n  - discard:\n"
    assert len(read(SOUND.replace("- swap: {columns: [age]}\n", stages))["transform"]) == 3


def test_two_stages_on_one_column_are_legal(read: Any) -> None:
    twice = "- swap: {columns: [age]}\n  - swap: {columns: [age]}"
    assert read(SOUND.replace("- swap: {columns: [age]}", twice))["warnings"] == ()


def test_the_same_model_twice_is_a_warning(read: Any) -> None:
    fields = read(SOUND.replace("- crowd: {k: 5}", "- crowd: {k: 5}\n  - crowd: {k: 3}"))
    [warning] = fields["warnings"]
    assert "release.yaml:15: guarantees[1].crowd: crowd is there already with other parameters" in warning
    on_other_columns = "- crowd: {k: 5, quasi_identifiers: [age]}\n  - crowd: {k: 3}"
    assert read(SOUND.replace("- crowd: {k: 5}", on_other_columns))["warnings"] == ()


def test_a_quasi_identifier_that_no_guarantee_looks_at_is_a_warning(read: Any) -> None:
    own = SOUND.replace("k: 5", "k: 5, quasi_identifiers: [age]").replace("t: 0.2", "t: 0.2, quasi_identifiers: [age]")
    [warning] = read(own)["warnings"]
    assert "columns.zip: no guarantee looks at this quasi-identifier" in warning
    attacked = own.replace("- crowd:", "- linkage: {columns: [zip], at_most: 0.1}\n  - crowd:")
    assert read(attacked)["warnings"] == ()


def test_a_literal_seed_is_a_warning_and_never_shown(read: Any) -> None:
    fields = read("seed: 7d1c9a3e5b8f2046d1e7c3a95f80b264\n" + SOUND)
    assert "the secret is in the policy" in fields["warnings"][0]
    assert "7d1c9a3e5b8f2046d1e7c3a95f80b264" not in repr(fields["seed"]) + str(fields["warnings"])
    with pytest.raises(UsageError) as caught:
        read("seed: [hunter2]\n" + SOUND)
    assert "hunter2" not in str(caught.value)


def test_all_problems_are_of_the_usage_kind(read: Any) -> None:
    with pytest.raises(UsageError):
        read("version: 9")
