"""The attacks of the WP216 criteria in a first policy."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import yaml

from privpipe.blocks.entry import Entry
from privpipe.drafting.column_profiles import profile_table
from privpipe.drafting.draft import Asked
from privpipe.drafting.initial_policy import Drafter
from privpipe.drafting.methods import Method
from privpipe.measures import InferenceAttack, LinkabilityAttack, SinglingOutAttack

ATTACKS: dict[str, type[Entry]] = {
    each.name(): each for each in (SinglingOutAttack, LinkabilityAttack, InferenceAttack)
}


def drafted(method: Method) -> list[str]:
    people = pa.table(
        {
            "age": [20 + at % 60 for at in range(300)],
            "sex": ["f", "m", "d"] * 100,
            "illness": ["flu", "gout", "cold", "none"] * 75,
        }
    )
    text = Drafter(profile_table(people), Path.cwd(), Asked()).draft(method)
    return [line for line in text.splitlines() if any(f"- {name}:" in line for name in ATTACKS)]


def test_a_policy_that_synthesizes_names_all_three_as_comments() -> None:
    lines = drafted(Method(stages=("synthesize: {}",)))
    assert all(line.startswith("  # - ") for line in lines)
    found = [next(iter(yaml.safe_load(line.removeprefix("  # - ")).items())) for line in lines]
    assert {name for name, _ in found} == set(ATTACKS)
    for name, parameters in found:
        assert ATTACKS[name].problems(parameters) == {}
        assert parameters["holdout"]


def test_other_policies_do_not() -> None:
    assert drafted(Method()) == []
