"""The interactive view: a timeline above, the span that is chosen, and its source below."""

from typing import Any, ClassVar

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widgets import Footer, Input, Static

from profscope.profiles import Profile
from viewer.annotated import Annotated, annotate
from viewer.annotated_text import render_annotated
from viewer.cells import fit, pad
from viewer.drawing import beside, symbol_styles
from viewer.explorer import Explorer
from viewer.header import EMULATED
from viewer.source import SourceLines
from viewer.units import duration_text, printable, source_text

__all__ = ["ExplorerApp"]

KEYS = """\
w s            zoom in, zoom out
a d            pan left, pan right
left right     move the cursor
up down        choose a warp
tab shift+tab  next span, previous span
n p            faster CTA, slower CTA
m              all CTAs of the SM, or this CTA alone
f              from a copy to its wait, and back
enter          the source of the span
/              draw only scopes that match a regular expression; empty: all
?              this list
esc            close the filter, the source or this list
q              quit"""
_LABEL = 14
_CURSOR = "reverse"


class ExplorerApp(App[None]):
    """Keys as in Perfetto's UI: w and s zoom, a and d pan."""

    TITLE = "profscope"
    CSS = """
    #timeline { height: auto; max-height: 60%; }
    #about { height: auto; padding: 0 0 1 0; }
    #source { height: 1fr; }
    #filter { display: none; }
    #filter.shown { display: block; }
    """
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("w", "zoom(0.5)", "zoom", key_display="w s"),
        Binding("s", "zoom(2.0)", "zoom", show=False),
        Binding("a", "pan(-0.25)", "pan", key_display="a d"),
        Binding("d", "pan(0.25)", "pan", show=False),
        Binding("left", "move(-1)", "cursor", show=False),
        Binding("right", "move(1)", "cursor", show=False),
        Binding("up", "choose(-1)", "warp", show=False),
        Binding("down", "choose(1)", "warp", show=False),
        Binding("tab", "next(1)", "span", key_display="tab", priority=True),
        Binding("shift+tab", "next(-1)", "previous", show=False, priority=True),
        Binding("n", "step(1)", "CTA", key_display="n p"),
        Binding("p", "step(-1)", "CTA", show=False),
        Binding("m", "toggle_sm", "SM", show=False),
        Binding("f", "follow", "copy", show=False),
        Binding("enter", "source", "source", key_display="enter"),
        Binding("slash", "ask_filter", "filter", key_display="/"),
        Binding("question_mark", "keys", "keys", key_display="?"),
        Binding("escape", "close", "", show=False),
        Binding("q", "quit", "quit"),
    ]

    def __init__(self, profile: Profile, unit: str, disk: SourceLines) -> None:
        super().__init__()
        self.explorer = Explorer(profile, unit)
        self._profile, self._disk = profile, disk
        self._emulated = profile.emulated
        self._sources: list[Annotated] | None = None
        self._said = ""
        self._shown_line = ("", 0)

    def compose(self) -> ComposeResult:
        yield VerticalScroll(Static(id="lanes"), id="timeline")
        yield Static(id="about")
        yield Input(placeholder="scopes that match this regular expression; empty: all", id="filter")
        yield VerticalScroll(Static(id="text"), id="source")
        yield Footer()

    def on_mount(self) -> None:
        self._draw()

    def on_resize(self) -> None:
        self._draw()

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
        self._said = "" if self.explorer.next_of(direction) else "no further span in this warp"
        self._draw()

    def action_step(self, count: int) -> None:
        self.explorer.step(count)
        self._draw()

    def action_toggle_sm(self) -> None:
        self.explorer.toggle_sm()
        self._draw()

    def action_follow(self) -> None:
        self._said = "" if self.explorer.follow() else "no copy that it issued or waited for was recorded"
        self._draw()

    def action_ask_filter(self) -> None:
        self.query_one(Input).add_class("shown")
        self.query_one(Input).focus()

    def action_close(self) -> None:
        """Leave the filter where it is being asked for; else close the source or the keys."""
        if not self._leave_filter():
            self.query_one("#text", Static).update("")

    def action_keys(self) -> None:
        self.query_one("#text", Static).update(KEYS)
        self.query_one("#source", VerticalScroll).scroll_to(y=0, animate=False)

    def _leave_filter(self) -> bool:
        """Whether it was being asked for."""
        asked = self.query_one(Input)
        was_shown = asked.has_class("shown")
        asked.remove_class("shown")
        self.set_focus(None)
        return was_shown

    def on_input_submitted(self, event: Input.Submitted) -> None:
        if not self.explorer.filter(event.value):
            self._said = f"no scope matches {printable(event.value)!r}"
        self._leave_filter()
        self._draw()

    def action_source(self) -> None:
        """Bring the chosen span's line into sight, with the whole kernel around it."""
        chosen = self.explorer.selected()
        if chosen is None:
            self._said = "no span is chosen here"
        else:
            row: Any = self.explorer.rows.loc[chosen]
            self._show_source(str(row["file"]), int(row["line"]))
        self._draw()

    @property
    def _cells(self) -> int:
        return max(self.size.width - _LABEL - 2, 20)

    def _draw(self) -> None:
        self.query_one("#lanes", Static).update(self._timeline())
        self.query_one("#about", Static).update(self._about())

    def _timeline(self) -> Text:
        explorer, cells = self.explorer, self._cells
        drawn = explorer.drawn(cells)
        styles = symbol_styles(drawn.legend)
        text = Text(no_wrap=True)
        if self._emulated:
            text.append(EMULATED + "\n", style="bold black on yellow")
        text.append(self._title() + "\n", style="bold")
        column = (explorer.cursor - explorer.begin) * cells // (explorer.end - explorer.begin)
        chosen = explorer.warps[explorer.lane]
        for cta, lane in drawn.lanes:
            is_chosen = not lane.scope and (cta, lane.warp) == chosen
            warp = f"{cta}:{lane.warp}" if explorer.whole_sm else f"warp {lane.warp}"
            name = f"  {beside(lane.scope)}" if lane.scope else warp
            text.append(pad(fit(printable(name), _LABEL - 1), _LABEL), style="bold" if is_chosen else "dim")
            for at, symbol in enumerate(lane.cells):
                style = styles.get(symbol, "default")
                text.append(symbol, style=f"{style} {_CURSOR}" if is_chosen and at == column else style)
            text.append("\n")
        for entry in drawn.legend:
            text.append(entry.symbol, style=styles.get(entry.symbol, "default"))
            text.append(f" {printable(entry.scope)}   ", style="dim")
        return text

    def _title(self) -> str:
        explorer = self.explorer
        cta, unit = explorer.cta, explorer.unit
        what = f"SM {cta.sm}" if explorer.whole_sm else f"CTA {cta.cta} on SM {cta.sm}"
        window = f"{duration_text(explorer.begin, unit)} to {duration_text(explorer.end, unit)}"
        took = duration_text(explorer.duration, unit) + " cycles" * (unit == "cycles")
        return (
            f"{printable(cta.kernel)}  launch {cta.launch}, {what}: {took}, "
            f"number {explorer.at + 1} of {len(explorer.ctas):,} from the slowest; shown: {window}"
        )

    def _about(self) -> Text:
        """What is at the cursor."""
        explorer = self.explorer
        chosen = explorer.selected()
        said = f"  ({self._said})" * bool(self._said)
        self._said = ""
        moment = duration_text(explorer.cursor, explorer.unit)
        if chosen is None:
            return Text(f"at {moment}: no span{said}", style="dim")
        row: Any = explorer.rows.loc[chosen]
        took = duration_text(int(row[f"duration_{explorer.unit}"]), explorer.unit)
        took += " cycles" * (explorer.unit == "cycles")
        place = source_text(str(row["file"]), int(row["line"]))
        step = f", iteration {row['iteration']}" if int(row["iteration"]) >= 0 else ""
        return Text.assemble(
            (printable(str(row["scope"])), "bold"), f"  {took}, {place}{step}, at {moment}{said}"
        )

    def _show_source(self, file: str, line: int) -> None:
        if self._sources is None:  # worked out when it is first asked for
            self._sources = annotate(self._profile, self.explorer.unit, self._disk, most=0)[0]
        launches = self._profile.launches
        of_cta = launches[launches["launch"] == self.explorer.cta.launch].iloc[0]
        wanted = str(of_cta["kernel"]), int(of_cta["variant"])
        source = next((each for each in self._sources if (each.kernel, each.variant) == wanted), None)
        if source is None:
            return
        lines = render_annotated(source, max(self.size.width - 2, 40))
        self._shown_line = (file, line)
        self.query_one("#text", Static).update(Text("\n").join(lines))
        at = next((at for at, text in enumerate(lines) if f" {line}  " in text.plain[:48]), 0)
        self.query_one("#source", VerticalScroll).scroll_to(y=max(at - 2, 0), animate=False)
