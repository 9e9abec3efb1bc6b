"""The Go tab's page in a real Chromium, by keyboard and mouse. Skipped where there is no Chromium with its driver
(Debian: apt-get install chromium chromium-driver) or no selenium."""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import tab_runs

FLAGS = """--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking
--disable-component-update --disable-sync --disable-dev-shm-usage --window-size=1300,900""".split()
ROOT = Path(__file__).parents[2]
SECONDS = 120  # that anything may take on a busy machine

selenium = pytest.importorskip("selenium.webdriver", reason="selenium is not installed; pip install -e '.[browser]'")
if not (shutil.which("chromium") and shutil.which("chromedriver")):
    pytest.skip("there is no chromium with a chromedriver here", allow_module_level=True)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tab_runs.make_log_directory(tmp_path_factory.mktemp("tab") / "logs")


@pytest.fixture(scope="module")
def address(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A TensorBoard over the log directory, which finds the tab by an entry point as an installed package brings it."""
    site = tmp_path_factory.mktemp("site")
    known = site / "zerogo_tab-0.dist-info"
    known.mkdir()
    (known / "METADATA").write_text("Metadata-Version: 2.1\nName: zerogo-tab\nVersion: 0\n")
    target = "zerogo.tensorboard_plugin.entry:GoLoader"
    (known / "entry_points.txt").write_text(f"[tensorboard_plugins]\nzerogo-tab = {target}\n")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    code = "import tensorboard.default as d, tensorboard.main as m; f = d.get_dynamic_plugins\n"
    code += "d.get_dynamic_plugins = lambda: list(dict.fromkeys(f())); m.run_main()"  # it may be installed, too
    words = [sys.executable, "-c", code, "--logdir", str(root), "--port", str(port), "--load_fast=false"]
    paths = os.pathsep.join([str(ROOT), str(site), os.environ.get("PYTHONPATH", "")])
    log = (site / "log").open("w")
    process = subprocess.Popen(words, stdout=log, stderr=log, env=os.environ | {"PYTHONPATH": paths}, cwd=site)
    until = time.monotonic() + SECONDS
    while time.monotonic() < until and process.poll() is None:
        with socket.socket() as client:
            if not client.connect_ex(("127.0.0.1", port)):
                break
        time.sleep(0.1)
    yield f"http://localhost:{port}"
    process.terminate()
    process.wait()


class Page:
    """The tab in a browser."""

    def __init__(self, driver: Any, address: str) -> None:
        self.driver, self.address = driver, address

    def open(self) -> None:
        """Opens the tab alone, as its frame in TensorBoard does, and waits for the first game."""
        self.driver.get(f"{self.address}/data/plugin_entry.html?name=go")
        self.until(lambda: self.texts("ol.games li") and self.count(".viewer .star"))

    def js(self, code: str, *arguments: Any) -> Any:
        """Returns what a line of JavaScript returns."""
        return self.driver.execute_script(code, *arguments)

    def texts(self, css: str) -> list[str]:
        """Returns the texts of the elements that are shown."""
        code = "return [...document.querySelectorAll(arguments[0])].filter(e => e.getClientRects().length)"
        return self.js(f"{code}.map(e => e.innerText)", css)

    def count(self, css: str) -> int:
        """Returns how many elements there are."""
        return self.js("return document.querySelectorAll(arguments[0]).length", css)

    def until(self, holds: Callable[[], Any]) -> Any:
        """Waits until something holds, and returns it."""
        end = time.monotonic() + SECONDS
        while not (found := holds()):
            assert time.monotonic() < end, f"waited in vain; {self.texts('.message, .words, .facts')}"
            time.sleep(0.03)
        return found

    def says(self, words: str, css: str = ".message") -> str:
        """Waits for words in an element, and returns its text."""
        return self.until(lambda: next((text for text in self.texts(css) if words in text), ""))

    def keys(self, *keys: str) -> None:
        """Types keys into whatever has the focus."""
        for key in keys:
            self.driver.switch_to.active_element.send_keys(key)

    def click(self, css: str, text: str = "") -> None:
        """Clicks the first shown element with a text."""
        code = """const found = [...document.querySelectorAll(arguments[0])]
            .find(e => e.getClientRects().length && e.innerText.includes(arguments[1]));
            found.focus(); found.click();"""
        self.js(code, css, text)

    def choose(self, css: str, value: str) -> None:
        """Chooses a value, or types it."""
        code = "const e = document.querySelector(arguments[0]); e.value = arguments[1];"
        self.js(f"{code} e.dispatchEvent(new Event('change', {{bubbles: true}}))", css, value)

    def point(self, x: int, y: int) -> None:
        """Clicks a point of a 5x5 board, from 1 from the left and the top."""
        code = """const b = document.querySelector('.viewer .board'), r = b.getBoundingClientRect();
            b.dispatchEvent(new MouseEvent('click', {bubbles: true, clientX: r.left + arguments[0] * r.width / 6,
            clientY: r.top + arguments[1] * r.height / 6}));"""
        self.js(code, x, y)

    def errors(self) -> list[str]:
        """Returns what the console has complained of; browsers ask for an icon by themselves."""
        lines = [line["message"] for line in self.driver.get_log("browser") if line["level"] != "INFO"]
        return [line for line in lines if "favicon.ico" not in line]


@pytest.fixture(scope="module")
def browser(address: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    options = selenium.ChromeOptions()
    for flag in [*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"]:
        options.add_argument(flag)
    options.binary_location = shutil.which("chromium")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = selenium.Chrome(options=options, service=selenium.ChromeService(shutil.which("chromedriver")))
    yield Page(driver, address)
    driver.quit()


@pytest.fixture
def page(browser: Page) -> Iterator[Page]:
    """The tab, freshly opened; its console has no complaint at the end."""
    browser.open()
    yield browser
    browser.js("sessionStorage.clear()")  # in which a game that is played waits for a reload
    assert browser.errors() == []


RIGHT, LEFT, HOME, END, DELETE = "\ue014", "\ue012", "\ue011", "\ue010", "\ue017"
UP, DOWN, TAB, ENTER = "\ue013", "\ue015", "\ue004", "\ue007"


def test_games_are_stepped_through_filtered_and_varied_by_keyboard(page: Page):
    assert len(page.texts("ol.games li")) == 4 and "random" in page.texts("ol.games li")[0]
    page.keys("j", "j", "j")  # the fourth of the list
    page.says("B+2.5", "h2")
    page.keys(RIGHT, RIGHT, RIGHT)
    assert "move 3: Black C1" not in page.texts(".facts")[0] and page.count(".viewer .black-stone") == 2
    assert "Black wins 60 %" in page.says("move 3", ".facts") and page.count(".curve-place svg") == 1
    page.keys(END)
    page.says("pass", ".facts")
    page.keys(HOME, RIGHT, "m", "c3", ENTER)  # a variation after the first move
    page.says("White C3", ".facts")
    page.js("document.activeElement.blur()")
    page.keys(DOWN)
    page.says("White D4", ".facts")
    page.keys(UP, DELETE)
    page.says("Black B4", ".facts")
    page.keys("m", "b4", ENTER)
    page.says("illegal")
    page.js("document.querySelector('.board').dispatchEvent(new WheelEvent('wheel', {deltaY: 1, cancelable: true}))")
    page.says("move 2", ".facts")
    page.driver.get_log("browser")  # a refused move is a 400, which the browser notes
    page.choose(".filters [aria-label=result]", "W")
    page.until(lambda: len(page.texts("ol.games li")) == 2)
    page.choose(".filters [aria-label='player or opponent']", "random")
    page.until(lambda: len(page.texts("ol.games li")) == 1)


def test_two_networks_are_asked_side_by_side_over_time_and_for_planes(page: Page):
    page.keys(RIGHT, "a")
    page.until(lambda: page.count(".viewer .candidate") > 1)
    assert "Search, 200 visits" in page.says("200 visits", ".think .words")
    page.js("document.querySelector('.think tbody tr').focus()")  # the best line
    page.until(lambda: page.count(".viewer .candidate") == 0 and page.count(".viewer .on-point") > 0)
    page.choose("[aria-label='network 2']", "tiny/checkpoints/step-00000005.pt")
    page.until(lambda: len(page.texts("figure .board")) == 2 and page.texts("figcaption")[:2] == ["tiny@9", "tiny@5"])
    page.choose("[aria-label='what is drawn']", "policy")
    page.until(lambda: page.count(".viewer .board rect") > 20)
    page.click("button", "Over time")
    page.until(lambda: len(page.texts(".result tbody tr")) == 2 and page.count(".result .chart"))
    page.click("button", "Curve of this game")
    page.says("own evaluation", ".result")
    assert page.count(".score-curve") == 1
    page.click("button", "Planes")
    page.until(lambda: page.count(".plane") == 17)
    assert "of one core" in page.says("idle; last", ".cost")
    page.keys("a")
    page.until(lambda: page.count(".viewer figure:first-child rect") < 20)


def test_a_game_is_played_to_its_score_by_keyboard(page: Page, root: Path):
    page.js("document.querySelector('[role=tab]').focus()")
    page.keys(TAB, ENTER)
    page.choose(".play label:nth-of-type(3) input", "2")
    page.click(".play button", "New game")
    page.says("Your move", ".play .words")
    page.point(3, 3)
    page.says("Its move", ".play .words")
    assert page.count(".viewer .black-stone") == 1
    page.click(".play button", "Undo")
    page.until(lambda: page.count(".viewer .black-stone") == 0 and page.texts(".play .words") == ["Your move."])
    moves = iter(f"{column}{row}" for row in (3, 2, 4, 1, 5) for column in "CDBEA")
    for _ in range(60):
        said = page.until(
            lambda: next((text for text in page.texts(".play .words") if text.endswith("move.") or "komi" in text), "")
        )
        if "komi" in said:
            break
        before = page.texts(".facts")
        move = next(moves, "pass")
        page.js("document.querySelector('input.move').focus()")
        page.keys(move, ENTER)
        page.until(lambda before=before: page.texts(".facts") != before or "illegal" in str(page.texts(".message")))
        page.js("document.querySelector('.message').hidden = true")
    assert page.count(".dead") >= 0 and page.count(".owned-black") + page.count(".owned-white") > 0
    played = root / "tiny" / "played"
    known = set(played.glob("*.sgf"))
    other = """how.body.replace(/"file":"[^"]*"/, '"file":"x"')"""
    page.js(f"const asked = fetch; window.fetch = (route, how) => asked(route, how && {{...how, body: {other}}})")
    # as if TensorBoard had been restarted: it has not written the file
    page.click(".play button", "Agree")
    page.says("wins", ".play .words")
    (saved,) = page.until(lambda: set(played.glob("*.sgf")) - known)
    assert re.search(r"RE\[[BW]\+", saved.read_text())
    page.driver.get_log("browser")  # illegal moves are refused with a 400


def facts_of(page: Page, moves: int) -> None:
    page.until(lambda: f"move {moves}:" in page.texts(".facts")[0] if moves else "start" in page.texts(".facts")[0])


def test_a_played_game_is_nobody_elses(page: Page, root: Path):
    """Other games are looked at and the page is loaded anew; what is saved are the moves of the game that is played."""
    played = root / "tiny" / "played"
    before = set(played.glob("*.sgf"))
    page.click("[role=tab]", "Play")
    page.choose(".play label:nth-of-type(5) input", "99999")
    page.says("komi is 99999; allowed are half points from -1000 to 1000")
    assert page.js("return document.querySelector('.play label:nth-of-type(5) input').value") == ""
    page.choose(".play label:nth-of-type(3) input", "2")
    page.click(".play button", "New game")
    page.says("Your move", ".play .words")
    page.point(3, 3)
    page.point(2, 2)  # at once: a double click
    page.says("Its move", ".play .words")
    facts_of(page, 2)
    page.js("document.activeElement.blur()")
    page.keys(DELETE)
    page.says("this game is being played; Undo takes moves back")
    page.click("button", "✕ variation")
    facts_of(page, 2)
    page.click("[role=tab]", "Games")
    page.keys("j")
    page.click("[role=tab]", "Play")
    page.says("Another game is shown. In yours: Its move", ".play .words")
    off = "[...document.querySelectorAll('.play button')].filter(e => e.getClientRects().length && e.disabled)"
    assert page.js(f"return {off}.map(e => e.innerText.trim())") == ["Undo", "Pass", "Resign", "Count now"]
    page.click(".play button", "Back to your game")
    facts_of(page, 2)
    page.driver.refresh()
    page.until(lambda: page.texts(".play .words") == ["Your move."])
    facts_of(page, 2)
    (path,) = set(played.glob("*.sgf")) - before
    assert path.read_text().count(";B[") == 1 and path.read_text().count(";W[") == 1
    page.click("[role=tab]", "Games")
    page.keys("j", "j")
    page.click("[role=tab]", "Play")
    page.click(".play button", "Back to your game")
    page.click(".play button", "Resign")
    page.says("You resigned. White wins, W+R.", ".play .words")
    page.until(lambda: "RE[W+R]" in path.read_text())
    assert set(played.glob("*.sgf")) - before == {path} and path.read_text().count(";B[") == 1


def test_a_broken_file_is_refused_and_a_whole_one_shown(page: Page, tmp_path: Path):
    broken, whole = tmp_path / "broken.sgf", tmp_path / "whole.sgf"
    broken.write_text("(;SZ[5];B[aa];W[")
    whole.write_text("(;SZ[5]PB[Anna <b>]PW[Ben]KM[1];B[aa];W[bb](;B[cc])(;B[dd]))")
    load = page.driver.find_element("css selector", "input[type=file]")
    load.send_keys(str(broken))
    page.says("the game tree")
    page.driver.get_log("browser")
    page.driver.find_element("css selector", "input[type=file]").send_keys(str(whole))
    page.says("Anna <b> – Ben", "h2")
    page.click("button", "▶|")
    page.says("Black C3", ".facts")


def test_how_the_run_is_in_the_dark_and_on_a_narrow_screen(page: Page):
    page.click("[role=tab]", "Run")
    assert "not a number" in page.says("capped share", ".alarms")
    assert "tiny@9" in page.says("95 % interval", ".ratings") and "2.50" in page.texts(".numbers")[0]
    page.until(lambda: page.count(".opening li") >= 2)
    page.click(".flight button", "Show")
    page.until(lambda: page.count(".flight .board") == 3)
    page.click(".matches button", "3 of 4")
    page.until(lambda: page.texts("ol.games li") and "match" in page.texts("ol.games li")[0])
    assert len(page.texts("ol.games li")) == 1
    ground = "return getComputedStyle(document.body).backgroundColor"
    light = page.js(ground)
    dark = {"features": [{"name": "prefers-color-scheme", "value": "dark"}]}
    page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", dark)
    page.until(lambda: page.js(ground) != light)
    narrow = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}
    page.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", narrow)
    for name in ("Games", "Play", "Run"):
        page.click("[role=tab]", name)
        page.until(lambda: page.js("return innerWidth") == 390)
        assert page.js("return document.documentElement.scrollWidth") <= 390, name
    page.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def test_the_theme_is_tensorboards_and_foreign_pages_get_nothing(page: Page, address: str):
    frame = f"const f = document.createElement('iframe'); f.src = '{address}/data/plugin_entry.html?name=go';"
    page.js(f"{frame} document.body.className = 'dark-mode'; document.body.replaceChildren(f)")
    theme = "return document.querySelector('iframe').contentDocument?.documentElement.dataset.theme"
    page.until(lambda: page.js(theme) == "dark")
    page.js("document.body.className = ''")
    page.until(lambda: page.js(theme) == "light")
    listing = json.loads(page.js(f"const r = await fetch('{address}/data/plugins_listing'); return await r.text()"))
    assert listing["go"]["enabled"] and listing["go"]["tab_name"] == "Go"
    page.driver.get(address.replace("localhost", "127.0.0.1") + "/data/plugin_entry.html?name=none")
    asked = f"(await fetch('{address}/data/plugin/go/runs', {{mode: 'no-cors'}})).type"
    assert page.js(f"try {{ return {asked} }} catch (e) {{ return 'failed' }}") in ("failed", "opaque")
    page.driver.get_log("browser")
