"""Chromium on the page of a running server, with what must hold on every page watched."""

import contextlib
import json
import os
import pathlib
import time

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import sync_playwright

CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")
GREEDY = {"temperature": 0, "max_tokens": 40}
PHONE = {"viewport": {"width": 320, "height": 640}}
LISTEN = """() => {
    window.said = [];
    const node = document.getElementById('announcer');
    new MutationObserver(() => window.said.push(node.textContent)).observe(node, {childList: true});
}"""


@pytest.fixture(scope="session")
def chromium():
    if not pathlib.Path(CHROMIUM).exists():
        pytest.fail(f"{CHROMIUM} is missing: run scripts/setup.sh test")
    with sync_playwright() as playwright:
        # Chromium's own sandbox does not run as root.
        flags = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=flags)
        yield browser
        browser.close()


@contextlib.contextmanager
def open_page(chromium, url, settings=None, path="/", **options):
    """A page of the server in a fresh profile. At the end: no error was logged, nothing was asked of
    another origin."""
    context = chromium.new_context(**options)
    problems, strangers, dialogs = [], [], []
    try:
        if settings:
            values = json.dumps({name: str(value) for name, value in settings.items()})
            context.add_init_script(f"localStorage.getItem('ringkeep.settings') ?? "
                                    f"localStorage.setItem('ringkeep.settings', {json.dumps(values)})")
        page = context.new_page()
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", lambda message: message.type == "error"
                and "Failed to load resource" not in message.text and problems.append(message.text))
        page.on("request", lambda request: request.url.startswith((url, "blob:"))
                or strangers.append(request.url))
        page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
        page.set_default_timeout(20000)
        page.goto(url + path)
        yield page
        assert problems == [], problems
        assert strangers == [], f"asked elsewhere: {strangers}"
        assert dialogs == [], f"a script of a reply ran: {dialogs}"
    finally:
        context.close()


def until(page, condition, seconds=20):
    """Waits for a JavaScript expression to hold. (The page's policy forbids wait_for_function.)"""
    end = time.monotonic() + seconds
    while not page.evaluate(condition):
        assert time.monotonic() < end, f"not in {seconds} s: {condition}"
        page.wait_for_timeout(20)


def send(page, text):
    page.fill("#composer-text", text)
    page.press("#composer-text", "Enter")


def wait_reply(page, number=1):
    """The text of reply `number` once it is complete."""
    reply = page.locator("#messages > li.assistant").nth(number - 1)
    reply.wait_for()
    page.locator("#send:visible").wait_for()
    return reply


def scripted(page, chunks, requests=None):
    """Answers chats with these deltas in place of the server."""
    def answer(route):
        if requests is not None:
            requests.append(route.request.post_data_json)
        choices = [{"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in chunks]
        choices.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
        choices.append({"choices": [], "usage": {"prompt_tokens": 12, "completion_tokens": 34,
                                                 "total_tokens": 46, "prompt_tokens_details": {"cached_tokens": 8}}})
        body = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in choices) + "data: [DONE]\n\n"
        route.fulfill(status=200, content_type="text/event-stream", body=body)
    page.route("**/v1/chat/completions", answer)


def accessible(page, what):
    """No violation of WCAG 2.2 A and AA that axe finds, contrast included."""
    options = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}
    violations = Axe().run(page, options=options).response["violations"]
    assert [(v["id"], [n["html"][:120] for n in v["nodes"]]) for v in violations] == [], what


def no_sideways_scroll(page, what):
    wide = page.evaluate("""() => {
        const root = document.scrollingElement;
        return root.scrollWidth > root.clientWidth || [...document.querySelectorAll('dialog[open], #log, #cache-scroll')]
            .some((node) => node.scrollWidth > node.clientWidth);
    }""")
    assert not wide, what
