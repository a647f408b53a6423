"""Sentences and cells of a report that need more than one text of the catalogue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from privpipe.reporting.entry_rows import entry_class, leading_figure
from privpipe.reporting.officer.charts import Mark, columns_chart, scatter
from privpipe.reporting.officer.languages import Noted, by_gravity, is_grave, noted

if TYPE_CHECKING:
    from markupsafe import Markup

    from privpipe.reporting.entry_rows import JudgedRow
    from privpipe.reporting.officer.languages import Messages, Numbers
    from privpipe.reporting.officer.report_data import ColumnRow, ReportData

__all__ = ["Wording"]

SHARES = ("risk", "uniqueness", "linkage", "disclosure", "inference", "attack", "presence")
CHANCES = ("prosecutor", "journalist", "marketer")


@dataclass(frozen=True)
class Wording:
    """What a page states about one report in one language.

    Parameters
    ----------
    data : ReportData
    messages : Messages
    numbers : Numbers
    """

    data: ReportData
    messages: Messages
    numbers: Numbers

    @property
    def few(self) -> str:
        """Instead of a figure that rests on few records."""
        return self.messages.text("few", least=self.data.threshold)

    def title(self, name: str) -> str:
        """What people call an entry; its name in the catalogue where they have no word for it."""
        return self._known("entry", name)

    def stage(self, name: str) -> str:
        """What people call a method."""
        return self._known("stage", name)

    def state(self) -> str:
        """The word of the banner."""
        failed = self.data.state == "refused" and self.data.run["run_id"] is None
        return self.messages.text("state.judged_failed" if failed else f"state.{self.data.state}")

    def reason(self) -> str:
        """The reason of the verdict in one plain sentence."""
        text, data = self.messages.text, self.data
        if data.state == "lost":
            return text("reason.lost")
        binding = [row for row in data.guarantees if not row.warns]
        failed = [row for row in binding if row.outcome != "pass"]
        if data.state == "refused":
            return self._refusal(failed)
        if data.state in ("waiting", "judged"):
            return text(f"reason.{data.state}")
        warned = [row for row in data.guarantees if row.warns and row.outcome != "pass"]
        if warned:
            return text("reason.warned", warned=self.numbers.number(len(warned)))
        if len(binding) == 1:
            return text("reason.published_one")
        return text("reason.published", met=self.numbers.number(len(binding)), all=self.numbers.number(len(binding)))

    def _refusal(self, failed: Sequence[JudgedRow]) -> str:
        text = self.messages.text
        if not failed:
            return text("reason.nothing")
        row = failed[0]
        if row.outcome == "error":
            said = text("reason.error", title=self.title(row.name))
        elif row.observed is None and not row.few:
            said = text("reason.fail_withheld", title=self.title(row.name))
        else:
            said = text("reason.fail", title=self.title(row.name), asked=self.asked(row), reached=self.reached(row))
        more = text("reason.more", more=self.numbers.number(len(failed) - 1)) if len(failed) > 1 else ""
        return f"{said} {more}".strip()

    def warnings(self) -> list[str]:
        """A sentence for each guarantee that only warns and is not met."""
        rows = [row for row in self.data.guarantees if row.warns and row.outcome != "pass"]
        return [
            self.messages.text("warning", title=self.title(row.name), asked=self.asked(row), reached=self.reached(row))
            for row in rows
        ]

    def figure(self, value: Any, *, share: bool = False) -> str:
        """A figure, or figures under names."""
        if value is None:
            return "-"
        if isinstance(value, Mapping):
            return ", ".join(f"{name}: {self.figure(each, share=share)}" for name, each in value.items())
        if isinstance(value, list | tuple):
            return ", ".join(self.figure(each, share=share) for each in value)
        if isinstance(value, bool):
            return self.messages.text("yes" if value else "no")
        if isinstance(value, float) and share and 0 <= value <= 1:
            return self.numbers.percent(value)
        return self.numbers.number(value)

    def asked(self, row: JudgedRow) -> str:
        """What was asked, with its direction."""
        if row.asked is None:
            return "-"
        return self.messages.text(f"asked.{row.direction}", value=self.figure(row.asked, share=self._share(row)))

    def reached(self, row: JudgedRow) -> str:
        """What was achieved; a share of few records as such."""
        if row.few:
            return self.few
        if row.observed is None:
            # The private edition holds every figure that there is.
            missing = "withheld" if self.data.edition == "public" else "unknown"
            return self.messages.text("outcome.error" if row.outcome == "error" else missing)
        return self.figure(row.observed, share=self._share(row))

    def margin(self, row: JudgedRow) -> str:
        """How far what was achieved is from what was required."""
        text = self.messages.text
        if row.margin is None or row.asked is None or row.outcome == "error":
            return text("margin.none")
        far = self.figure(abs(row.margin), share=self._share(row))
        if row.margin < 0:
            return text("margin.missed", margin=far)
        if row.margin == 0:
            return text("margin.exact" if leading_figure(row.asked) else "margin.none")  # nothing is below none
        wanted = leading_figure(row.asked)
        if not wanted:
            return text("margin.met_zero", margin=far)
        return text("margin.met", margin=far, share=self.numbers.percent(row.margin / wanted))

    def outcome(self, row: JudgedRow) -> str:
        """What came of it, in words."""
        said = self._known("outcome", row.outcome)
        return self.messages.text("outcome.warns", outcome=said) if row.warns and row.outcome != "pass" else said

    def _share(self, row: JudgedRow) -> bool:
        return row.share or any(word in row.name for word in SHARES)

    def meaning(self) -> list[str]:
        """Guarantees in words for a person."""
        found = []
        for row in self.data.guarantees:
            key = f"meaning.{row.name}"
            if self.messages.has(key) and row.outcome == "pass":
                wanted = leading_figure(row.asked)
                found.append(
                    self.messages.text(
                        key,
                        asked=self.figure(row.asked, share=self._share(row)),
                        reached=self._below_few() if row.few else self.reached(row),
                        columns=", ".join(row.columns) or self.messages.text("meaning.all_quasi_identifiers"),
                        risk=self.numbers.percent(1 / wanted) if wanted else "",
                    )
                )
        return list(dict.fromkeys(found))

    def _below_few(self) -> str:
        """Instead of a share of few records within a sentence: what it is below."""
        records = self.data.records["released"] or 0
        return f"< {self.numbers.percent(min(1.0, self.data.threshold / records))}" if records else self.few

    def role(self, role: str) -> tuple[str, str]:
        """A role and why a column has it."""
        return self._known("role", role), self._known("why", role)

    def _known(self, kind: str, word: str) -> str:
        """A word of the documents in the language; the word itself where the catalogue has it not."""
        return self.messages.text(f"{kind}.{word}") if self.messages.has(f"{kind}.{word}") else word

    def done(self, row: ColumnRow) -> str:
        """What was done to a column."""
        if not row.done:
            return self.messages.text("done.nothing")
        return "; ".join(
            self.stage(name)
            if level is None
            else self.messages.text("done.level", stage=self.stage(name), level=self.numbers.number(level))
            for name, level in row.done
        )

    def labels(self, row: ColumnRow) -> str:
        """Labels before and after."""
        if row.labels_after is None:
            return "-"
        after = self.numbers.number(row.labels_after)
        return after if row.labels_before is None else f"{self.numbers.number(row.labels_before)} → {after}"

    def column_share(self, row: ColumnRow, name: str) -> str:
        """A share of the cells of a column."""
        if name in row.few:
            return self.few
        value = getattr(row, name)
        return "-" if value is None else self.numbers.percent(value)

    def risk_rows(self) -> list[tuple[str, str, str, str]]:
        """Intruder, figure, before and after."""
        risks = self.data.risks or {}
        before, after = risks.get("before") or {}, risks.get("after") or {}
        rows = []
        for intruder in CHANCES:
            sides = (before.get(intruder), after.get(intruder))
            names = [name for name in ("highest", "average", "at_risk") if any(name in (each or {}) for each in sides)]
            for name in names:
                key = "right" if intruder == "marketer" else name
                limit = self.numbers.percent(risks.get("at_risk") or 0.2)
                figure = self.messages.text(f"figure.{key}", limit=limit)
                rows.append((intruder, figure, self._risk(sides[0], name), self._risk(sides[1], name)))
        return rows

    def _risk(self, side: Mapping[str, Any] | None, name: str) -> str:
        if not side or name not in side:
            return self.messages.text("unknown")
        return self.few if side[name] is None else self.numbers.percent(side[name])

    def size(self, each: Mapping[str, Any]) -> str:
        """The sizes of one bar."""
        low, high = each["from"], each.get("to")
        if high is None:
            return self.messages.text("sizes.open", low=self.numbers.number(low))
        if low == high:
            return self.numbers.number(low)
        return self.messages.text("sizes.range", low=self.numbers.number(low), high=self.numbers.number(high))

    def size_chart(self) -> Markup:
        """Records by the size of their class."""
        classes = self.data.classes or {}
        totals = [max(1, total) for total in classes["records"]]
        series = [
            (
                self.messages.text(f"head.{side}"),
                side,
                [each["counts"][at] / totals[at] for each in classes["bins"]],
            )
            for at, side in enumerate(classes["sides"])
        ]
        axes = (self.messages.text("sizes.axis_x"), self.messages.text("sizes.axis_y"))
        labels = [_short_size(each) for each in classes["bins"]]
        return columns_chart(self.messages.text("sizes.chart"), axes, labels, series)

    def line(self, line: Mapping[str, Any], form: str) -> str:
        """What one line of a distribution counts."""
        kind = line["kind"]
        if kind == "label":
            return str(line["label"])
        if kind != "interval":
            return self.messages.text(f"line.{kind}", labels=self.numbers.number(line["labels"]))
        low, _, high = str(line["label"]).partition(":")
        ends = {name: self._end(text, form) for name, text in (("low", low), ("high", high)) if text}
        key = {("low", "high"): "between", ("low",): "from", ("high",): "below", (): "all"}[tuple(ends)]
        return self.messages.text(f"line.{key}", **ends)

    def _end(self, text: str, form: str) -> str:
        value = float(text)
        return f"{value:.0f}" if form == "years" else self.numbers.number(value, digits=6)

    def levels(self, levels: Mapping[str, int]) -> str:
        """Levels by column."""
        return ", ".join(f"{name} {level}" for name, level in levels.items())

    def proved(self, space: Mapping[str, Any]) -> str:
        """How far a search of vectors of levels proved that it chose the best."""
        if space["optimal"] or space["bound"] is None:
            return self.messages.text("space.optimal" if space["optimal"] else "space.not_optimal")
        return self.messages.text("space.bound", bound=self.figure(space["bound"]))

    def searched(self, each: Mapping[str, Any]) -> str:
        """What a stage that tried no vectors of levels states about its search."""
        known = {name: self.figure(each[name]) for name in ("checked", "programs", "classes", "loss", "bound", "above")}
        said = self.messages.text(
            f"search.{each['kind']}",
            stage=self.stage(each["stage"]),
            blanked=self.messages.text("search.few") if each["few"] else self.figure(each["blanked"]),
            **known,
        )
        if each["kind"] != "programs":
            return said
        proof = "search.proved" if each["optimal"] else "search.bound" if each["bound"] else "search.unproved"
        return f"{said} {self.messages.text(proof, bound=known['bound'])}"

    def space_chart(self) -> Markup | None:
        """Loss and risk of what the search saw; None where it has no two figures to draw."""
        points = [
            p for p in (self.data.space or {}).get("points", ()) if p["loss"] is not None and p["risk"] is not None
        ]
        if len(points) < 2:
            return None
        kinds = {"chosen": "chosen", "neighbour": "near", "other": "other"}
        marks = [
            Mark(x=p["loss"], y=p["risk"], kind=kinds[p["role"]], title=self._point(self.levels(p["levels"]), p))
            for p in points
        ]
        legend = [(kinds[role], self.messages.text(f"point.{role}")) for role in kinds]
        axes = (self.messages.text("axis.loss"), self.messages.text("axis.risk"))
        return scatter(self.messages.text("space.chart"), axes, marks, legend)

    def tried_chart(self) -> Markup | None:
        """Loss and risk of the settings that were compared."""
        points = [p for p in (self.data.tried or {}).get("points", ()) if None not in (p.get("loss"), p.get("risk"))]
        if not points:
            return None
        marks = [
            Mark(
                x=p["loss"],
                y=p["risk"],
                kind="chosen" if p.get("pareto") else "other",
                title=self._point(self.setting(p), p),
            )
            for p in points
        ]
        legend = [("chosen", self.messages.text("point.unbeaten")), ("other", self.messages.text("point.beaten"))]
        axes = (self.messages.text("axis.loss"), self.messages.text("axis.risk"))
        return scatter(self.messages.text("tried.chart"), axes, marks, legend)

    def setting(self, point: Mapping[str, Any]) -> str:
        """The setting of a point."""
        return ", ".join(f"{place}: {value}" for place, value in (point.get("setting") or {}).items())

    def _point(self, name: str, point: Mapping[str, Any]) -> str:
        loss, risk = (self.numbers.number(point[key]) for key in ("loss", "risk"))
        return f"{name}: {self.messages.text('axis.loss')} {loss}, {self.messages.text('axis.risk')} {risk}"

    def worst(self) -> list[tuple[str, Noted]]:
        """The three gravest things to know: alarms, guarantees that only warn, notes that give something away."""
        grave = self.noted([each for each in by_gravity(self.data.notes) if is_grave(each)])
        found = [
            ("alarm", Noted(f"{self.messages.text('head.alarm').upper()}: {each.text}", each.english))
            for each in self.noted(self.data.alarms)
        ]
        found += [("warning", each) for each in (*map(Noted, self.warnings()), *grave)]
        return found[:WORST]

    def noted(self, sentences: Sequence[str]) -> list[Noted]:
        """Notes or alarms in the language of the page."""
        return [noted(sentence, self.messages, self.numbers) for sentence in sentences]

    def entries(self) -> list[dict[str, str]]:
        """What `explain` states about this run's entries; in another language than English against what they guard."""
        names = dict.fromkeys(row.name for row in (*self.data.guarantees, *self.data.measures))
        found = []
        for name in names:
            entry = entry_class(name)
            if entry is not None and self._guards(name):
                found.append({"name": name, "title": self.title(name), "summary": "", "choose": "", "english": ""})
                found[-1]["threat"] = self._guards(name)
            elif entry is not None:
                said = {each: " ".join(str(getattr(entry, each, "") or "").split()) for each in ("threat", "choose")}
                found.append({"name": name, "title": self.title(name), "summary": entry.summary(), **said})
                found[-1]["english"] = "yes"
        return found

    def _guards(self, name: str) -> str:
        """Against what an entry guards, in another language than English; nothing where the catalogue has it not."""
        known = self.messages.lang != "en" and self.messages.has(f"guards.{name}")
        return self.messages.text(f"guards.{name}") if known else ""

    def knows(self, name: str) -> Noted:
        """What an attack assumes, in the words of the catalogue."""
        entry = entry_class(name)
        if self._guards(name) or entry is None:
            return Noted(self._guards(name))
        return Noted(" ".join(entry.threat.split()) or entry.summary(), english=True)


WORST = 3


def _short_size(each: Mapping[str, Any]) -> str:
    low, high = each["from"], each.get("to")
    return f"{low}+" if high is None else str(low) if low == high else f"{low}-{high}"
