"""Generate the establishments of the example: invented holdings and turnovers, the same on every machine."""

from __future__ import annotations

import csv
from pathlib import Path
from random import Random

HOLDINGS = 420
COLUMNS = ("establishment", "holding", "industry", "region", "employees", "turnover")
INDUSTRIES = {
    "Manufacturing": {"Food": 9, "Textiles": 3, "Machinery": 5, "Shipbuilding": 1},
    "Trade": {"Wholesale": 8, "Retail": 14, "Fuel": 2},
    "Services": {"Transport": 7, "Lodging": 6, "Consulting": 10, "Satellites": 1},
}
"""Section, division, and how often a division is drawn."""
REGIONS = {"North": 4, "South": 3, "East": 2, "West": 2, "Islands": 1}


def rows() -> list[tuple[object, ...]]:
    """A row for each establishment, in an order that does not show holdings."""
    draw = Random(20261129)
    weights = {division: weight for divisions in INDUSTRIES.values() for division, weight in divisions.items()}
    found: list[tuple[object, ...]] = []
    for holding in range(HOLDINGS):
        industry = draw.choices(list(weights), list(weights.values()))[0]
        region = draw.choices(list(REGIONS), list(REGIONS.values()))[0]
        for number in range(draw.choices([1, 2, 3, 5], [80, 12, 5, 3])[0]):
            if number:  # most establishments of a holding do the same, elsewhere
                region = draw.choices(list(REGIONS), list(REGIONS.values()))[0]
            employees = 1 + int(draw.lognormvariate(2.5, 1.1))
            turnover = 1000 * int(employees * draw.lognormvariate(4.5, 0.7))
            found.append((f"E{len(found):04}", f"H{holding:04}", industry, region, employees, turnover))
    return draw.sample(found, len(found))


def write(folder: Path) -> None:
    """The establishments as CSV, and the tree of industries."""
    with (folder / "data" / "establishments.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows(rows())
    with (folder / "hierarchies" / "industry.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, delimiter=";", lineterminator="\n")
        writer.writerows((division, section, "*") for section, inner in INDUSTRIES.items() for division in inner)


if __name__ == "__main__":
    write(Path(__file__).resolve().parent)
