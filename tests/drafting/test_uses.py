"""Uses: how they are written, and what they lose, by the definitions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from privpipe.drafting.use_figures import Paired, lost_of_use, lost_of_uses
from privpipe.errors import PolicyError, UsageError
from privpipe.policy import Policy
from privpipe.policy.uses import Use, read_use

COLUMNS = ["age", "education", "income", "region", "sex", "made on and by", "a, b"]


@pytest.mark.parametrize(
    ("line", "use"),
    [
        ("regression of income on age and education", Use("regression", "income", ("age", "education"))),
        ("Regression of income on age, education, and sex", Use("regression", "income", ("age", "education", "sex"))),
        ("table of region by sex", Use("table", "region", ("sex",))),
        ("table of region", Use("table", "region")),
        ("mean of income by made on and by and sex", Use("mean", "income", ("made on and by", "sex"))),
        ("table of made on and by by a, b", Use("table", "made on and by", ("a, b",))),
    ],
)
def test_a_use_is_a_line_that_names_columns(line: str, use: Use) -> None:
    assert read_use(line, COLUMNS) == use
    assert read_use(str(use), COLUMNS) == use


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "is not a use of a table; write mean of NUMBER"),
        ("regresion of income on age", "did you mean 'regression'"),
        ("regression of income", "does not name the columns after on"),
        ("mean of incme by sex", "names 'incme', which is not a column of the policy; did you mean 'income'"),
        ("table of sex by sex", "names a column twice"),
        ("mean of sex by age", "needs a number; 'sex' is declared as text"),
    ],
)
def test_what_is_wrong_is_reported(line: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        read_use(line, COLUMNS, {"sex": "text"})


def test_a_policy_shows_the_line(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(
        "version: 1\ncolumns: {age: {role: quasi_identifier}}\nuses:\n  - table of age\n  - table of agee\n"
        "guarantees: [{k_anonymity: {k: 2}}]\n"
    )
    with pytest.raises(PolicyError, match=r"p\.yaml:5.*did you mean 'age'"):
        Policy.load(tmp_path / "p.yaml")


def test_uses_change_no_row() -> None:
    given: dict[str, Any] = {
        "version": 1,
        "columns": {"age": {"role": "quasi_identifier"}},
        "guarantees": [{"k_anonymity": {"k": 2}}],
    }
    with_uses = Policy.from_dict({**given, "uses": ["table of age"]})
    assert with_uses.uses == (Use("table", "age"),)
    assert with_uses.run_digest() == Policy.from_dict(given).run_digest()


def people(n: int = 400) -> pa.Table:
    rng = np.random.default_rng(3)
    age = rng.integers(20, 80, n)
    sex = rng.choice(["f", "m"], n)
    return pa.table(
        {"age": age, "sex": sex, "income": 100 + 3.0 * age + 20 * (sex == "m") + rng.normal(0, 10, n), "at": age // 20}
    )


USES = [Use("regression", "income", ("age", "sex")), Use("table", "age", ("sex",)), Use("mean", "income", ("sex",))]


def test_nothing_is_lost_of_the_same_table_and_all_of_a_column_that_is_gone() -> None:
    table = people()
    assert lost_of_uses(USES, Paired(table, table)) == pytest.approx(0, abs=1e-9)
    gone = Paired(table, table.drop_columns(["sex"]))
    assert [lost_of_use(use, gone) for use in USES] == [1.0, 1.0, 1.0]


def test_each_figure_is_its_definition() -> None:
    table = people()
    ages = np.array(table["age"].to_pylist())
    bands = [f"{at * 20}-" for at in ages // 20]
    after = table.set_column(0, "age", pa.array(bands))
    paired = Paired(table, after)
    # The table: every age of a band is as likely as the others.
    sexes = np.array(table["sex"].to_pylist())
    told, before = {}, {}
    for age, band, sex in zip(ages.tolist(), bands, sexes.tolist(), strict=True):
        before[age, sex] = before.get((age, sex), 0) + 1
        alike = sorted({other for other, own in zip(ages.tolist(), bands, strict=True) if own == band})
        for other in alike:
            told[other, sex] = told.get((other, sex), 0) + 1 / len(alike)
    expected = sum(abs(told.get(key, 0) - before.get(key, 0)) for key in {*told, *before}) / len(ages) / 2
    assert lost_of_use(Use("table", "age", ("sex",)), paired) == pytest.approx(expected)
    # The regression: by the normal equations.
    seen = np.array([np.mean(sorted({int(o) for o in ages[np.array(bands) == band]})) for band in bands])
    y, male = np.array(table["income"].to_pylist()), (sexes == "m").astype(float)

    def fitted(first: Any) -> tuple[Any, Any]:
        x = np.column_stack([np.ones(len(y)), first, male])
        b = np.linalg.solve(x.T @ x, x.T @ y)
        error = ((y - x @ b) ** 2).sum() / (len(y) - 3)
        return b, np.sqrt(np.diag(np.linalg.inv(x.T @ x)) * error)

    (b, se), (c, _) = fitted(ages.astype(float)), fitted(seen)
    wanted = np.minimum(np.abs(c - b)[1:] / (2 * 1.959963984540054 * se[1:]), 1).mean()
    assert lost_of_use(Use("regression", "income", ("age", "sex")), paired) == pytest.approx(wanted)


def test_a_mean_moves_in_standard_deviations() -> None:
    table = people()
    blank = table.set_column(1, "sex", pa.array(["*"] * len(table)))
    income, sex = np.array(table["income"].to_pylist()), np.array(table["sex"].to_pylist())
    moved = [abs(income.mean() - income[sex == each].mean()) / income.std() * (sex == each).mean() for each in "fm"]
    assert lost_of_use(Use("mean", "income", ("sex",)), Paired(table, blank)) == pytest.approx(sum(moved))


def test_a_text_has_no_regression() -> None:
    assert lost_of_use(Use("regression", "sex", ("age",)), Paired(people(), people())) == 1.0


def test_what_a_label_covers_is_counted_by_the_values_that_bear_it() -> None:
    before = pa.table({"age": [1, 2, 3, 3]})
    assert Paired(before, before).covered("age") == 0
    assert Paired(before, pa.table({"age": ["*"] * 4})).covered("age") == 1
    assert Paired(before, pa.table({"age": ["1-2", "1-2", "3", "3"]})).covered("age") == pytest.approx(0.25)
