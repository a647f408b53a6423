"""A seed is kept where it was put: no pickle of a policy carries it away."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import privpipe as pp
from privpipe.draws import Seed
from privpipe.errors import UsageError
from privpipe.policy import Policy

SECRET = "6c1b0f7e0d5a4b3c9e8f7a6b5c4d3e2f"
DOCUMENT: dict[str, Any] = {
    "columns": {"zip": {"role": "quasi_identifier"}},
    "guarantees": [{"k_anonymity": {"k": 2}}],
    "allow_insecure_seed": True,
}


def handed_over(seed: Any) -> Policy:
    roles = pp.Roles(quasi_identifiers=["zip"])
    return Policy(roles=roles, guarantees=[pp.models.KAnonymity(k=2)], seed=seed)


@pytest.mark.parametrize(
    "policy",
    [
        Policy.from_dict({**DOCUMENT, "seed": SECRET}),
        Policy.from_dict({**DOCUMENT, "seed": int(SECRET, 16)}),
        handed_over(SECRET),
        handed_over(bytes.fromhex(SECRET)),
        handed_over(Seed(SECRET.encode())),
    ],
    ids=["text", "number", "given text", "given bytes", "given seed"],
)
@pytest.mark.parametrize("protocol", [0, 2, pickle.HIGHEST_PROTOCOL])
def test_a_policy_with_its_seed_in_it_is_not_pickled(policy: Policy, protocol: int) -> None:
    for held in (policy, {"within": [policy]}, policy.seed):
        with pytest.raises(UsageError, match=r"is not pickled.*\{\"from_env\": NAME\}") as caught:
            pickle.dumps(held, protocol)
        assert SECRET not in str(caught.value)
    for copied in (copy.copy(policy), copy.deepcopy(policy)):
        assert copied == policy
        assert copied.seed is not None
        assert copied.seed.resolve() == policy.seed.resolve()  # type: ignore[union-attr]


@pytest.mark.parametrize("seed", [None, {"from_env": "A_SEED"}, {"from_file": "seed.txt"}, {"insecure": "2024"}])
def test_a_policy_that_names_the_place_of_its_seed_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: Mapping[str, str] | None
) -> None:
    monkeypatch.setenv("A_SEED", SECRET)
    (tmp_path / "seed.txt").write_text(SECRET)
    policy = Policy.from_dict({**DOCUMENT, "seed": seed} if seed else DOCUMENT, base_dir=tmp_path)
    before = None if policy.seed is None else policy.seed.resolve()
    text = pickle.dumps(policy)
    again = pickle.loads(text)
    assert again == policy
    assert SECRET.encode() not in text
    assert (None if again.seed is None else again.seed.resolve()) == before
