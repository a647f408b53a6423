"""What every catalogue entry must bring along."""

from __future__ import annotations

from pathlib import Path

import pytest

from privpipe import measures, models, transforms
from privpipe.testing import GAPS, catalogue_problems, examples_of, has_oracle


@pytest.mark.parametrize("room", [models, transforms, measures], ids=lambda room: str(room.__name__))
def test_entries_are_complete(room: object, project: Path) -> None:
    folder = project / "tests" / str(room.__name__).rpartition(".")[2]  # type: ignore[attr-defined]
    assert catalogue_problems(room.CATALOGUE, folder) == []  # type: ignore[attr-defined]


def test_names_are_unique_over_the_catalogues() -> None:
    names = [name for room in (models, transforms, measures) for name in room.CATALOGUE]
    assert len(set(names)) == len(names)


def test_every_model_that_reads_classes_has_an_oracle() -> None:
    assert not [model for model in examples_of(models.CATALOGUE, population=True) if not has_oracle(type(model))]


@pytest.mark.parametrize("name", list(models.CATALOGUE))
def test_examples_pass_and_fail_and_report(name: str) -> None:
    """Gates and a reporting form, so that the common tests see both."""
    gates = [example for example in models.CATALOGUE[name].examples() if example.is_gate()]  # type: ignore[attr-defined]
    assert len(gates) >= 2


def test_a_gap_is_refused_with_its_reason() -> None:
    """Strict: an entry that is served after all fails here, and its gap goes."""
    for (_, name), gap in GAPS.items():
        assert gap.why
        if gap.parameters:
            with pytest.raises(gap.raises):
                models.CATALOGUE[name](**gap.parameters)
