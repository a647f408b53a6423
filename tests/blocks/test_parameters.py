"""Parameters said once: every constraint of every entry refuses what is beyond it, and marks say what fields name."""

from __future__ import annotations

import dataclasses
import inspect
import math
import re
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import pytest
from annotated_types import Ge, Gt, Interval, Le, Lt, MinLen, MultipleOf
from typing_extensions import Doc

from privpipe import measures, models, transforms
from privpipe.blocks import Entry, Facts, Guarantee, Tally, Verdict
from privpipe.blocks.guarantee import COMMON_KEYS
from privpipe.blocks.marks import BaseDistribution, ColumnNames, Columns, Household, SensitiveColumn, Weight
from privpipe.blocks.parameters import check_parameters, marked, parameters_of
from privpipe.errors import UsageError
from privpipe.roles import Roles
from privpipe.transforms.base import Transformer
from privpipe.transforms.local_suppression.suppress_cells_stage import CellBudget
from privpipe.transforms.microaggregation.parameters import SensitiveRule
from privpipe.transforms.noise.pram import TransitionMatrix
from privpipe.transforms.recoding.generalize_stage import SearchBudget
from privpipe.transforms.recoding.labelling import LossSpec
from tests.gathering import gathered

ENTRIES = [room.CATALOGUE[name] for room in (models, transforms, measures) for name in room.CATALOGUE]
NESTED = {
    SearchBudget: [SearchBudget()],
    CellBudget: [CellBudget()],
    LossSpec: [LossSpec()],
    SensitiveRule: [SensitiveRule(column="illness", l=2), SensitiveRule(column="illness", t=0.5)],
    TransitionMatrix: [TransitionMatrix(labels=("a",), rows=((1.0,),))],
}

RANGE = r"(must be an? (integer|number) (>|<|in |finite)|is a fraction)"


def constraints(hint: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], bool, Any]]:
    """What an annotation says of numbers: where they stand, whether they are whole, and the constraint."""
    if typing.get_origin(hint) is not Annotated:
        inside = {tuple: "list", list: "list", dict: "mapping", Mapping: "mapping"}
        step = inside.get(typing.get_origin(hint), "")  # type: ignore[call-overload]
        for part in typing.get_args(hint):
            if part is not Ellipsis and typing.get_origin(hint) is not Literal:
                yield from constraints(part, (*path, step) if step else path)
        return
    kinds = {hint.__origin__, *typing.get_args(hint.__origin__)}
    for said in hint.__metadata__:
        if isinstance(said, Ge | Gt | Le | Lt):
            yield path, int in kinds, said
    yield from constraints(hint.__origin__, path)


def wrapped(value: Any, path: tuple[str, ...]) -> Any:
    for step in reversed(path):
        value = (value,) if step == "list" else {"age": value}
    return value


def around(whole: bool, said: Any) -> tuple[list[float], list[float]]:
    """Values that a constraint takes and refuses: at its bound, just inside and just beyond."""
    bound = next(iter(vars(said).values())) if hasattr(said, "__dict__") else getattr(said, said.__slots__[0])
    side = 1 if isinstance(said, Ge | Gt) else -1
    near = (lambda step: bound + step) if whole else lambda step: math.nextafter(bound, math.inf * step)
    inside, beyond = near(side), near(-side)
    return ([inside], [bound, beyond]) if isinstance(said, Gt | Lt) else ([bound, inside], [beyond])


def places() -> list[tuple[type, str, tuple[str, ...], bool, Any]]:
    return [
        (owner, name, path, whole, said)
        for owner in (*ENTRIES, *NESTED)
        for name, hint in typing.get_type_hints(owner, localns={}, include_extras=True).items()
        if name in {field.name for field in dataclasses.fields(owner)}
        for path, whole, said in constraints(hint)
    ]


def refusals(owner: type, name: str, value: Any) -> list[bool]:
    """Whether each example refuses the value for its range, and not for what stands next to it."""
    told = []
    for example in NESTED[owner] if owner in NESTED else owner.examples():  # type: ignore[attr-defined]
        try:
            dataclasses.replace(example, **{name: value})
            told.append(False)
        except UsageError as error:
            told.append(bool(re.match(rf"\w+: (\w+\.)*{name}(\.age)? {RANGE}", str(error))))
    return told


def test_a_constraint_takes_its_bound_and_refuses_what_lies_beyond() -> None:
    with gathered() as case:
        for owner, name, path, whole, said in places():
            with case(f"{owner.__name__}.{name} {said}"):
                taken, refused = around(whole, said)
                for value in taken:
                    assert not all(refusals(owner, name, wrapped(value, path))), f"{value!r} keeps {said}"
                for value in (*refused, True, math.nan, math.inf, -math.inf):
                    assert any(refusals(owner, name, wrapped(value, path))), f"{value!r} does not keep {said}"


def test_there_is_much_to_hold() -> None:
    assert len(places()) > 150


def test_every_parameter_has_a_line_of_text() -> None:
    with gathered() as case:
        for owner in ENTRIES:
            with case(owner.__name__):
                for name, parameter in parameters_of(owner).items():
                    assert parameter.text, f"{name} says nothing of itself"
                    assert "\n" not in parameter.text
                assert list(owner.descriptions()) == [field.name for field in dataclasses.fields(owner)]  # type: ignore[arg-type]
                assert not hasattr(owner, "about")


def test_a_field_that_is_declared_again_loses_nothing() -> None:
    """A mark or a bound of a base class is not inherited by an annotation: it is said again."""
    with gathered() as case:
        for owner in ENTRIES:
            with case(owner.__name__):
                for name, parameter in parameters_of(owner).items():
                    for base in owner.__mro__[1:]:
                        if dataclasses.is_dataclass(base) and name in parameters_of(base):
                            assert set(map(type, parameter.marks)) >= set(map(type, parameters_of(base)[name].marks))
                            number = parameters_of(base)[name].shape.number
                            for bound in number.bounds() if number is not None else ():
                                assert parameter.shape.number is not None
                                assert any(isinstance(own, type(bound)) for own in parameter.shape.number.bounds()), (
                                    name
                                )


def test_the_docstring_names_the_fields() -> None:
    with gathered() as case:
        for owner in ENTRIES:
            with case(owner.__name__):
                section = re.search(
                    r"^Parameters\n-+\n(.*?)(?=^\w+\n-{3,}|\Z)", inspect.getdoc(owner) or "", re.DOTALL | re.MULTILINE
                )
                lines = section[1].splitlines() if section else []
                heads = [line.partition(" : ")[0] for line in lines if re.match(r"\w[\w, ]*( : |$)", line)]
                named = {name for head in heads for name in head.split(", ")}
                fields = {field.name for field in dataclasses.fields(owner)}  # type: ignore[arg-type]
                assert named <= fields
                assert fields - named <= {*COMMON_KEYS, "over"}  # said once, of all guarantees


def test_the_schema_shows_the_ranges() -> None:
    with gathered() as case:
        for owner in ENTRIES:
            with case(owner.__name__):
                words = {Ge: "minimum", Gt: "exclusiveMinimum", Le: "maximum", Lt: "exclusiveMaximum"}
                told = str(owner.json_schema())
                for hint in typing.get_type_hints(owner, localns={}, include_extras=True).values():
                    for _, _, said in constraints(hint):
                        assert f"'{words[type(said)]}': " in told
                assert "'ge'" not in told  # what pydantic makes of a constraint on a whole union


@dataclass(frozen=True, kw_only=True, repr=False)
class Plain(Entry):
    """Some parameters."""

    count: Annotated[int | None, Ge(1), Le(9), Doc("how many")] = None
    share: Annotated[float, Interval(gt=0, le=1)] = 0.5
    tries: Annotated[int, Ge(0)] | Literal["auto"] = "auto"
    kind: Literal["even", "odd"] = "even"
    flag: bool = False
    free: float = 0.0
    by_column: dict[str, Annotated[float, Gt(0)]] | None = None
    steps: tuple[Annotated[int, Ge(0)], ...] = ()
    values: tuple[str | float | None, ...] = ()


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ({"count": 0}, "Plain: count must be an integer in [1, 9], got 0"),
        ({"count": True}, "Plain: count must be an integer in [1, 9], got True"),
        ({"count": 1.0}, "Plain: count must be an integer in [1, 9], got 1.0"),
        ({"share": 0}, "Plain: share must be a number > 0 and <= 1, got 0"),
        ({"share": math.nan}, "Plain: share must be a number > 0 and <= 1, got nan"),
        ({"share": None}, "Plain: share must be a number > 0 and <= 1, got None"),
        ({"free": math.inf}, "Plain: free must be a number finite, got inf"),
        ({"tries": -1}, "Plain: tries must be an integer >= 0, got -1"),
        ({"tries": "atuo"}, "Plain: tries must be an integer >= 0, got 'atuo'"),
        ({"kind": "evne"}, "Plain: kind must be one of even, odd, got 'evne'; did you mean 'even'?"),
        ({"kind": None}, "Plain: kind must be one of even, odd, got None"),
        ({"flag": 1}, "Plain: flag must be true or false, got 1"),
        ({"by_column": {"age": 0}}, "Plain: by_column.age must be a number > 0, got 0"),
        ({"by_column": 3}, "Plain: by_column must be a mapping, got 3"),
        ({"steps": [1, -1]}, "Plain: steps must be an integer >= 0, got -1"),
    ],
)
def test_what_is_refused_is_said_in_words(parameters: dict[str, Any], text: str) -> None:
    with pytest.raises(UsageError) as refused:
        Plain(**parameters)
    assert str(refused.value) == text
    if not any(value is True or value != value for value in parameters.values()):  # pydantic tells types first
        assert Plain.problems(parameters)


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"count": None, "by_column": None},
        {"count": 9, "share": 1, "tries": "auto", "kind": "odd", "flag": True},
        {"by_column": {}, "steps": (0, 1), "values": (math.nan, None, "a", True)},
    ],
)
def test_what_is_taken(parameters: dict[str, Any]) -> None:
    assert (
        Plain(**parameters).parameters().items()
        >= {name: value for name, value in parameters.items() if value is not None}.items()
    )


@pytest.mark.parametrize(
    "hint", [Annotated[int, MultipleOf(2)], Annotated[str, MinLen(1)], Annotated[int | str, Ge(1)]]
)
def test_a_constraint_that_no_one_would_check_is_refused(hint: Any) -> None:
    made: Any = dataclasses.make_dataclass("Made", [("k", hint)])
    with pytest.raises(TypeError, match="Made.k: the constraint"):
        check_parameters(made(k=3))


@dataclass(frozen=True, kw_only=True, repr=False)
class Stranger(Guarantee):
    """Fields called like those of others, which name nothing; and those that name have names of their own."""

    needs_base: ClassVar[bool] = True

    column: float = 0.5
    columns: int = 3
    weight: float = 2.0
    household: bool = False
    base: str = "the ground floor"
    ill: Annotated[str, SensitiveColumn(), Doc("what counts")] = "illness"
    stands_for: Annotated[str | None, Weight()] = None
    address: Annotated[str | None, Household()] = None
    over: Annotated[tuple[str, ...] | None, Columns()] = None
    beside_what: Annotated[str, BaseDistribution()] = "released"

    def judge(self, observed: Tally, facts: Facts) -> Verdict:
        return Verdict(self, None, "pass")


def test_no_name_of_a_field_is_magic() -> None:
    plain = Stranger()
    assert plain.sensitive_columns() == ("illness",)
    assert (plain.weight_column(), plain.household_column(), plain.own_columns()) == (None, None, None)
    assert plain.base_distribution() == "released"
    told = Stranger(stands_for="w", address="house", over=("a", "b"), quasi_identifiers=("age",))
    assert (told.weight_column(), told.household_column(), told.own_columns()) == ("w", "house", ("a", "b"))
    assert told.record_columns() == ("w", "house")
    assert marked(Stranger, SensitiveColumn) == ("ill",)


def test_who_marks_a_column_hears_of_it_by_its_own_name() -> None:
    with pytest.raises(UsageError, match="Stranger: ill must be a column name"):
        Stranger(ill="")
    with pytest.raises(UsageError, match="'age' cannot be judged within classes that it forms itself"):
        Stranger(ill="age", quasi_identifiers=("age",))


def test_the_room_above_asks_the_marks_too() -> None:
    from privpipe.judging.rules import base_of, keys_of
    from privpipe.judging.ways import way_of

    assert base_of(Stranger()) == "released"
    assert keys_of(Stranger(), Roles(quasi_identifiers=["zip"])) == ("zip",)
    stranger = Stranger(over=("a",))
    assert way_of(stranger).columns_used_by(stranger, ["zip"]) == ("zip",)


@dataclass(frozen=True, kw_only=True, repr=False)
class Whitewash(Transformer):
    """A stage whose columns go by another name."""

    columns: int = 0
    walls: Annotated[tuple[str, ...], Columns()]
    rooms: Annotated[tuple[str, ...], ColumnNames()] = ()


def test_a_stage_masks_what_it_marks() -> None:
    assert Whitewash(walls=("age",), rooms=("zip",)).masked_columns() == ("age",)
    assert marked(Whitewash, ColumnNames) == ("walls", "rooms")


@pytest.mark.parametrize("name", list(transforms.CATALOGUE))
def test_a_stage_that_is_told_its_columns_knows_what_it_masks(name: str) -> None:
    stage: Any = transforms.CATALOGUE[name]
    if stage.columns_rule == "required":
        assert all(example.masked_columns() for example in stage.examples())


def test_what_an_entry_works_out_represents_a_field() -> None:
    inference = measures.CATALOGUE["attribute_inference"].build({"column": "illness"})
    assert isinstance(inference, Guarantee)
    assert inference.base_distribution() == "released"
    loglinear = measures.CATALOGUE["loglinear_risk"].build({"weight": "weight", "formula": "age + zip"})
    assert isinstance(loglinear, Guarantee)
    assert loglinear.own_columns() == ("age", "zip")
