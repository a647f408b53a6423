"""Which model is checked against what, as a table of the site:
``python -m tests.reference.coverage docs/checked-against.md``.

The numbers are those of the reference figures that the tests replay; the engines are those of the conformance tests.
Where the figures are not at hand, the numbers are those that the table has, and a new model has none.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from privpipe.models import CATALOGUE
from privpipe.testing import GAPS, has_oracle

BEGIN, END = "<!-- references: begin -->", "<!-- references: end -->"
SHARED = Path(__file__).resolve().parents[3] / "shared"
ENGINES = ("embedded", "dask", "spark")
ARX = {
    "k-anonymity": "k_anonymity",
    "k-map": "k_map",
    "k-map-estimated": "estimated_k_map",
    "delta-presence": "delta_presence",
    "distinct-l-diversity": "distinct_l_diversity",
    "entropy-l-diversity": "entropy_l_diversity",
    "recursive-cl-diversity": "recursive_cl_diversity",
    "t-closeness-equal": "t_closeness",
    "t-closeness-ordered": "t_closeness",
    "t-closeness-hierarchical": "t_closeness",
    "delta-disclosure": "delta_disclosure",
    "beta-likeness-basic": "basic_beta_likeness",
    "beta-likeness-enhanced": "enhanced_beta_likeness",
    "average-risk": "average_risk",
    "sample-uniqueness": "sample_uniqueness",
    "population-uniqueness": "population_uniqueness",
    "profitability-journalist": "journalist_profitability",
    "profitability-journalist-no-attack": "journalist_profitability",
    "profitability-prosecutor": "prosecutor_profitability",
    "profitability-prosecutor-no-attack": "prosecutor_profitability",
}
PYCANON = {
    "k": "k_anonymity",
    "l_distinct": "distinct_l_diversity",
    "l_entropy_real": "entropy_l_diversity",
    "recursive_c_infimum_by_l": "recursive_cl_diversity",
    "alpha": "alpha_k_anonymity",
    "t_equal": "t_closeness",
    "t_ordered": "t_closeness",
    "beta_basic": "basic_beta_likeness",
    "beta_enhanced": "enhanced_beta_likeness",
    "delta_present_values_only_ln": "delta_disclosure",
    "avg_record_risk(n_classes/n)": "average_risk",
    "n_unique_records": "sample_uniqueness",
}


def counted(shared: Path) -> tuple[Counter[str], Counter[str], Counter[str]]:
    """Figures a model: of given transformations and estimators by ARX, of optima by ARX, of tables by pycanon."""
    arx = json.loads((shared / "reference" / "arx.json").read_text(encoding="utf-8"))
    pycanon = json.loads((shared / "reference" / "pycanon.json").read_text(encoding="utf-8"))
    given: Counter[str] = Counter()
    optima: Counter[str] = Counter()
    for row in arx["loss_of_given_transformation"]:
        for name in {named(spec) for spec in row["models"]} - {""}:
            given[name] += len(row["nodes"])
    for row in (*arx["optimum_from_arx_tests"], *arx["optimum_generated"]):
        for name in {named(spec) for spec in row["models"]} - {""}:
            optima[name] += 1
    given["differential_privacy"] += len(arx["estimators"]["safepub_parameters"])
    given["estimated_k_map"] += len(arx["estimators"]["k_map_derived_k"])
    tables: Counter[str] = Counter()
    for row in pycanon["adult"]:
        tables.update(PYCANON[figure] for figure in row["reference"] if figure in PYCANON)
    return given, optima, tables


def named(spec: dict[str, Any]) -> str:
    """The catalogue's name of a reference's model; empty for what is none of ours."""
    if spec["type"] == "average-risk" and "highest" in spec:
        return "strict_average_risk"
    return ARX.get(spec["type"], "")


def standing(text: str) -> tuple[Counter[str], Counter[str], Counter[str]]:
    """The numbers of the table that a text has, as `counted` gives them."""
    found: tuple[Counter[str], Counter[str], Counter[str]] = (Counter(), Counter(), Counter())
    rows = [line for line in text.partition(BEGIN)[2].partition(END)[0].splitlines() if line.startswith("| `")]
    for row in rows:
        name, *cells = (cell.strip(" `") for cell in row.strip("|").split("|"))
        for counter, cell in zip(found, cells[-3:], strict=True):
            counter[name] = int(cell) if cell.isdigit() else 0
    return found


def table(numbers: tuple[Counter[str], Counter[str], Counter[str]]) -> str:
    """The Markdown table."""
    lines = [
        "| model | oracle | embedded | Dask | Spark | ARX: nodes judged | ARX: optima | pycanon: figures |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name in CATALOGUE.built_in:
        oracle = "plain Python" if has_oracle(CATALOGUE[name]) else "by hand"
        cells = ["no" if (engine, name) in GAPS else "equal" for engine in ENGINES]
        shown = [str(found[name] or "-") for found in numbers]
        lines.append(f"| `{name}` | " + " | ".join([oracle, *cells, *shown]) + " |")
    return "\n".join(lines) + "\n"


def with_table(text: str, shared: Path) -> str:
    """The text with the part between the markers made again."""
    head, _, rest = text.partition(BEGIN)
    numbers = counted(shared) if (shared / "reference").is_dir() else standing(text)
    return f"{head}{BEGIN}\n{table(numbers)}{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(with_table(path.read_text(encoding="utf-8"), SHARED), encoding="utf-8")
