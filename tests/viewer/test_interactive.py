"""The interactive view: walked through by textual's pilot, and what it stands on."""

from __future__ import annotations

import asyncio

import pytest
from rich.cells import cell_len
from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.widgets import Footer, OptionList, Static

from profscope.analysis.model.build import profile_model
from profscope.errors import TraceError
from profscope.profiles import Profile
from profscope.viewer.interactive.app import ExplorerApp
from profscope.viewer.interactive.explorer import Explorer
from profscope.viewer.units import duration_text, share_text
from tests.support.captured import captured
from tests.support.command_line import run
from tests.support.one_warp import story
from tests.support.profiles import profile_metadata, regular_profile
from tests.support.quick import quick

PROFILE = regular_profile(launches=1, ctas=4, warps=2, iterations=2)


def with_a_copy() -> Profile:
    """A copy is issued at 10, in flight until 90, and waited for from 60 to 90."""
    return story(
        [
            ("k", "kernel", 0, -1, 0, 100),
            ("async copy x", "op", 1, 0, 10, 20),
            ("async copy x in flight", "async", 2, 1, 10, 90, 3),
            ("async wait x", "op", 1, 0, 60, 90),
        ]
    )


def two_kernels() -> Profile:
    return captured("layer_norm-heavy-0", "attention-heavy-0")


def explorer_of(profile: Profile) -> Explorer:
    return Explorer(profile.tables, profile_model(profile.tables, parts=()))


def test_ctas_are_walked_from_the_slowest_to_the_fastest() -> None:
    explorer = explorer_of(PROFILE)
    took = []
    for _ in explorer.ctas:
        took.append(explorer.duration)
        explorer.step(1)
    assert took == sorted(took, reverse=True)
    assert explorer.at == len(explorer.ctas) - 1, "there is no faster one"


def test_the_window_stays_inside_and_the_cursor_in_the_window() -> None:
    explorer = explorer_of(PROFILE)
    explorer.go(explorer.duration // 2)
    middle = explorer.cursor
    explorer.zoom(0.5)
    assert explorer.end - explorer.begin == pytest.approx(explorer.duration / 2, abs=1)
    assert explorer.cursor == middle
    for part in (-5.0, 5.0):
        explorer.pan(part)
        assert 0 <= explorer.begin <= explorer.cursor < explorer.end <= explorer.duration
    for _ in range(40):
        explorer.zoom(0.5)
    assert explorer.end - explorer.begin == 8
    explorer.zoom(1e9)
    assert (explorer.begin, explorer.end) == (0, explorer.duration)


def test_a_copy_is_followed_to_its_wait_and_back() -> None:
    explorer = explorer_of(with_a_copy())
    assert not explorer.follow(), "the kernel itself"
    explorer.go(12)
    assert explorer.follow()
    assert (explorer.cursor, explorer.selected()) == (60, 3)
    assert explorer.follow()
    assert (explorer.cursor, explorer.selected()) == (10, 1)


def test_the_filter_leaves_the_rest_as_dots() -> None:
    explorer = explorer_of(with_a_copy())
    explorer.filter("wait")
    drawn = explorer.drawn(20)
    assert {*drawn.lanes[0][1].cells} == {"·", drawn.legend[0].symbol}
    assert explorer.next_of(1)
    assert explorer.cursor == 60
    assert not explorer.next_of(1)
    assert not explorer.filter("("), "no scope has a bracket"
    assert explorer.drawn(20) == drawn, "all stays as it is"


def test_sums_have_nothing_to_walk_through() -> None:
    with pytest.raises(TraceError, match="no spans of CTAs"):
        explorer_of(Profile(metadata=profile_metadata()))


def shown(app: ExplorerApp, name: str) -> str:
    return str(app.query_one(name).render())


def test_the_keys_do_what_they_say() -> None:
    async def walk() -> None:
        app = ExplorerApp(PROFILE, lambda file, line: "")
        async with app.run_test(size=(100, 40)) as pilot:
            assert "number 1 of 4 from the slowest" in shown(app, "#header")
            assert shown(app, "#lanes").count("warp ") == 2
            await pilot.press("n", "w", "tab", "down")
            assert (app.explorer.at, app.explorer.lane) == (1, 1)
            assert app.explorer.end - app.explorer.begin < app.explorer.duration
            await pilot.press("tab", "enter")
            assert "source, share of warp time by spans" in shown(app, "#text").replace("\n ", "")
            await pilot.press("slash", "d", "o", "t", "enter")
            assert app.explorer.pattern == "dot"
            assert "filter: dot" in shown(app, "#header")
            await pilot.press("m")
            assert app.explorer.whole_sm
            await pilot.press("f")
            assert "this span has no recorded copy to follow" in shown(app, "#about")
            await pilot.press("q")
        assert not app.is_running

    asyncio.run(walk())


def test_the_header_has_the_figures_of_the_model() -> None:
    async def walk() -> None:
        profile = two_kernels()
        app = ExplorerApp(profile, lambda file, line: "")
        async with app.run_test(size=(100, 40)):
            first = profile.report()["kernels"][0]
            told = shown(app, "#header")
            assert told.startswith(first["kernel"])
            assert f"median {duration_text(first['time']['median'], 'ns')}" in told
            assert f"{share_text(first['share'])} of all launches' time" in told
            assert first["verdict"] in told

    asyncio.run(walk())


def test_a_kernel_is_picked_from_a_list() -> None:
    async def walk() -> None:
        app = ExplorerApp(two_kernels(), lambda file, line: "")
        async with app.run_test(size=(100, 30)) as pilot:
            names = [entry.kernel for entry in app.model.kernels]
            assert app.explorer.entry.kernel == names[0]
            await pilot.press("k")
            listed = [str(option.prompt) for option in app.screen.query_one(OptionList).options]
            assert [row.split()[0] for row in listed] == ["kernel", *names]
            await pilot.press("escape", "tab")
            assert app.explorer.entry.kernel == names[0]
            await pilot.press("k", "tab", "down", "enter")
            assert app.explorer.entry.kernel == names[1]
            assert shown(app, "#header").startswith(names[1])
            launches = {cta.launch for cta in app.explorer.ctas}
            own = app.explorer.rows["kernel"].astype("str").unique().tolist()
            assert (len(launches), own) == (1, [names[1]])

    asyncio.run(walk())


@pytest.mark.parametrize("size", quick([((100, 30),), ((80, 24),)], [((80, 24),)]))
def test_nothing_is_cut(size: tuple[int, int]) -> None:
    async def walk() -> None:
        app = ExplorerApp(two_kernels(), lambda file, line: "")
        async with app.run_test(size=size) as pilot:
            for keys in (
                (),
                ("m",),
                ("slash", "w", "a", "i", "t", "enter"),
                ("tab", "enter"),
                ("w", "w", "n"),
            ):
                await pilot.press(*keys)
                await pilot.pause()
                for name in ("header", "lanes", "legend", "about", "text"):
                    lines = shown(app, f"#{name}").splitlines()
                    assert max(map(cell_len, lines), default=0) <= size[0]
                    assert not any("…" in line for line in lines)
                assert app.query_one("#about").region.bottom < size[1], "above the footer"

    asyncio.run(walk())


def test_the_chosen_warp_is_in_sight() -> None:
    async def walk() -> None:
        app = ExplorerApp(regular_profile(launches=1, ctas=1, warps=16, iterations=1), lambda file, line: "")
        async with app.run_test(size=(80, 24)) as pilot:
            await pilot.press(*["down"] * 15)
            await pilot.pause()
            timeline = app.query_one("#timeline")
            at = (
                shown(app, "#lanes")
                .splitlines()
                .index(next(line for line in shown(app, "#lanes").splitlines() if line.startswith("warp 15")))
            )
            assert timeline.scroll_y <= at < timeline.scroll_y + timeline.size.height

    asyncio.run(walk())


@pytest.mark.parametrize("width", [80, 130])
def test_the_footer_fits_and_names_the_key_for_all_keys(width: int) -> None:
    async def walk() -> None:
        app = ExplorerApp(PROFILE, lambda file, line: "")
        async with app.run_test(size=(width, 30)) as pilot:
            while not (keys := [key for key in app.query_one(Footer).children if key.region]):
                await pilot.pause()
            assert max(key.region.right for key in keys) <= width
            footer = "".join(segment.text for segment in app.screen._compositor.render_strips()[-1])
            assert "? help" in footer
            assert "q quit" in footer

    asyncio.run(walk())


def test_the_help_lists_all_keys_and_esc_closes_it() -> None:
    async def walk() -> None:
        app = ExplorerApp(PROFILE, lambda file, line: "")
        async with app.run_test(size=(80, 24)) as pilot:
            await pilot.press("question_mark")
            listed = str(app.screen.query_one(Static).render())
            bindings = [each for each in ExplorerApp.BINDINGS if isinstance(each, Binding)]
            assert all(
                (binding.key_display or binding.key)[:3] in listed for binding in bindings if binding.show
            )
            assert app.screen.query_one(VerticalScroll).region.bottom <= 24
            await pilot.press("w")
            assert app.explorer.end == app.explorer.duration, "keys of the view wait until it is closed"
            await pilot.press("escape", "w")
            assert app.explorer.end < app.explorer.duration

    asyncio.run(walk())


def test_the_list_of_kernels_has_the_help_above_it() -> None:
    async def walk() -> None:
        app = ExplorerApp(two_kernels(), lambda file, line: "")
        async with app.run_test(size=(100, 40)) as pilot:
            await pilot.press("k", "question_mark")
            assert "these keys" in str(app.screen.query_one(Static).render())
            await pilot.press("escape", "down", "enter")
            assert app.explorer.kernel == 1, "Esc leads back to the list"

    asyncio.run(walk())


def test_esc_closes_the_filter_and_then_the_source() -> None:
    async def walk() -> None:
        app = ExplorerApp(PROFILE, lambda file, line: "")
        async with app.run_test(size=(100, 40)) as pilot:
            await pilot.press("tab", "enter")
            assert shown(app, "#text")
            await pilot.press("slash", "n", "o", "p", "e", "escape")
            assert shown(app, "#text"), "the first Esc leaves the filter"
            assert app.explorer.pattern == ""
            await pilot.press("escape")
            assert shown(app, "#text") == ""
            await pilot.press("escape")
            assert "q quits" in shown(app, "#about")

    asyncio.run(walk())


def test_a_filter_says_what_it_did() -> None:
    async def walk() -> None:
        app = ExplorerApp(PROFILE, lambda file, line: "")
        async with app.run_test(size=(100, 40)) as pilot:
            before = shown(app, "#lanes")
            await pilot.press("slash", "z", "z", "enter")
            assert "no scope of this kernel matches 'zz'" in shown(app, "#about")
            assert shown(app, "#lanes") == before
            await pilot.press("slash", "enter")
            assert "no filter: all scopes are drawn" in shown(app, "#about")
            assert shown(app, "#lanes") == before

    asyncio.run(walk())


def test_a_filter_that_leaves_nothing_of_another_kernel_says_so() -> None:
    async def walk() -> None:
        app = ExplorerApp(two_kernels(), lambda file, line: "")
        async with app.run_test(size=(100, 40)) as pilot:
            await pilot.press("slash", *"copy", "enter")
            assert "in flight" in shown(app, "#legend")
            await pilot.press("k", "down", "enter")
            assert "no span here that matches 'copy'" in shown(app, "#legend")

    asyncio.run(walk())


def test_a_pipe_is_no_terminal() -> None:
    failed = run("tests/data/findings/bank-conflict.json.gz", "--interactive")
    assert (failed.returncode, failed.stdout) == (2, "")
    assert "--interactive needs a terminal" in failed.stderr
