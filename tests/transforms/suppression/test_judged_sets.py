"""Which guarantees a stage that suppresses can work for."""

from __future__ import annotations

import pyarrow as pa
import pytest

from privpipe.blocks import Guarantee
from privpipe.errors import UnsupportedError
from privpipe.models import (
    AverageRisk,
    DifferentialPrivacy,
    KAnonymity,
    KmAnonymity,
    KMap,
    PopulationUniqueness,
    TCloseness,
)
from privpipe.roles import Roles
from privpipe.transforms.base import StageContext
from privpipe.transforms.suppression.judged_sets import JudgedSets, judged_sets

ROLES = Roles(quasi_identifiers=["age", "sex", "zip"], sensitive=["illness"])


def sets_of(*guarantees: Guarantee) -> JudgedSets:
    return judged_sets(
        StageContext(roles=ROLES, schema=pa.schema([]), guarantees=guarantees, place="transform[0].generalize")
    )


def test_guarantees_go_by_their_columns() -> None:
    models = KAnonymity(k=2), TCloseness(column="illness", t=0.2, quasi_identifiers=("zip",)), AverageRisk(at_most=0.1)
    found = sets_of(*models)
    assert found.class_models == {("age", "sex", "zip"): (models[0],), ("zip",): (models[1],)}
    assert found.size_models == ((("age", "sex", "zip"), models[2]),)


def test_a_guarantee_of_several_groupings_is_in_each() -> None:
    model = KmAnonymity(k=2, m=2)
    assert dict(sets_of(model).class_models) == dict.fromkeys(
        [("age", "sex"), ("age", "zip"), ("sex", "zip")], (model,)
    )


def test_estimates_are_rules_of_class_sizes() -> None:
    model = PopulationUniqueness(at_most=0.1, population_size=10**6)
    assert sets_of(model).size_models == ((("age", "sex", "zip"), model),)


@pytest.mark.parametrize("model", [KMap(k=2), DifferentialPrivacy(epsilon=1.0, delta=1e-6)], ids=repr)
def test_what_classes_do_not_tell_is_refused_not_passed_over(model: Guarantee) -> None:
    with pytest.raises(UnsupportedError, match=r"transform\[0\].generalize: cannot suppress or search for"):
        sets_of(KAnonymity(k=2), model)
