"""The hierarchy files next to the project: levels and labels a level as their tables give them."""

from __future__ import annotations

from pathlib import Path

import pytest

from privpipe.hierarchies import Hierarchy

DATA = Path(__file__).resolve().parent.parent.parent.parent / "shared" / "data"

# data/adult/README.md, "distinct values a level"; the others counted from the files.
TABLE = {
    "adult/adult_hierarchy_sex.csv": (2, 1),
    "adult/adult_hierarchy_age.csv": (100, 20, 10, 5, 1),
    "adult/adult_hierarchy_race.csv": (5, 1),
    "adult/adult_hierarchy_marital-status.csv": (7, 2, 1),
    "adult/adult_hierarchy_education.csv": (16, 5, 3, 1),
    "adult/adult_hierarchy_native-country.csv": (41, 5, 1),
    "adult/adult_hierarchy_workclass.csv": (8, 3, 1),
    "adult/adult_hierarchy_occupation.csv": (14, 3, 1),
    "adult/adult_hierarchy_salary-class.csv": (2, 1),
    "cmc/hierarchies/cmc_hierarchy_age.csv": (34, 8, 2, 1),
    "cmc/hierarchies/cmc_hierarchy_children.csv": (15, 4, 2, 1),
    "mgm/hierarchies/mgm_hierarchy_age.csv": (73, 17, 4, 2, 1),
}


def shared_file(name: str) -> Path:
    if not (DATA / name).is_file():
        pytest.skip(f"{name} is not next to the project")
    return DATA / name


@pytest.mark.parametrize(("name", "labels"), TABLE.items())
def test_levels_and_labels_are_those_of_the_table(name: str, labels: tuple[int, ...]) -> None:
    hierarchy = Hierarchy.read_csv(shared_file(name))
    assert tuple(len(hierarchy.labels(level)) for level in range(hierarchy.height + 1)) == labels
    assert hierarchy.root == "*"
    assert hierarchy.warnings == ()


def test_shares_divide_by_the_rows_of_the_file_and_not_by_the_values_seen() -> None:
    hierarchy = Hierarchy.read_csv(shared_file("adult/adult_hierarchy_age.csv"), type="integer")
    ages = [str(age) for age in range(17, 91)]
    covered = hierarchy.cover(ages)
    assert (covered.unused, covered.domain_size) == (100 - len(ages), 100.0)
    assert covered.shares(1)[covered.encode(["17"])].tolist() == [0.05]


def test_all_nine_columns_span_12960_level_vectors() -> None:
    vectors = 1
    for name in (name for name in TABLE if name.startswith("adult/")):
        vectors *= Hierarchy.read_csv(shared_file(name)).height + 1
    assert vectors == 12960  # data/adult/README.md
