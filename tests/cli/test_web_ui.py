"""`serve --web-ui`: LightRAG's own page, in a real browser, works before our server."""

from __future__ import annotations

import shutil
from contextlib import contextmanager
from urllib.parse import urlsplit

import httpx
import pytest
from playwright.sync_api import expect, sync_playwright

from .conftest import KEY, WAIT_S, ran
from .hosting import served

NAMES = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM = next((path for name in NAMES if (path := shutil.which(name))), "")
WAIT_MS = 1000 * WAIT_S / 2
# Without a sandbox, for root has none; without its own traffic, which is no part of this.
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
# What strangers' markup would do, if the page let it: tell another place that it was read.
ELSEWHERE = "203.0.113.9"
FIRST = "Ernest Rutherford taught in Manchester."
TEXT = (
    "Marie Curie discovered Polonium in Paris with Pierre Curie. "
    f'<img src="http://{ELSEWHERE}/read.png">'
)
# Put a script into the page; true once it has run, false once it is refused.
RUNS = """() => new Promise(resolve => {
    document.addEventListener("securitypolicyviolation", () => resolve(false), {once: true})
    const script = document.createElement("script")
    script.textContent = "window.ran = true"
    document.body.append(script)
    if (window.ran) resolve(true)
})"""

in_a_browser = pytest.mark.skipif(not CHROMIUM, reason="needs Chromium: apt install chromium")


class Browser:
    """A page of a browser, and what came of its requests."""

    def __init__(self, page):
        self.page = page
        self.refused = []
        self.blocked = set()
        self.reached = set()
        page.on("response", self._answered)
        page.on("requestfailed", lambda asked: self.blocked.add((host_of(asked), asked.failure)))

    def _answered(self, response):
        self.reached.add(host_of(response))
        if response.status >= 400:
            self.refused.append((response.status, response.url))


def host_of(message):
    """The host of a request or an answer; what a page makes for itself has none."""
    return urlsplit(message.url.removeprefix("blob:")).hostname


@contextmanager
def browsing(url):
    """Yield the page at an address in a browser of its own."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        page = browser.new_page(locale="en-US")
        page.set_default_timeout(WAIT_MS)
        expect.set_options(timeout=WAIT_MS)
        seen = Browser(page)
        page.goto(url)
        yield seen
        browser.close()


@in_a_browser
def test_what_is_there_is_drawn_and_what_is_uploaded_is_found(tmp_path):
    with served(tmp_path, "--web-ui") as (_, url):
        insert = ("insert", FIRST, "--source", "first.md", "--enable", "writes")
        assert ran(*insert, env={"LIGHTRAG_ENDPOINT": url})[0] == 0
        with browsing(url) as seen:
            page = seen.page
            page.get_by_role("tab", name="Knowledge Graph").click()
            expect(page.get_by_text("node: 2")).to_be_visible()
            page.get_by_role("tab", name="Documents").click()
            page.get_by_role("button", name="Upload").click()
            file = {"name": "curie.md", "mimeType": "text/markdown", "buffer": TEXT.encode()}
            page.locator("input[type=file]").set_input_files([file])
            expect(page.get_by_text("Completed (2)")).to_be_visible()
            page.reload()
            page.get_by_role("tab", name="Retrieval").click()
            page.get_by_placeholder("Enter your query").fill("Who discovered Polonium?")
            page.get_by_role("button", name="Send").click()
            expect(page.get_by_text("discovered Polonium in Paris").last).to_be_visible()
            assert seen.reached == {"127.0.0.1"}
            assert seen.blocked == {(ELSEWHERE, "csp")}
            assert seen.refused == []


@in_a_browser
def test_the_page_asks_for_the_key_and_works_with_it(tmp_path):
    key = ("--api-key-env", "THE_KEY")
    with (
        served(tmp_path, "--web-ui", *key, env={"THE_KEY": KEY}) as (_, url),
        browsing(url) as seen,
    ):
        asking = seen.page.get_by_role("alertdialog")
        asking.get_by_placeholder("Enter your API key").fill(KEY)
        asking.get_by_role("button", name="Save").click()
        expect(asking).to_be_hidden()
        with seen.page.expect_response(f"{url}/documents/paginated") as listing:
            seen.page.reload()
        assert listing.value.status == 200


@in_a_browser
def test_no_script_runs_but_the_pages_own(tmp_path):
    with served(tmp_path, "--web-ui") as (_, url), browsing(url) as seen:
        assert seen.page.evaluate("window.__LIGHTRAG_CONFIG__.webuiPrefix") == "/webui/"
        assert seen.page.evaluate(RUNS) is False


def test_no_page_may_frame_it_and_health_tells_of_it(tmp_path):
    with served(tmp_path, "--web-ui") as (_, url):
        policy = httpx.get(f"{url}/webui/").headers["content-security-policy"]
        assert "frame-ancestors 'none'" in policy
        assert httpx.get(f"{url}/health").json()["webui_available"] is True
        for path in ("/webui/", "/webui/favicon.png", "/health", "/nope"):
            assert httpx.get(url + path).headers["x-content-type-options"] == "nosniff"
    with served(tmp_path) as (_, url):
        assert httpx.get(f"{url}/webui/").status_code == 404
        assert httpx.get(f"{url}/health").json()["webui_available"] is False


def test_without_the_package_the_flag_is_refused(tmp_path):
    hidden = tmp_path / "lightrag"  # another package of that name, which has no page
    hidden.mkdir()
    (hidden / "__init__.py").touch()
    status, _, err = ran(
        "serve", "--data", tmp_path / "data", "--web-ui", env={"PYTHONPATH": str(tmp_path)}
    )
    assert status == 2
    assert "dsh-lightrag[lightrag]" in err.decode()
