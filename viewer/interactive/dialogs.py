"""What the interactive view opens above itself: the list of kernels, and the list of keys."""

from collections.abc import Sequence
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from profscope.analysis.model.entries import KernelEntry, ProfileModel
from profscope.viewer.kernels import kernel_rows

__all__ = ["KernelPicker", "Keys"]

_FRAME = 6
"""Cells left and right of a dialog's text."""

_KEYS = """\
tab shift+tab      next span, previous span
left right         move the cursor
up down            choose a warp
w s                zoom in, zoom out
a d                pan left, pan right
k                  list the kernels; up, down and enter choose one
n p                faster CTA, slower CTA
m                  all CTAs on this SM, or this CTA alone
f                  from a copy to its wait, and back
enter              the source of the span at the cursor
page up page down  scroll the source
/                  draw only scopes that match; an empty line draws all
?                  these keys
esc                close these keys, the kernels, the filter or the source
q                  quit"""


class _Dialog(ModalScreen[int | None]):
    """Esc closes it, q leaves the view."""

    CSS = """
    Keys, KernelPicker { align: center middle; }
    Keys > VerticalScroll { width: 80; }
    Keys > *, KernelPicker > * {
        height: auto; max-height: 100%; border: round $secondary; padding: 0 1; background: $surface;
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "close"),
        Binding("q", "app.quit", "quit"),
    ]


class Keys(_Dialog):
    """All keys and what they do."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("question_mark,enter", "dismiss(None)", "close")]

    def compose(self) -> ComposeResult:
        frame = VerticalScroll(Static(_KEYS, markup=False))
        frame.border_title, frame.border_subtitle = "keys", "Esc: close   q: quit"
        yield frame


class KernelPicker(_Dialog):
    """The kernels as the table of kernels has them; returns the place of the chosen one, None if none was."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("k", "dismiss(None)", "close"),
        Binding("question_mark", "app.keys", "help"),
    ]

    def __init__(self, kernels: Sequence[KernelEntry], model: ProfileModel, chosen: int) -> None:
        super().__init__()
        self._kernels, self._model, self._chosen = kernels, model, chosen

    def compose(self) -> ComposeResult:
        yield OptionList()

    def on_mount(self) -> None:
        listed = self.query_one(OptionList)
        head, *rows = kernel_rows(self._kernels, self._model.unit, self.app.size.width - _FRAME)
        without = len(self._model.kernels) - len(self._kernels)
        listed.border_title = "kernels" + f" ({without} without spans of CTAs are not listed)" * bool(without)
        listed.border_subtitle = "Enter: choose   ?: keys   Esc: close"
        listed.add_option(Option(Text(head.plain, no_wrap=True), disabled=True))
        listed.add_options([Text(row.plain, no_wrap=True) for row in rows])
        listed.highlighted = self._chosen + 1  # below the head
        listed.focus()

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(event.option_index - 1)
