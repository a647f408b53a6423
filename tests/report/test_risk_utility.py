"""The points that no other beats, by the definition; weights of the score; figures that may be shown."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from privpipe.reporting.entry_rows import FEW, leading_figure, public_figure
from privpipe.reporting.run_comparison import Point, RiskUtilityMap, risk_weights

FIGURES = st.one_of(st.none(), st.sampled_from([0.0, 0.1, 0.25, 0.5, 1.0]))


def map_of(pairs: list[tuple[float | None, float | None]]) -> RiskUtilityMap:
    points = tuple(
        Point(setting={"p": at}, outcome="pass" if at % 2 else "fail", risk=risk, loss=loss, gates={"gate": "pass"})
        for at, (risk, loss) in enumerate(pairs)
    )
    return RiskUtilityMap(points=points, risk_weights={"a": 1.0}, loss_weights={"b": 1.0})


@given(st.lists(st.tuples(FIGURES, FIGURES), min_size=1, max_size=8))
def test_a_point_is_on_the_front_unless_another_beats_it(pairs: list[tuple[float | None, float | None]]) -> None:
    found = map_of(pairs)
    known = [(r, l) for r, l in pairs if r is not None and l is not None]
    for at, (risk, loss) in enumerate(pairs):
        complete = risk is not None and loss is not None
        beaten = complete and any(r <= risk and l <= loss and (r < risk or l < loss) for r, l in known)
        assert (at in found.front) == (complete and not beaten)
        assert found.points[at].score == ((risk + loss) / 2 if complete else None)
    losses = [loss for _, loss in pairs if loss is not None]
    place = found.smallest_loss["gate"]
    assert (found.points[place].loss == min(losses)) if place is not None else not losses
    met = [loss for at, (_, loss) in enumerate(pairs) if at % 2 and loss is not None]
    place = found.smallest_loss["all guarantees"]
    assert (found.points[place].loss == min(met)) if place is not None else not met


def test_linkage_and_intervals_weigh_half_each() -> None:
    kinds = {"a": "record_linkage", "b": "sd_interval_disclosure", "c": "rank_interval_disclosure", "d": "other"}
    assert risk_weights(list(kinds), kinds) == {"a": 0.5, "b": 0.25, "c": 0.25, "d": 0.0}
    assert risk_weights(["a", "d"], kinds) == {"a": 0.5, "d": 0.5}


def test_what_rests_on_few_records_is_not_told() -> None:
    assert public_figure(4 / 1000, 1000) == FEW
    assert public_figure(5 / 1000, 1000) == "0.005"
    assert public_figure({"share": 0.5, "linked_records": 3, "suppressed_share": 0.0}, 1000).count(FEW) == 1
    assert public_figure({"loss": 0.001, "suppressed_share": 0.001}, 1000, share=False) == (
        f"loss 0.001, suppressed_share {FEW}"
    )
    assert public_figure([0.0, True, "il1s", None], 10) == "0, True, il1s, -"
    assert leading_figure({"all": 1, "share": 0.2}) == 0.2
    assert leading_figure({"metric": "gower"}) is None
    assert leading_figure(True) is None
