"""Random tables under random policies: whatever is published is judged again, in plain Python from the definitions.

The second judge shares no line with the one it is held against, and reads the published files alone.
"""

from __future__ import annotations

import datetime as dt
import math
import random
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import combinations
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import privpipe as pp
from privpipe.engines import Engine
from privpipe.errors import EngineError, PrivpipeError
from tests.tiers import deep

Row = Mapping[str, Any]


def value_of(cell: Any) -> Any:
    """One value for null and NaN, one for both zeros; text and number stay apart."""
    if cell is None or (isinstance(cell, float) and math.isnan(cell)):
        return None
    return type(cell).__name__, cell + 0 if isinstance(cell, float) else cell


@dataclass
class Published:
    """What the judge reads: the released rows, and what it must know of the policy.

    `person` names a key of the rows that identifies persons, `base` the values of each sensitive column of the
    records that entered suppression and `everybody` how many persons they are of, `population` the
    rows of the population, generalized alike.
    """

    rows: Sequence[Row]
    quasi_identifiers: tuple[str, ...]
    mark: str = "*"
    wildcard: bool = False
    wildcard_text: str | None = None
    person: str | None = None
    base: Mapping[str, Mapping[Any, int]] = field(default_factory=dict)
    population: Sequence[Row] | None = None
    everybody: int | None = None

    def released(self) -> list[Row]:
        """Rows that are not suppressed: of one that is, every released column is the mark, or missing if no text."""
        text = {name for row in self.rows for name, cell in row.items() if isinstance(cell, str)}
        text |= {field.name for field in SCHEMA if pa.types.is_string(field.type)}

        def suppressed(row: Row) -> bool:
            names = [name for name in row if name not in NAMES]
            return all(row[name] == self.mark if name in text else row[name] is None for name in names)

        return [row for row in self.rows if not suppressed(row)]

    def count(self, keys: Sequence[str], column: str | None = None) -> tuple[dict[Any, int], dict[Any, dict[Any, int]]]:
        """Sizes of the classes, and how often each value of a column occurs in them; in persons where asked."""
        sizes: dict[Any, set[Any]] = defaultdict(set)
        cells: dict[Any, dict[Any, set[Any]]] = defaultdict(lambda: defaultdict(set))
        for at, row in enumerate(self.released()):
            key, who = tuple(value_of(row[name]) for name in keys), row[self.person] if self.person else at
            sizes[key].add(who)
            if column is not None:
                cells[key][value_of(row[column])].add(who)
        counted = {key: {value: len(of) for value, of in found.items()} for key, found in cells.items()}
        return {key: len(who) for key, who in sizes.items()}, counted

    def value_sets(self, keys: Sequence[str], column: str) -> dict[Any, dict[Any, int]]:
        """How many have each set of values in each class; where all have some value in common, that one alone."""
        held: dict[Any, dict[Any, set[Any]]] = defaultdict(lambda: defaultdict(set))
        for at, row in enumerate(self.released()):
            key, who = tuple(value_of(row[name]) for name in keys), row[self.person] if self.person else at
            held[key][who].add(value_of(row[column]))
        found = {}
        for key, members in held.items():
            shared = frozenset(set.intersection(*members.values()))
            found[key] = {shared: len(members)} if shared else dict(Counter(map(frozenset, members.values())))
        return found

    def matching(self, keys: Sequence[str]) -> list[int]:
        """How many rows match each row."""
        wild = (None, ("str", self.wildcard_text))
        rows = [tuple(value_of(row[name]) for name in keys) for row in self.released()]
        blank = [bool(r) and all(a in wild for a in r) for r in rows]  # vouches for no one
        return [
            sum(
                one == other and all(a == b or a in wild or b in wild for a, b in zip(r, s, strict=True))
                for s, other in zip(rows, blank, strict=True)
            )
            for r, one in zip(rows, blank, strict=True)
        ]


def at_most(a: float, b: float) -> bool:
    return a <= b + 1e-12 + 1e-9 * abs(b)


def holds(name: str, asked: Mapping[str, Any], data: Published) -> tuple[bool, Any]:
    """Whether a guarantee holds, and the figure that was observed where it is one number."""
    keys, column = tuple(asked.get("quasi_identifiers", data.quasi_identifiers)), asked.get("column")
    if not data.released():
        return False, None
    if name in ("k_anonymity", "average_risk", "sample_uniqueness"):
        if data.wildcard:
            return by_sizes(name, data.matching(keys), asked)
        return by_sizes(name, [size for size in data.count(keys)[0].values() for _ in range(size)], asked)
    if name == "km_anonymity":
        parts = combinations(keys, min(asked["m"], len(keys)))
        least = min(min(data.count(part)[0].values()) for part in parts)
        return least >= asked["k"], least
    if name == "k_map":
        population = Counter(tuple(value_of(row[key]) for key in keys) for row in data.population or ())
        least = min(population[key] for key in data.count(keys)[0])
        return least >= asked["k"], least
    if name == "delta_presence":
        population, sizes = (
            Counter(tuple(value_of(r[k]) for k in keys) for r in data.population or ()),
            data.count(keys)[0],
        )
        shares = [sizes.get(key, 0) / records for key, records in population.items()]
        return set(sizes) <= set(population) and at_most(max(shares), asked["max"]), None
    sizes, cells = data.count(keys, column)
    if name.endswith("l_diversity") or name == "recursive_cl_diversity":
        cells = data.value_sets(keys, column)
    base = _base(data, column, pairs=name == "t_closeness")
    verdicts = [
        by_class(name, counts, sum(counts.values()) if name == "t_closeness" else sizes[key], asked, base)
        for key, counts in cells.items()
    ]
    figures = [figure for _, figure in verdicts]
    worst = (
        None if None in figures else (min if name in ("distinct_l_diversity", "entropy_l_diversity") else max)(figures)
    )
    return all(passed for passed, _ in verdicts), worst


def _base(data: Published, column: str, *, pairs: bool) -> dict[Any, float]:
    """Shares of all records, or of all persons; with `pairs` of all pairs of a person and a value."""
    found = data.base[column]
    total = sum(found.values()) if pairs or data.everybody is None else data.everybody
    return {value: count / total for value, count in found.items()}


def by_sizes(name: str, sizes: Sequence[int], asked: Mapping[str, Any]) -> tuple[bool, Any]:
    """`sizes` of the class of each record."""
    if name == "k_anonymity":
        return min(sizes) >= asked["k"], min(sizes)
    figure = math.fsum(1 / size for size in sizes) if name == "average_risk" else sizes.count(1)
    return at_most(figure / len(sizes), asked["at_most"]), figure / len(sizes)


def by_class(
    name: str, counts: Mapping[Any, int], n: int, asked: Mapping[str, Any], base: Mapping[Any, float]
) -> tuple[bool, Any]:
    most, *rest = sorted(counts.values(), reverse=True)
    shares = {value: count / n for value, count in counts.items()}
    if name == "distinct_l_diversity":
        return len(counts) >= asked["l"], len(counts)
    if name == "entropy_l_diversity":
        spread = math.exp(-math.fsum(q * math.log(q) for q in shares.values()))
        return at_most(asked["l"], spread) and len(counts) >= math.ceil(asked["l"] - 1e-9), spread
    if name == "recursive_cl_diversity":
        tail = sum([most, *rest][asked["l"] - 1 :])
        return bool(tail) and not at_most(asked["c"] * tail, most), most / tail if tail else None
    assert set(counts) <= set(base)
    if name == "t_closeness":
        distance = math.fsum(abs(shares.get(value, 0) - share) for value, share in base.items()) / 2
        return at_most(distance, asked["t"]), distance
    if name == "delta_disclosure":
        worst = max(abs(math.log2(q / base[value])) for value, q in shares.items())
        return not at_most(asked["delta"], worst), worst
    gains = [(q / base[value] - 1, -math.log(base[value])) for value, q in shares.items() if q > base[value]]
    passed = all(at_most(gain, min(asked["beta"], cap)) for gain, cap in gains)
    return passed, max((gain for gain, _ in gains), default=0.0) if passed else None


SECRET = "Zebulon"
TYPES = {"age": pa.int64(), "number": pa.float64(), "born": pa.date32(), "income": pa.float64()}
COLUMNS = ("name", "who", "age", "town", "zip", "number", "born", "illness", "income", "tag")
SCHEMA = pa.schema([(name, TYPES.get(name, pa.string())) for name in COLUMNS])
NAMES = ("name", "who")
TREES = [
    {"*": {"north": ["Ashford", "Barrow", "\u00dcnk"], "south": ["Crewe", "*"]}},
    {"*": {"Barrow": ["Ashford", "Barrow", "\u00dcnk"], "*": ["Crewe", "*"]}},  # labels that are values too
]
SUPPRESSING = ("generalize", "mondrian", "local_recoding", "suppress_cells", "suppress_records")


def draw_rows(draw: random.Random) -> list[dict[str, Any]]:
    n, gaps = draw.choice([1, 20, 60, 120]), draw.choice([0.0, 0.0, 0.1])
    marks = draw.choice([0.0, 0.1])

    def cell(values: Sequence[Any]) -> Any:
        return None if draw.random() < gaps else draw.choice(values)

    return [
        {
            "name": f"{SECRET}{at}",
            "who": f"{SECRET}{draw.randrange(1 + n // 2)}",
            "age": cell([20, 25, 33, 41, 59]),
            "town": "*" if draw.random() < marks else cell(["Ashford", "Barrow", "Crewe", "\u00dcnk"]),
            "zip": cell(["0001", "0011", "0111"]),
            "number": cell([1.0, 2.5, 0.0, -0.0, float("nan")] if gaps else [1.0, 0.0, -0.0]),
            "born": cell([dt.date(1980, 1, 1), dt.date(1980, 2, 1)]),
            "illness": draw.choices(["flu", "gout", "ulcer", "*", None], [6, 4, 2, marks * 10, gaps * 10])[0],
            "income": round(draw.uniform(0, 99), 1),
            "tag": f"t{at:04d}",
        }
        for at in range(n)
    ]


def draw_policy(draw: random.Random, folder: Path, rows: Sequence[Row]) -> dict[str, Any]:
    keys = draw.sample(["age", "town", "zip", "number", "born"], draw.randint(1, 3))
    nulls = draw.choice(["own_value", "own_value", "own_value", "wildcard", "refuse"])
    judged = nulls != "wildcard" and draw.random() < 0.6
    roles = dict.fromkeys(SCHEMA.names, "insensitive") | dict.fromkeys(NAMES, "identifier")
    roles |= dict.fromkeys(keys, "quasi_identifier") | ({"illness": "sensitive"} if judged else {})
    columns: dict[str, dict[str, Any]] = {name: {"role": role} for name, role in roles.items()}
    columns["age"]["hierarchy"] = {"intervals": {"start": 20, "widths": [10, 40]}}
    columns["town"]["hierarchy"] = {"tree": draw.choice(TREES)}
    if draw.random() < 0.7:
        columns["zip"]["hierarchy"] = {"redact": {"keep": "left", "length": 4}}
    asked = {
        "version": 1,
        "source": {"path": str(folder / "rows.parquet")},
        "sink": {"path": str(folder / "out")},
        "columns": columns,
        "nulls": nulls,
        "record_id": "name",
        "seed": {"insecure": "a seed for tests"},
        "allow_insecure_seed": True,
    }
    if nulls == "wildcard" and draw.random() < 0.5:
        asked["wildcard"] = draw.choice(["*", "north", "Barrow"])
    if draw.random() < 0.1:
        asked["suppression_mark"] = "Crewe"
    if nulls != "wildcard" and draw.random() < 0.2:
        asked["person_id"] = "who"
    elif nulls != "wildcard" and draw.random() < 0.2:
        asked["population"] = {"path": str(folder / "census.parquet")}
    asked["transform"] = [draw_stage(draw, keys, columns) for _ in range(draw.choice([1, 1, 2, 2, 3]))]
    if "population" in asked and "mondrian" in named(asked["transform"]):
        # Released labels of a part say for whole combinations what becomes of them, if none goes before or after.
        asked["transform"] = [{"mondrian": {}}]
    asked["guarantees"] = draw_guarantees(draw, keys, judged, "population" in asked)
    return asked


def draw_stage(draw: random.Random, keys: Sequence[str], columns: Mapping[str, Any]) -> dict[str, Any]:
    limit = draw.choice([0.0, 0.05, 0.29, 0.5])
    levels = {name: draw.randint(0, 2) for name in keys if "hierarchy" in columns[name]}
    given = {"levels": levels, "suppress_at_most": limit, "mark": draw.random() < 0.4}
    searched = {"search": draw.choice(["optimal", "minimal", "datafly"]), "suppress_at_most": limit}
    stages: list[dict[str, Any]] = [
        {"generalize": draw.choice([{"levels": levels}, given, given, searched, searched, {"approach": "AG_CS"}])},
        {"mondrian": {}},
        {"local_recoding": {"suppress_at_most": limit}},
        {"suppress_cells": {"method": draw.choice(["greedy", "optimal"])}},
        {"suppress_records": {"suppress_at_most": limit}},
        {"sample": {"fraction": 0.7}},
        {"microaggregate": {"columns": ["income"], "k": 3}},
        {"rank_swap": {"columns": ["income"], "p": 0.2}},
        {"rank_swap": {"columns": ["number"], "p": 0.2}},
        {"pram": {"columns": [draw.choice(["town", "illness"])], "diagonal": 0.8}},
        {"top_code": {"columns": ["income"], "quantile": 0.8}},
        {"shuffle": {"columns": ["income"]}},
        {"round": {"columns": ["income"], "base": 10}},
    ]
    return draw.choices(stages, [8, 1, 2, 2, 4, 1, 1, 1, 1, 1, 1, 1, 1])[0]


def draw_guarantees(draw: random.Random, keys: Sequence[str], judged: bool, beside: bool) -> list[dict[str, Any]]:
    found: list[tuple[str, dict[str, Any]]] = [
        ("k_anonymity", {"k": draw.choice([2, 2, 3])}),
        ("average_risk", {"at_most": draw.choice([0.5, 0.3])}),
        ("sample_uniqueness", {"at_most": draw.choice([0.0, 0.2])}),
        ("km_anonymity", {"k": 2, "m": draw.randint(1, 2)}),
    ]
    chosen = draw.sample(found, draw.randint(1, 2))
    if beside:
        chosen.append(draw.choice([("k_map", {"k": 4}), ("delta_presence", {"max": 0.6})]))
    if judged:
        models: list[tuple[str, dict[str, Any]]] = [
            ("distinct_l_diversity", {"l": 2}),
            ("entropy_l_diversity", {"l": 1.5}),
            ("recursive_cl_diversity", {"c": 3.0, "l": 2}),
            ("t_closeness", {"t": 0.5, "distance": "equal"}),
            ("delta_disclosure", {"delta": 3.0}),
            ("enhanced_beta_likeness", {"beta": 3.0}),
        ]
        name, parameters = draw.choice(models)
        chosen.append((name, {"column": "illness", **parameters}))
    for name, parameters in chosen:
        if name != "km_anonymity" and draw.random() < 0.4:
            parameters["quasi_identifiers"] = draw.sample(keys, draw.randint(1, len(keys)))
    return [{name: parameters} for name, parameters in chosen]


def named(stages: Sequence[Mapping[str, Any]]) -> list[str]:
    return [next(iter(stage)) for stage in stages]


def entering(asked: Mapping[str, Any], rows: Sequence[Row], engine: Engine) -> Sequence[Row]:
    """The records that the first suppressing stage gets."""
    first = next((at for at, name in enumerate(named(asked["transform"])) if name in SUPPRESSING), 0)
    if not first:
        return rows
    columns = {name: {**each, "role": "insensitive"} for name, each in asked["columns"].items()}
    before = {**asked, "version": 1, "columns": columns, "transform": asked["transform"][:first], "nulls": "own_value"}
    before["guarantees"] = [{"k_anonymity": {"k": 1, "quasi_identifiers": []}}]
    for name in ("population", "person_id", "wildcard"):
        before.pop(name, None)
    table = pp.transform(None, pp.plan(None, before, engine=engine), engine=engine)
    found: list[dict[str, Any]] = table.to_pylist()
    return found


def in_parts(
    population: Sequence[Row], published: Sequence[Row], rows: Mapping[str, Row], keys: Sequence[str]
) -> list[dict[str, Any]]:
    """The population under the labels that a released record of the same combination shows."""
    shown = {tuple(value_of(rows[row["tag"]][key]) for key in keys): row for row in published}
    return [{**row, **{k: shown[tuple(value_of(row[key]) for key in keys)][k] for k in keys}} for row in population]


def generalized(population: Sequence[Row], published: Sequence[Row], rows: Mapping[str, Row]) -> list[dict[str, Any]]:
    """The population under the recoding that the released records show; labels that no one has stay apart."""
    shown: dict[tuple[str, Any], Any] = {}
    for row in published:
        if row["tag"] in rows:
            for name, cell in rows[row["tag"]].items():
                shown[name, value_of(cell)] = row.get(name)
    return [
        {name: shown.get((name, value_of(cell)), f"unseen {cell}") for name, cell in row.items()} for row in population
    ]


def release_and_judge(seed: int, folder: Path, engine: Engine) -> str:
    """One random policy; gives what became of it."""
    draw = random.Random(seed)
    rows = draw_rows(draw)
    folder.mkdir()
    asked = draw_policy(draw, folder, rows)
    pq.write_table(pa.Table.from_pylist(rows, SCHEMA), folder / "rows.parquet", row_group_size=25)
    census = [*rows, *draw.choices(rows, k=2 * len(rows))]
    pq.write_table(pa.Table.from_pylist(census, SCHEMA), folder / "census.parquet")
    out = folder / "out"
    try:
        result = pp.release(asked, engine=engine)
    except PrivpipeError as refused:
        error = refused
    else:
        assert all(SECRET not in path.read_text() for path in (out / "_privpipe").iterdir())
        judge_published(asked, rows, census, result, engine)
        return "published"
    assert not isinstance(error, EngineError)
    left = [path for kind in ("staging", "releases") for path in folder.glob(f".out.privpipe/{kind}/*")]
    assert not [*left, *filter(Path.exists, [out])]
    said = [str(error), *(path.read_text() for path in folder.glob(".out.privpipe/records/*/*.json"))]
    assert not any(SECRET in text for text in said)
    return type(error).__name__


def judge_published(
    asked: Mapping[str, Any], rows: Sequence[Row], census: Sequence[Row], result: pp.ReleaseResult, engine: Engine
) -> None:
    files = [path for path in Path(asked["sink"]["path"]).iterdir() if path.is_file()]
    table = pa.concat_tables([pq.read_table(path) for path in files])
    assert table.column_names == [name for name in SCHEMA.names if name not in NAMES]
    known, names = {row["tag"]: row for row in rows}, named(asked["transform"])
    published = [{**row, "who": known.get(row["tag"], {}).get("who")} for row in table.to_pylist()]
    keys = tuple(name for name, column in asked["columns"].items() if column["role"] == "quasi_identifier")
    persons, suppresses = asked.get("person_id"), bool(set(names) & set(SUPPRESSING))
    before = entering(asked, rows, engine) if suppresses else published
    base = Counter(value_of(row["illness"]) for row in before)
    if persons:
        pairs = {(value_of(row["illness"]), known[row["tag"]]["who"]) for row in before}
        base = Counter(value for value, _ in pairs)
    data = Published(
        rows=published,
        quasi_identifiers=keys,
        mark=asked.get("suppression_mark", "*"),
        wildcard=asked["nulls"] == "wildcard",
        wildcard_text=asked.get("wildcard"),
        person=persons,
        base={"illness": base},
        everybody=len({known[row["tag"]]["who"] for row in before}) if persons else None,
        population=in_parts(census, published, known, keys)
        if names == ["mondrian"]
        else generalized(census, published, known),
    )
    released, verdicts = data.released(), result.assessment.verdicts
    for guarantee, verdict in zip(asked["guarantees"], verdicts, strict=True):
        [(name, parameters)] = guarantee.items()
        passed, figure = holds(name, parameters, data)
        assert (verdict.outcome, passed) == ("pass", True), (name, figure, verdict.observed)
        if figure is not None and isinstance(verdict.observed, int | float):
            assert verdict.observed == pytest.approx(figure, rel=1e-8, abs=1e-9), name
    assert result.assessment.records == len(released)
    assert result.assessment.suppressed_records == len(rows) - len(released) or "sample" in names
    tags = [row["tag"] for row in released]
    assert sorted(tags) == sorted(set(tags) & set(known))
    assert len(tags) < 12 or tags not in (sorted(tags), sorted(tags, reverse=True))
    if asked["nulls"] == "refuse":
        assert not any(value_of(row[key]) is None for row in released for key in keys)
    stages = [stage[name] for stage, name in zip(asked["transform"], names, strict=True) if name in SUPPRESSING]
    if len(stages) == 1 and "sample" not in names:
        gone = len(rows) - sum(row["tag"] in known for row in published)
        assert gone <= int(Decimal(repr(float(stages[0].get("suppress_at_most", 0)))) * len(rows) + Decimal("1e-9"))


def try_policies(seeds: Sequence[int], folder: Path, engine: Engine) -> Counter[str]:
    return Counter(release_and_judge(seed, folder / str(seed), engine) for seed in seeds)


@pytest.mark.parametrize("policies", [25, deep(65)])
def test_nothing_is_published_that_a_second_judge_refuses(policies: int, tmp_path: Path, embedded: Engine) -> None:
    found = try_policies([*range(235, 235 + policies), 1024, 1076], tmp_path, embedded)
    assert min(found["published"], found["NoSolutionError"]) >= policies // 7, found


def test_dask_publishes_nothing_that_a_second_judge_refuses(tmp_path: Path, dask_engine: Engine) -> None:
    assert try_policies([235, 243, 286], tmp_path, dask_engine)["published"] == 3


@pytest.mark.spark
def test_spark_publishes_nothing_that_a_second_judge_refuses(tmp_path: Path, spark_engine: Engine) -> None:
    assert try_policies([279], tmp_path, spark_engine)["published"] == 1
