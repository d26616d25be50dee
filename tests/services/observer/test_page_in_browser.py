"""The page in Chromium, of an observer's process that follows a real log: on a phone and a desk, and by keyboard."""

from __future__ import annotations

import asyncio
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from deploy.local.ports import free_ports
from kraft import Message
from quorate.metadata.configs import TOPIC
from quorate.records import ConfigRecord
from tests.runtime.test_log_reader import node
from tests.services.observer.test_state_keeper import append, batches_of, reached, reading
from tests.services.observer.test_stop import observing
from tests.services.scripted import WITHIN_S

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

WIDTHS: Final = (360, 768, 1280)
SCHEMES: Final = ("light", "dark")
PARTS: Final = ("quorum", "brokers", "topics", "findings", "changes", "traces", "sql")
PATIENCE_MS: Final = 60_000
"""Against hanging alone."""
EVIL: Final = "<img src=x onerror=\"alert('evil')\"><script>alert(1)</script>"
ALTER: Final = "evil-topic"
PICTURES: Final = os.environ.get("QUORATE_PAGE_PICTURES")
"""A directory, to which a picture of each part is written at each width."""

OUTSIDE = """() => [...document.querySelectorAll('main *, header *, nav')].filter((each) => {
    const box = each.getBoundingClientRect();
    return box.width && !each.closest('.wide-table, nav, thead') && (box.left < -1 || box.right > innerWidth + 1);
}).map((each) => each.outerHTML.slice(0, 120))"""
TOO_SMALL = """() => [...document.querySelectorAll('main *')].filter((each) =>
    each.childNodes.length && parseFloat(getComputedStyle(each).fontSize) < 11).map((each) => each.outerHTML)"""
CONTRAST = """() => {
    const light = (colour) => colour.match(/[\\d.]+/g).slice(0, 3).map((each) => each / 255)
        .map((each) => each <= 0.03928 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4)
        .reduce((sum, each, at) => sum + each * [0.2126, 0.7152, 0.0722][at], 0);
    const ground = (each) => {
        for (; each; each = each.parentElement) {
            const colour = getComputedStyle(each).backgroundColor;
            if (!/, 0\\)$/.test(colour)) return colour;
        }
        return 'rgb(255, 255, 255)';
    };
    return [...document.querySelectorAll('main *, header *, nav *')].filter((each) =>
        [...each.childNodes].some((child) => child.nodeType === 3 && child.data.trim()) && each.checkVisibility()
    ).map((each) => {
        const both = [light(getComputedStyle(each).color), light(ground(each))].sort((a, b) => b - a);
        return [(both[0] + 0.05) / (both[1] + 0.05), each.outerHTML.slice(0, 100)];
    }).filter(([ratio]) => ratio < 4.5);
}"""
LOADED = """() => document.querySelector('main section') && !document.querySelector('[aria-busy]') &&
    ![...document.querySelectorAll('main td')].some((each) => each.textContent === '…')"""


def log_of() -> list[list[Message]]:
    """A log with free text that a browser would run if it were HTML."""
    found = batches_of(120, seed=1)
    found.append([ConfigRecord(TOPIC, ALTER, "retention.ms", EVIL), ConfigRecord(TOPIC, EVIL, "retention.ms", "1")])
    return found


class Observed:
    """An observer's process beside a quorum node, on a loop of its own; `append` writes to the log."""

    def __init__(self, directory: Path) -> None:
        grpc, self.port = free_ports(2)
        self.address = f"127.0.0.1:{grpc}"
        self.at = f"http://127.0.0.1:{self.port}/"
        self.end = 0
        self._directory = directory
        self._loop = asyncio.new_event_loop()
        self._until = AsyncExitStack()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        self._run(self._begin(grpc))

    async def _begin(self, port: int) -> None:
        url = f"sqlite:///{self._directory}/state.db"
        settings = {
            "observer.state.database.url": url,
            "observer.page.listener": f"PAGE://127.0.0.1:{self.port}",
            "listener.security.protocol.map": "PAGE:PLAINTEXT",
        }
        self._driver, log = await self._until.enter_async_context(node(self._directory))
        await self._until.enter_async_context(observing(log, port, self.address, **settings))
        self._engine = reading(url)
        await self._append(log_of())

    async def _append(self, batches: list[list[Message]]) -> None:
        self.end = await append(self._driver, batches)
        await reached(self._engine, self.end)

    def append(self, *records: Message) -> None:
        self._run(self._append([list(records)]))

    def close(self) -> None:
        self._run(self._until.aclose())
        self._loop.call_soon_threadsafe(self._loop.stop)

    def _run(self, work: object) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(WITHIN_S)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def observed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Observed]:
    pytest.importorskip("playwright", reason="playwright is not installed: `make spark-setup`")
    made = Observed(tmp_path_factory.mktemp("observed"))
    yield made
    made.close()


@pytest.fixture(scope="module")
def browser(observed: Observed) -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("there is no Chromium: `apt-get install chromium`")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, timeout=PATIENCE_MS)
        yield browser
        browser.close()


@pytest.fixture
def view(browser: Browser, observed: Observed) -> Iterator[Callable[..., Page]]:
    """Opens the page; at the end nothing was complained of, run that should not, or asked for elsewhere."""
    contexts: list[BrowserContext] = []
    seen: list[str] = []

    def opened(part: str = "", width: int = 1280) -> Page:
        context = browser.new_context(viewport={"width": width, "height": 900}, has_touch=width < 400)
        context.set_default_timeout(PATIENCE_MS)
        contexts.append(context)
        page = context.new_page()
        # Chromium says so of each refusal, that of a question in SQL as well.
        page.on("console", lambda each: None if "status of 400" in each.text else seen.append(f"console: {each.text}"))
        page.on("pageerror", lambda error: seen.append(f"error: {error}"))
        page.on("dialog", lambda dialog: (seen.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        page.on("request", lambda request: None if request.url.startswith(observed.at) else seen.append(request.url))
        page.goto(f"{observed.at}#{part}")
        page.wait_for_function(LOADED)
        return page

    yield opened
    for context in contexts:
        context.close()

    assert [] == seen


@pytest.mark.parametrize("width", WIDTHS)
def test_each_part_can_be_read(view: Callable[..., Page], width: int) -> None:
    page = view(width=width)
    for number, part in enumerate(PARTS, 1):
        page.keyboard.press(str(number))
        page.wait_for_selector(f"section[data-part={part}]")
        page.wait_for_function(LOADED)
        for scheme in SCHEMES:
            page.emulate_media(color_scheme=scheme)
            if PICTURES is not None:
                page.screenshot(path=f"{PICTURES}/{part}-{width}-{scheme}.png", full_page=True)

            assert [] == page.evaluate(CONTRAST), (part, scheme)

        assert width == page.evaluate("document.documentElement.scrollWidth"), part
        assert [] == page.evaluate(OUTSIDE), part
        assert [] == page.evaluate(TOO_SMALL), part
        assert 0 == page.get_by_text("[object").count(), part
        assert 0 == page.locator(".problem").count(), page.locator(".problem").all_text_contents()


def test_what_the_log_says_is_text(view: Callable[..., Page]) -> None:
    page = view("changes")
    page.get_by_text(EVIL, exact=True).first.wait_for()
    for part in (f"topics?topic={ALTER}", "sql?ask=SELECT%20*%20FROM%20configs"):
        page.goto(f"{page.url.partition('#')[0]}#{part}")
        page.wait_for_function(LOADED)
        page.get_by_text(EVIL, exact=True).first.wait_for()

    assert 0 == page.locator("main img, main script").count()


def test_it_lives(view: Callable[..., Page], observed: Observed) -> None:
    page = view("changes")
    page.get_by_text("live · offset").wait_for()
    first = page.locator("ol.changes > li").first.inner_text()
    observed.append(ConfigRecord(TOPIC, "lively", "retention.ms", "12345"))
    page.get_by_text("12345").first.wait_for()

    assert f"offset {observed.end - 1}" in page.locator("ol.changes > li").first.inner_text() != first


def test_by_keyboard_a_topic_is_found_and_a_question_asked(view: Callable[..., Page]) -> None:
    page = view()
    page.keyboard.press("3")
    page.wait_for_function(LOADED)
    name = page.locator("section[data-part=topics] tbody a").first.inner_text()
    page.keyboard.press("/")
    page.keyboard.type(name)
    page.keyboard.press("Enter")
    page.wait_for_url("**search=**")
    page.wait_for_function(LOADED)
    link = page.locator("section[data-part=topics] tbody a").first
    while not link.evaluate("each => each === document.activeElement"):
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.get_by_role("heading", name=f"Topic {name}").wait_for()
    page.keyboard.press("7")
    page.keyboard.press("/")
    page.keyboard.press("Control+A")
    page.keyboard.type("SELECT 6 * 7 AS answer; DROP TABLE topics")
    page.keyboard.press("Control+Enter")
    page.get_by_text("one statement at a time").wait_for()
    page.keyboard.press("/")
    page.keyboard.press("Control+A")
    page.keyboard.type("SELECT 6 * 7 AS answer")
    page.keyboard.press("Control+Enter")
    page.get_by_role("cell", name="42", exact=True).wait_for()


def test_a_difference_is_told_between_two_offsets(view: Callable[..., Page], observed: Observed) -> None:
    page = view("changes")
    page.get_by_label("from").fill("0")
    page.get_by_label("to", exact=True).fill(str(observed.end))
    page.get_by_role("button", name="Difference").click()
    page.get_by_text(f"of the state at offset {observed.end} differ from offset 0").wait_for()
