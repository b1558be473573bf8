"""The interactive view: a kernel's CTA as a timeline, the span at the cursor, and its source below."""

from collections.abc import Sequence
from itertools import groupby
from typing import Any, ClassVar

from rich.cells import cell_len
from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widgets import Footer, Input, Static

from profscope.analysis.model.build import profile_model
from profscope.analysis.model.labels import differs_text
from profscope.analysis.source_code.annotated import Annotated, annotate
from profscope.analysis.source_code.texts import SourceLines
from profscope.profiles import Profile
from profscope.viewer.grid import fit, heading, pad, wrap
from profscope.viewer.header import EMULATED
from profscope.viewer.interactive.dialogs import KernelPicker, Keys
from profscope.viewer.interactive.explorer import Explorer
from profscope.viewer.kernels import launches_text
from profscope.viewer.source_view import annotated_rows
from profscope.viewer.timeline import Lane, LegendEntry, lane_name, render_legend, scale_text, symbol_styles
from profscope.viewer.units import duration_text, printable, source_text

__all__ = ["ExplorerApp"]

_LEAST_LABEL, _MOST_LABEL, _MOST_SCOPE, _SCROLLBAR = 10, 30, 44, 1
_LEAST_LEGEND = 5
_LEAST_LANES = 4
_CURSOR = "reverse"


class ExplorerApp(App[None]):
    """Keys as in Perfetto's UI: w and s zoom, a and d pan."""

    TITLE = "profscope"
    CSS = """
    #timeline, #header, #scale, #legend, #about { height: auto; }
    #timeline, #source { scrollbar-size-vertical: 1; scrollbar-gutter: stable; }
    #source { height: 1fr; display: none; border-top: solid $secondary; }
    #source.open { display: block; }
    #filter { display: none; height: 3; }
    #filter.open { display: block; }
    """
    ENABLE_COMMAND_PALETTE = False
    AUTO_FOCUS = None
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("tab", "next(1)", "span", key_display="tab", priority=True),
        Binding("shift+tab", "next(-1)", "previous", show=False, priority=True),
        Binding("w", "zoom(0.5)", "zoom", key_display="w s"),
        Binding("s", "zoom(2.0)", "zoom", show=False),
        Binding("a", "pan(-0.25)", "pan", show=False),
        Binding("d", "pan(0.25)", "pan", show=False),
        Binding("left", "move(-1)", "cursor", show=False),
        Binding("right", "move(1)", "cursor", show=False),
        Binding("up", "choose(-1)", "warp", show=False),
        Binding("down", "choose(1)", "warp", show=False),
        Binding("pageup", "scroll_source(-1)", "source", show=False),
        Binding("pagedown", "scroll_source(1)", "source", show=False),
        Binding("k", "kernels", "kernel"),
        Binding("n", "step(1)", "CTA", key_display="n p"),
        Binding("p", "step(-1)", "CTA", show=False),
        Binding("m", "toggle_sm", "SM", show=False),
        Binding("f", "follow", "copy", show=False),
        Binding("enter", "source", "source", key_display="enter"),
        Binding("slash", "ask_filter", "filter", key_display="/"),
        Binding("question_mark", "keys", "help", key_display="?"),
        Binding("escape", "close", "close", show=False),
        Binding("q", "quit", "quit"),
    ]

    def __init__(self, profile: Profile, disk: SourceLines) -> None:
        super().__init__()
        self._profile, self._disk = profile, disk
        self.model = profile_model(profile.tables, parts=())
        self.explorer = Explorer(profile.tables, self.model)
        self._sources: list[Annotated] | None = None
        self._line = ("", 0)
        self._said = ""

    def compose(self) -> ComposeResult:
        yield Static(id="header")
        yield Static(id="scale")
        yield VerticalScroll(Static(id="lanes"), id="timeline", can_focus=False)
        yield Static(id="legend")
        yield Static(id="about")
        yield Input(placeholder="a regular expression; empty: all scopes", id="filter")
        yield VerticalScroll(Static(id="text"), id="source", can_focus=False)
        yield Footer()

    def on_mount(self) -> None:
        self._draw()

    def on_resize(self) -> None:
        self._draw()
        if self._source.has_class("open"):
            self._draw_source()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Tab is asked here first, also while a dialog is open."""
        return action != "next" or len(self.screen_stack) == 1

    def action_zoom(self, factor: float) -> None:
        self.explorer.zoom(factor)
        self._draw()

    def action_pan(self, part: float) -> None:
        self.explorer.pan(part)
        self._draw()

    def action_move(self, cells: int) -> None:
        self.explorer.move(cells / self._cells)
        self._draw()

    def action_choose(self, lanes: int) -> None:
        self.explorer.choose(lanes)
        self._draw()

    def action_next(self, direction: int) -> None:
        found = self.explorer.next_of(direction)
        which = "later" if direction > 0 else "earlier"
        self._draw("" if found else f"this warp has no {which} span{self._filtered}")

    def action_step(self, count: int) -> None:
        before = self.explorer.at
        self.explorer.step(count)
        end = "fastest" if count > 0 else "slowest"
        self._draw(f"this is the {end} CTA" if self.explorer.at == before else "")

    def action_toggle_sm(self) -> None:
        self.explorer.toggle_sm()
        self._draw()

    def action_follow(self) -> None:
        found = self.explorer.follow()
        self._draw("" if found else "this span has no recorded copy to follow")

    def action_kernels(self) -> None:
        picker = KernelPicker(self.explorer.kernels, self.model, self.explorer.kernel)
        self.push_screen(picker, self._choose_kernel)

    def _choose_kernel(self, kernel: int | None) -> None:
        if kernel is not None:
            self.explorer.choose_kernel(kernel)
            self._close_source()
            self._draw()

    def action_keys(self) -> None:
        self.push_screen(Keys())

    def action_ask_filter(self) -> None:
        asked = self.query_one(Input)
        asked.border_title = "scopes to draw   Enter: draw them   Esc: close"
        asked.value = self.explorer.pattern
        asked.add_class("open")
        asked.focus()
        self._draw()

    def action_close(self) -> None:
        """Close the filter if it is being asked for, else the source."""
        if self._leave_filter():
            self._draw()
        elif self._source.has_class("open"):
            self._close_source()
            self._draw()
        else:
            self._draw("q quits")

    def action_scroll_source(self, direction: int) -> None:
        self._source.scroll_page_down() if direction > 0 else self._source.scroll_page_up()

    def _leave_filter(self) -> bool:
        """Whether it was being asked for."""
        asked = self.query_one(Input)
        was_open = asked.has_class("open")
        asked.remove_class("open")
        self.set_focus(None)
        return was_open

    def on_input_submitted(self, event: Input.Submitted) -> None:
        asked = event.value
        if not self.explorer.filter(asked):
            said = f"no scope of this kernel matches {printable(asked)!r}; the filter is as before"
        else:
            said = "" if asked else "no filter: all scopes are drawn"
        self._leave_filter()
        self._draw(said)

    def action_source(self) -> None:
        """Bring the chosen span's line into sight, with the whole kernel around it."""
        chosen = self.explorer.selected()
        if chosen is None:
            self._draw("there is no span at the cursor; tab goes to the next one")
            return
        row: Any = self.explorer.rows.loc[chosen]
        self._line = str(row["file"]), int(row["line"])
        self._source.add_class("open")
        self._draw("" if self._draw_source() else "the source of this kernel is not known")

    @property
    def _source(self) -> VerticalScroll:
        return self.query_one("#source", VerticalScroll)

    @property
    def _label(self) -> int:
        """Cells in front of a lane, for the longest name of one."""
        names = [f"  {lane_name(scope)}" for scope in self.explorer.lane_scopes]
        names += [self._warp_name(cta, warp) for cta, warp in self.explorer.warps]
        return min(max(_LEAST_LABEL, *(cell_len(name) + 1 for name in names)), _MOST_LABEL)

    def _warp_name(self, cta: int, warp: int) -> str:
        return f"CTA {cta} warp {warp}" if self.explorer.whole_sm else f"warp {warp}"

    @property
    def _cells(self) -> int:
        return max(self.size.width - self._label - _SCROLLBAR, 20)

    @property
    def _filtered(self) -> str:
        return f" that matches {printable(self.explorer.pattern)!r}" if self.explorer.pattern else ""

    def _draw(self, said: str = "") -> None:
        """said: what there is to say of the last key."""
        explorer, width = self.explorer, self.size.width
        drawn = explorer.drawn(self._cells)
        header = self._header(width)
        about = self._about(width, said)
        asked = 3 if self.query_one(Input).has_class("open") else 0
        rest = self.size.height - len(header) - len(about) - asked - 2  # the scale and the footer
        is_open = self._source.has_class("open")
        most = _LEAST_LEGEND if is_open else max(_LEAST_LEGEND, rest - len(drawn.lanes))
        legend = self._legend(drawn.legend, width, most)
        scale = " " * self._label + scale_text(explorer.begin, explorer.end, explorer.unit, self._cells)
        for name, lines in (("header", header), ("legend", legend), ("about", about)):
            self.query_one(f"#{name}", Static).update(Text("\n").join(lines))
        self.query_one("#scale", Static).update(Text(scale, style="dim", no_wrap=True))
        styles = symbol_styles(drawn.legend)
        lanes = [self._lane(cta, lane, styles) for cta, lane in drawn.lanes]
        self.query_one("#lanes", Static).update(Text("\n").join(lanes))
        rest -= len(legend)
        most = max(rest // 2 if is_open else rest, _LEAST_LANES)
        self._show_lanes(min(len(lanes), most), [(cta, lane.warp) for cta, lane in drawn.lanes])

    def _show_lanes(self, rows: int, lanes: Sequence[tuple[int, int]]) -> None:
        """In so many rows, the chosen warp among them."""
        timeline = self.query_one("#timeline", VerticalScroll)
        timeline.styles.height = rows
        chosen = lanes.index(self.explorer.warps[self.explorer.lane])
        if not timeline.scroll_y <= chosen < timeline.scroll_y + rows:
            self.call_after_refresh(timeline.scroll_to, y=max(chosen - rows // 2, 0), animate=False)

    def _header(self, width: int) -> list[Text]:
        """The kernel, as the model has it, and which of its CTAs is shown."""
        explorer, entry, cta = self.explorer, self.explorer.entry, self.explorer.cta
        lines = [Text(EMULATED, style="bold black on yellow")] if self.model.emulated else []
        told = [differs_text(entry.differs)] if entry.differs else []
        told += launches_text(entry, explorer.unit)
        if len(explorer.kernels) > 1:
            told.append(f"kernel {explorer.kernel + 1} of {len(explorer.kernels)}")
        lines += heading(printable(entry.name), [*told, entry.verdict], width)
        what = f"SM {cta.sm}" if explorer.whole_sm else f"CTA {cta.cta} on SM {cta.sm}"
        parts = [f"launch {cta.launch}", f"{what}: {self._time(explorer.duration)}"]
        parts.append(f"number {explorer.at + 1:,} of {len(explorer.ctas):,} from the slowest")
        if (explorer.begin, explorer.end) != (0, explorer.duration):
            parts.append(f"drawn: {self._time(explorer.begin)} to {self._time(explorer.end)}")
        parts += [f"filter: {printable(explorer.pattern)}"] if explorer.pattern else []
        return [*lines, *(Text(line) for line in wrap(parts, width, ", "))]

    def _lane(self, cta: int, lane: Lane, styles: dict[str, str]) -> Text:
        explorer = self.explorer
        is_chosen = not lane.scope and (cta, lane.warp) == explorer.warps[explorer.lane]
        name = f"  {lane_name(lane.scope)}" if lane.scope else self._warp_name(cta, lane.warp)
        label = pad(fit(name, self._label - 1), self._label)
        text = Text(label, style="bold" if is_chosen else "dim", no_wrap=True)
        for symbol, cells in groupby(lane.cells):
            text.append("".join(cells), style=styles.get(symbol, "default"))
        if is_chosen:
            length = explorer.end - explorer.begin
            column = self._label + (explorer.cursor - explorer.begin) * self._cells // length
            text.stylize(_CURSOR, column, column + 1)
        return text

    def _legend(self, legend: Sequence[LegendEntry], width: int, most: int) -> list[Text]:
        """What the letters stand for, in at most so many lines; if the filter leaves none, that."""
        if not legend and self.explorer.pattern:
            said = f"no span here{self._filtered}; / and an empty line draws all scopes"
            return [Text(line, style="bold") for line in wrap(said.split(" "), width)]
        shown = list(legend)
        while len(lines := render_legend(shown, width, _MOST_SCOPE)) > most - (len(shown) < len(legend)):
            shown.pop()
        if len(shown) < len(legend):
            more = f"{len(legend) - len(shown)} more scopes; the line below names the one at the cursor"
            lines.append(Text(fit(more, width), style="dim"))
        return lines

    def _about(self, width: int, said: str) -> list[Text]:
        """The span at the cursor, and what there is to say of the last key."""
        explorer = self.explorer
        chosen = explorer.selected()
        told = [f"at {self._time(explorer.cursor)}"]
        name = "no span"
        if chosen is not None:
            row: Any = explorer.rows.loc[chosen]
            name = printable(str(row["scope"]))
            place = source_text(str(row["file"]), int(row["line"]))
            step = [f"iteration {row['iteration']}"] if int(row["iteration"]) >= 0 else []
            took = self._time(int(row[f"duration_{explorer.unit}"]))
            told = [took, *([place] if place else []), *step, *told]
        lines = heading(name, told, width)
        return lines + [Text(line, style="italic") for line in wrap(said.split(), width)]

    def _time(self, value: int) -> str:
        return duration_text(value, self.explorer.unit) + " cycles" * (self.explorer.unit == "cycles")

    def _close_source(self) -> None:
        self._source.remove_class("open")
        self.query_one("#text", Static).update("")

    def _draw_source(self) -> bool:
        """The source of the kernel, the chosen line in sight. False if it is not known."""
        if self._sources is None:  # worked out when it is first asked for
            self._sources = annotate(self._profile.tables, self._disk, most=0)[0]
        entry = self.explorer.entry
        wanted = entry.kernel, entry.variant
        source = next((each for each in self._sources if (each.kernel, each.variant) == wanted), None)
        if source is None:
            self._close_source()
            return False
        self._source.border_title = "source   page up, page down: scroll   Esc: close"
        rows = annotated_rows(source, max(self.size.width - _SCROLLBAR, 40), whole=True)
        places = [(line.file, line.line) if line else None for _, line in rows]
        at = places.index(self._line) if self._line in places else 0
        lines = [text.copy() for text, _ in rows]
        if at:
            lines[at].stylize(_CURSOR)
        self.query_one("#text", Static).update(Text("\n").join(lines))
        self.call_after_refresh(self._source.scroll_to, y=max(at - 2, 0), animate=False)
        return True
