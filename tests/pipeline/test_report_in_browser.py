"""The report in Chromium, as on a phone, a tablet and a desk, light and dark: all can be read, zoomed and filtered."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.pipeline.report_rows import EVIL, answers

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Locator, Page

WIDTHS = (360, 768, 1280)
SCHEMES = ("light", "dark")
PATIENCE_MS = 60_000
"""Against hanging alone."""
NO_BROWSER = "there is no Chromium: `apt-get install chromium`"

TOO_SMALL = """() => [...document.querySelectorAll('svg text')].filter((each) => each.textContent).map((each) => ({
    text: each.textContent, px: parseFloat(getComputedStyle(each).fontSize) * each.getScreenCTM().a,
})).filter((each) => each.px < 10)"""
OUTSIDE = """() => [...document.querySelectorAll('svg text, nav a, button, h1, h2, h3, p, .tile')].filter((each) => {
    const box = each.getBoundingClientRect();
    return each.textContent && box.width && (box.left < -1 || box.right > innerWidth + 1);
}).map((each) => each.textContent)"""
TOO_WIDE = """() => [...document.querySelectorAll('.tile strong')].filter((each) =>
    each.scrollWidth > each.clientWidth).map((each) => each.textContent)"""
SCROLLS_INSIDE = """() => [...document.querySelectorAll('body *')].filter((each) =>
    /auto|scroll/.test(getComputedStyle(each).overflowY) && each.scrollHeight > each.clientHeight + 1
).map((each) => each.className)"""
BROKEN_WORDS = """() => {
    const found = [];
    for (const cell of document.querySelectorAll('td')) {
        const walker = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
        for (let node = walker.nextNode(); node; node = walker.nextNode())
            for (const word of node.data.matchAll(/\\S+/g)) {
                if (word[0].length > 22) continue;
                for (const part of word[0].matchAll(/[A-Za-z0-9]+/g)) {
                    const range = document.createRange();
                    range.setStart(node, word.index + part.index);
                    range.setEnd(node, word.index + part.index + part[0].length);
                    if (new Set([...range.getClientRects()].map((box) => box.top)).size > 1) found.push(word[0]);
                }
            }
    }
    return found;
}"""


NOTES_OF_PRINTING = """() => addEventListener('beforeprint', () => {
    const folds = [...document.querySelectorAll('details.fold')];
    document.body.dataset.open = `${folds.filter((each) => each.open).length} of ${folds.length}`;
})"""
CUT_ON_PAPER = """() => [...document.querySelectorAll('.drawn > svg, th, td, td *, p, .tile')].filter((each) => {
    const box = each.getBoundingClientRect();
    return box.width && box.right > innerWidth + 1;
}).map((each) => each.outerHTML.slice(0, 80))"""
CELLS_OF_ZERO = """() => [...document.querySelectorAll('td')].filter((each) =>
    each.innerText.trim() === '0' && each.checkVisibility()).map((each) => each.dataset.of)"""
SAID_AS_ZERO = {"offset", "broker", "node", "replicas", "leaders"}
"""Columns in which 0 is a name or a place; and those of load, where a broker without any is what is looked for."""


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of a report of which every part is there."""
    for package in ("pyspark", "jinja2", "vl_convert", "playwright"):
        pytest.importorskip(package, reason=f"{package} is not installed: `make spark-setup`")
    from services.pipeline.report.limits import ReportLimits
    from services.pipeline.report.page import page

    file = tmp_path_factory.mktemp("report") / "report.html"
    file.write_text(page(answers(), ReportLimits()))
    return file


@pytest.fixture(scope="module")
def browser(report: Path) -> Iterator[Browser]:
    """A Chromium without a window."""
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip(NO_BROWSER)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, timeout=PATIENCE_MS)
        yield browser
        browser.close()


@pytest.fixture
def view(browser: Browser, report: Path) -> Iterator[Callable[..., Page]]:
    """Opens the report without a network; at the end nothing was complained of, asked for, or run that should not."""
    contexts: list[BrowserContext] = []
    seen: list[str] = []

    def opened(width: int, scheme: str = "light") -> Page:
        context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, has_touch=width < 400, offline=True
        )
        context.set_default_timeout(PATIENCE_MS)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: seen.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: seen.append(f"error: {error}"))
        page.on("dialog", lambda dialog: (seen.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        page.on("request", lambda request: seen.append(request.url))
        page.goto(report.as_uri())
        page.wait_for_function("document.documentElement.dataset.drawn")
        return page

    yield opened
    for context in contexts:
        context.close()

    assert [report.as_uri()] * len(contexts) == seen


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", WIDTHS)
def test_all_can_be_read(view: Callable[..., Page], width: int, scheme: str) -> None:
    page = view(width, scheme)

    assert page.locator("figure.plot").count() == page.locator("figure.plot svg").count() == 6
    assert width == page.evaluate("document.documentElement.scrollWidth")
    assert [] == page.evaluate(TOO_SMALL)
    assert [] == page.evaluate(OUTSIDE)
    assert [] == page.evaluate(BROKEN_WORDS)
    assert [] == page.evaluate(TOO_WIDE)
    assert [] == page.evaluate(SCROLLS_INSIDE)
    assert 9 == page.locator("nav a").count() == page.locator("nav a:visible").count()
    assert (scheme == "dark") == page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches")


def test_colours_follow_the_scheme(view: Callable[..., Page]) -> None:
    page = view(1280, "light")
    colours = "() => ['path', 'text'].map((tag) => getComputedStyle(document.querySelector(`.drawn ${tag}`)).fill)"
    light = page.evaluate(colours), page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.emulate_media(color_scheme="dark")
    dark = page.evaluate(colours), page.evaluate("getComputedStyle(document.body).backgroundColor")

    assert light[0] != dark[0]
    assert light[1] != dark[1]


def test_dragging_shows_a_part_in_all_plots_of_the_cluster(view: Callable[..., Page]) -> None:
    page = view(1280)
    whole, lengths = shown(page), widths(page)
    drag(page, 0.4, 0.6)
    wait_until_shown_is_not(page, whole)

    assert "2026-11-21 12:00:00 – 2026-11-21 13:30:00" == whole
    assert "2026-11-21 12:36" == shown(page)[:16]
    assert [] == [pair for pair in zip(lengths, widths(page), strict=True) if pair[1] < 2 * pair[0]]
    plot(page).dblclick()
    wait_until_shown_is(page, whole)


def test_wheel_buttons_and_keys_zoom(view: Callable[..., Page]) -> None:
    page = view(1280)
    whole = shown(page)
    plot(page).hover()
    page.mouse.wheel(0, 1)

    assert whole == shown(page)
    page.keyboard.down("Control")
    page.mouse.wheel(0, -300)
    page.keyboard.up("Control")
    wait_until_shown_is_not(page, whole)
    buttons(page).get_by_text("whole").focus()
    page.keyboard.press("Enter")
    wait_until_shown_is(page, whole)
    buttons(page).get_by_label("zoom in").click()
    wait_until_shown_is(page, "2026-11-21 12:22:30 – 2026-11-21 13:07:30")
    buttons(page).get_by_label("show what is later").click()
    wait_until_shown_is(page, "2026-11-21 12:40:30 – 2026-11-21 13:25:30")


def test_a_card_of_a_phone_has_no_counts_of_zero_and_a_table_has(view: Callable[..., Page]) -> None:
    on_phone, on_desk = (set(view(width).evaluate(CELLS_OF_ZERO)) - SAID_AS_ZERO for width in (390, 1280))

    assert set() == on_phone
    assert {"under min ISR then"} <= on_desk


def test_two_fingers_zoom_on_a_phone(view: Callable[..., Page]) -> None:
    page = view(360)
    whole = shown(page)
    fingers(page, [(145, 185), (125, 205), (85, 245)])
    wait_until_shown_is_not(page, whole)

    begin, end = shown(page).split(" – ")
    assert "2026-11-21 12:1" < begin < end < "2026-11-21 13:2"


def test_a_finger_that_moves_sideways_zooms_and_does_not_scroll(view: Callable[..., Page]) -> None:
    page = view(360)
    whole = shown(page)
    fingers(page, [(90,), (100,), (120,), (150,), (190,)])
    wait_until_shown_is_not(page, whole)

    assert "2026-11-21 12:1" < shown(page) < "2026-11-21 12:4"


def test_a_legend_hides_what_it_names(view: Callable[..., Page]) -> None:
    page = view(1280)
    offline = page.locator("figure.plot path[aria-label*=': offline; ']")
    button = page.locator("figure.plot").filter(has_text="leader 4").get_by_role("button", name="offline")
    before = offline.count()
    button.click()
    page.wait_for_function("!document.querySelector(\"figure.plot path[aria-label*=': offline; ']\")")

    assert 3 == before
    assert "false" == button.get_attribute("aria-pressed")
    button.click()
    page.wait_for_function("document.querySelector(\"figure.plot path[aria-label*=': offline; ']\")")
    assert before == offline.count()


def test_what_lasted_no_time_is_seen_and_silence_is_drawn(view: Callable[..., Page]) -> None:
    page = view(360)

    last = page.locator("path[aria-label^='controller 11 is active in epoch 4']")
    edge = last.evaluate("(each) => [getComputedStyle(each).stroke, parseFloat(getComputedStyle(each).strokeWidth)]")

    assert edge[0].startswith("rgb(")
    assert edge[1] >= 4
    assert 1 == page.locator("path[aria-label^='no controller wrote']").count()


def test_a_name_is_text_in_a_plot_and_in_what_it_says(view: Callable[..., Page]) -> None:
    page = view(1280)
    label = page.locator("svg text", has_text="<img").first
    label.hover()
    page.wait_for_function("document.querySelector('#vg-tooltip-element.visible')")

    assert EVIL in page.locator("#vg-tooltip-element").inner_text()
    assert 0 == page.locator("img").count()


def test_what_is_long_is_folded_behind_its_count(view: Callable[..., Page]) -> None:
    page = view(1280)
    folds = page.locator("details.fold")
    hidden = page.locator("#findings details tbody tr")

    assert ["44 earlier events from 2026-11-21 12:00:00.000 on, 0 of them bad: show", "17 more of NO_LEADER: show"] == (
        folds.locator("summary").all_inner_texts()
    )
    assert (4, 17, 0) == (
        page.locator("#findings tbody tr:visible").count(),
        hidden.count(),
        page.locator("#findings details tbody tr:visible").count(),
    )
    folds.last.locator("summary").click()
    assert 17 == page.locator("#findings details tbody tr:visible").count()


def test_on_paper_nothing_is_cut_and_nothing_stays_folded(view: Callable[..., Page]) -> None:
    """Landscape A4 without its margins, and what is narrower than any paper for which a table's rows are no cards."""
    page = view(1280)
    page.evaluate(NOTES_OF_PRINTING)
    assert page.pdf().startswith(b"%PDF-")
    noted = page.evaluate("document.body.dataset.open")
    page.wait_for_function("!document.querySelector('details.fold[open]')")

    assert "2 of 2" == noted
    page.emulate_media(media="print")
    for width in (1047, 700):
        page.set_viewport_size({"width": width, "height": 720})
        assert [] == page.evaluate(CUT_ON_PAPER)


def test_of_short_times_every_label_has_its_seconds(view: Callable[..., Page]) -> None:
    page = view(1280)
    whole = shown(page)
    for _ in range(5):
        before = shown(page)
        buttons(page).get_by_label("zoom in").click()
        wait_until_shown_is_not(page, before)
    labels = page.locator("#timelines .drawn").first.locator("g.role-axis-label text")
    page.wait_for_function(
        "() => [...document.querySelectorAll('#timelines .role-axis-label text')]"
        ".every((each) => !each.textContent.includes(':') || /:[0-9]{2}:[0-9]{2}/.test(each.textContent))"
    )

    assert labels.count() > 2
    assert len(shown(page)) == len(whole) + len(".000" * 2)


def test_only_failures_are_left(view: Callable[..., Page]) -> None:
    page = view(360)
    rows = page.locator("#audit tbody tr:visible")
    all_rows = rows.count()
    page.locator("#audit input").check()

    assert (40, 14) == (all_rows, rows.count())


def plot(page: Page) -> Locator:
    """The timeline of the quorum's leaders."""
    return page.locator("#timelines .drawn").first


def buttons(page: Page) -> Locator:
    """The buttons of the cluster's plots."""
    return page.locator("#timelines .toolbar")


def shown(page: Page) -> str:
    """Which part of the time axis is shown."""
    return buttons(page).locator("output").inner_text()


def wait_until_shown_is(page: Page, period: str) -> None:
    page.wait_for_function("(period) => document.querySelector('#timelines output').textContent === period", arg=period)


def wait_until_shown_is_not(page: Page, period: str) -> None:
    page.wait_for_function("(period) => document.querySelector('#timelines output').textContent !== period", arg=period)


def widths(page: Page) -> list[float]:
    """How wide the same interval is drawn in the timelines of the brokers and of the partitions."""
    found = page.locator("#timelines path[aria-label*='12:41:00.000, for']").evaluate_all(
        "(all) => all.map((each) => each.getBoundingClientRect().width)"
    )
    assert len(found) > 3
    return [float(each) for each in found]


def fingers(page: Page, moves: list[tuple[int, ...]]) -> None:
    """Lays fingers on the plot of the quorum's leaders, moves and lifts them: px from its left end, of each finger."""
    plot(page).scroll_into_view_if_needed()
    box = plot(page).bounding_box()
    assert box is not None
    touch = page.context.new_cdp_session(page)
    for number, places in enumerate(moves):
        points = [{"x": box["x"] + x, "y": box["y"] + 30, "id": finger} for finger, x in enumerate(places)]
        kind = "touchMove" if number else "touchStart"
        touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
    touch.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})


def drag(page: Page, begin: float, end: float) -> None:
    """Drags the mouse over a part of the axis of the quorum's leaders."""
    plot(page).scroll_into_view_if_needed()
    ground = plot(page).locator("path.background, g.background path").first.bounding_box()
    assert ground is not None
    page.mouse.move(ground["x"] + begin * ground["width"], ground["y"] + 8)
    page.mouse.down()
    page.mouse.move(ground["x"] + (begin + end) / 2 * ground["width"], ground["y"] + 8)
    page.mouse.move(ground["x"] + end * ground["width"], ground["y"] + 8)
    page.mouse.up()
