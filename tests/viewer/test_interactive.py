"""The interactive view: walked through by textual's pilot, and what it stands on."""

from __future__ import annotations

import asyncio

import pytest
from textual.binding import Binding
from textual.widgets import Footer

from profscope.errors import TraceError
from profscope.profiles import Profile
from tests.support.command_line import run
from tests.support.one_warp import story
from tests.support.profiles import profile_metadata, regular_profile
from viewer.explorer import Explorer
from viewer.interactive.app import ExplorerApp

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


def test_ctas_are_walked_from_the_slowest_to_the_fastest() -> None:
    explorer = Explorer(PROFILE, "ns")
    took = []
    for _ in explorer.ctas:
        took.append(explorer.duration)
        explorer.step(1)
    assert took == sorted(took, reverse=True)
    assert explorer.at == len(explorer.ctas) - 1, "there is no faster one"


def test_the_window_stays_inside_and_the_cursor_in_the_window() -> None:
    explorer = Explorer(PROFILE, "ns")
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
    explorer = Explorer(with_a_copy(), "ns")
    assert not explorer.follow(), "the kernel itself"
    explorer.go(12)
    assert explorer.follow()
    assert (explorer.cursor, explorer.selected()) == (60, 3)
    assert explorer.follow()
    assert (explorer.cursor, explorer.selected()) == (10, 1)


def test_the_filter_leaves_the_rest_as_dots() -> None:
    explorer = Explorer(with_a_copy(), "ns")
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
        Explorer(Profile(metadata=profile_metadata()), "ns")


def shown(app: ExplorerApp, name: str) -> str:
    return str(app.query_one(name).render())


def test_the_keys_do_what_they_say() -> None:
    async def walk() -> None:
        app = ExplorerApp(PROFILE, "ns", lambda file, line: "")
        async with app.run_test(size=(100, 40)) as pilot:
            assert "number 1 of 4 from the slowest" in shown(app, "#lanes")
            assert shown(app, "#lanes").count("warp ") == 2
            await pilot.press("n", "w", "tab", "down")
            assert (app.explorer.at, app.explorer.lane) == (1, 1)
            assert app.explorer.end - app.explorer.begin < app.explorer.duration
            await pilot.press("tab", "enter")
            assert "source, share of warp time by spans" in shown(app, "#text").replace("\n ", "")
            await pilot.press("slash", "d", "o", "t", "enter")
            assert app.explorer.pattern == "dot"
            await pilot.press("m")
            assert app.explorer.whole_sm
            await pilot.press("f")
            assert "no copy that it issued or waited for" in shown(app, "#about")
            await pilot.press("q")

    asyncio.run(walk())


@pytest.mark.parametrize("width", [80, 130])
def test_the_footer_fits_and_names_the_key_for_all_keys(width: int) -> None:
    async def walk() -> None:
        app = ExplorerApp(PROFILE, "ns", lambda file, line: "")
        async with app.run_test(size=(width, 30)) as pilot:
            while not (keys := [key for key in app.query_one(Footer).children if key.region]):
                await pilot.pause()
            assert max(key.region.right for key in keys) <= width
            footer = "".join(segment.text for segment in app.screen._compositor.render_strips()[-1])
            assert "? keys" in footer
            assert "q quit" in footer

    asyncio.run(walk())


def test_keys_and_source_are_closed_and_a_filter_without_a_match_changes_nothing() -> None:
    async def walk() -> None:
        app = ExplorerApp(PROFILE, "ns", lambda file, line: "")
        async with app.run_test(size=(100, 40)) as pilot:
            await pilot.press("question_mark")
            listed = shown(app, "#text")
            bindings = [each for each in ExplorerApp.BINDINGS if isinstance(each, Binding)]
            assert all(
                (binding.key_display or binding.key)[:3] in listed for binding in bindings if binding.show
            )
            await pilot.press("escape")
            assert shown(app, "#text") == ""
            await pilot.press("tab", "enter")
            assert shown(app, "#text")
            before = shown(app, "#lanes")
            await pilot.press("slash", "n", "o", "p", "e", "escape")
            assert shown(app, "#text"), "the first Esc leaves the filter"
            await pilot.press("slash", "enter", "slash", "z", "z", "enter")
            assert shown(app, "#lanes") == before
            assert "no scope matches" in shown(app, "#about")
            await pilot.press("escape")
            assert shown(app, "#text") == ""

    asyncio.run(walk())


def test_a_pipe_is_no_terminal() -> None:
    failed = run("tests/data/findings/bank-conflict.json.gz", "--interactive")
    assert (failed.returncode, failed.stdout) == (2, "")
    assert "--interactive needs a terminal" in failed.stderr
