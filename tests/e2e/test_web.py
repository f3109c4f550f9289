"""The page at / in Chromium, against the running server."""

import re

import pytest
from axe_playwright_python.sync_playwright import Axe

from browser import chromium, open_page, scripted, send, until, wait_reply  # noqa: F401
from serving import Server

GREEDY = {"temperature": 0, "max_tokens": 40}
PHONE = {"viewport": {"width": 320, "height": 640}}
ATTACKS = [
    "<img src=x onerror=alert(1)>", "<script>alert(1)</script>", "<svg onload=alert(1)>",
    "[a](javascript:alert(1))", "[a](JaVaScRiPt:alert(1))", "[a](  java\tscript:alert(1))",
    "[a](data:text/html,<script>alert(1)</script>)", "![a](https://example.com/x.png)",
    "[a](//example.com)", "[a](https://example.com\" onmouseover=\"alert(1))", "<https://example.com>",
    "[<img src=x onerror=alert(1)>](https://example.com/)", "`<b onclick=alert(1)>`",
    "```\"><script>alert(1)</script>\n<img src=x onerror=alert(1)>\n```", "| <iframe src=//a> |\n|-|\n| <form> |",
    "&lt;script&gt;alert(1)&lt;/script&gt;", "[x]: javascript:alert(1)\n\n[x]", "<a href=javascript:alert(1)>b</a>",
]


@pytest.fixture(scope="module")
def slow_server(chat_model):
    """So slow that a reply can be watched."""
    with Server(chat_model, "--ctx", 2048, "--parallel", 2, "--threads", 1, fault="slow:25") as running:
        yield running


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


def test_files_are_served_without_a_key_and_locked_down(chat_model):
    with Server(chat_model, "--ctx", 512, "--api-key", "k" * 32) as server:
        page = server.get("/")
        assert page.status == 200 and b"<!doctype html>" in page.body
        assert page.headers["Content-Type"] == "text/html; charset=utf-8"
        assert page.headers["Content-Security-Policy"].startswith("default-src 'self'; ")
        assert "unsafe" not in page.headers["Content-Security-Policy"]
        assert page.headers["X-Content-Type-Options"] == "nosniff"
        assert page.headers["Content-Length"] == str(len(page.body))
        again = server.get("/", headers={"If-None-Match": page.headers["ETag"]})
        assert (again.status, again.body) == (304, b"")
        assert server.get("/", headers={"If-None-Match": '"other"'}).status == 200
        assert server.request("HEAD", "/app.js").headers["Content-Type"] == "text/javascript; charset=utf-8"
        assert server.get("/no.js").status in (401, 404) and server.get("/../app.js").status != 200
        assert server.post("/", {}, headers={"Authorization": "Bearer " + "k" * 32}).status == 405
        assert server.get("/kv").status == 401


def test_a_chat_streams_and_is_kept(chromium, slow_server):
    with open_page(chromium, slow_server.url, {**GREEDY, "max_tokens": 120}) as page:
        page.evaluate("""() => {
            window.lengths = new Set();
            new MutationObserver(() => window.lengths.add(document.querySelector('li.assistant .text')?.textContent.length))
                .observe(document.getElementById('messages'), {childList: true, subtree: true, characterData: true});
        }""")
        send(page, "Hello")
        reply = wait_reply(page)
        assert page.evaluate("window.lengths.size") > 3  # it grew before our eyes
        figures = reply.locator(".figures").inner_text()
        assert re.search(r"speed [\d.]+ tok/s", figures) and re.search(r"first token [\d.]+ s", figures)
        assert re.search(r"prompt \d+ tok", figures) and re.search(r"cached \d+ tok", figures)
        assert "reply 120 tok" in figures and "Cut at the token limit" in figures
        send(page, "And more")
        figures = wait_reply(page, 2).locator(".figures").inner_text()
        assert int(re.search(r"cached (\d+) tok", figures)[1]) > 0  # the first turn's cache
        shown = page.locator("#messages > li").all_inner_texts()
        page.reload()
        page.locator("#messages > li").nth(3).wait_for()  # the same conversation
        assert page.locator("#messages > li").all_inner_texts() == shown


def test_stop_frees_the_sequence(chromium, slow_server):
    with open_page(chromium, slow_server.url, {"temperature": 0, "max_tokens": 1500}) as page:
        for stop in (lambda: page.click("#stop"), lambda: page.keyboard.press("Escape")):
            send(page, "Go on and on")
            until(page, "document.querySelector('#messages > li:last-child .text').textContent.length > 3")
            assert slow_server.kv()["sequences"]
            stop()
            page.locator("#send:visible").wait_for()
            assert "Stopped" in page.locator("#messages > li.assistant .figures").last.inner_text()
            slow_server.wait_idle()


def test_focus_goes_from_stop_to_the_message(chromium, slow_server):
    with open_page(chromium, slow_server.url, {"temperature": 0, "max_tokens": 1500}) as page:
        for key in ("Enter", " "):
            send(page, "Go on and on")
            page.locator("#stop:visible").wait_for()
            page.focus("#stop")
            page.keyboard.press(key)
            page.locator("#send:visible").wait_for()
            assert page.evaluate("document.activeElement.id") == "composer-text"


def test_regenerate_edit_copy_clear_delete(chromium, server):
    with open_page(chromium, server.url, {**GREEDY, "max_tokens": 8},
                   permissions=["clipboard-read", "clipboard-write"]) as page:
        send(page, "One")
        first = wait_reply(page).locator(".text").inner_text()
        send(page, "Two")
        wait_reply(page, 2)
        page.get_by_role("button", name="Copy message").first.click()
        assert page.evaluate("navigator.clipboard.readText()") == "One"
        page.get_by_role("button", name="Regenerate reply").first.click()  # drops what follows
        until(page, "document.querySelectorAll('#messages > li').length === 2")
        assert wait_reply(page).locator(".text").inner_text() == first  # greedy
        page.get_by_role("button", name="Edit message").click()
        page.locator(".edit-area").fill("Uno")
        page.keyboard.press("Enter")
        wait_reply(page)
        assert page.locator("li.user .text").all_inner_texts() == ["Uno"]
        page.click("#new-conversation")
        assert page.locator("#messages > li").count() == 0
        send(page, "Other")
        wait_reply(page)
        assert page.locator("#conversation-list .conversation").all_inner_texts() == ["Other", "Uno"]
        page.get_by_role("button", name="Delete conversation: Uno").click()
        page.click("#confirm-yes")
        until(page, "document.querySelectorAll('#conversation-list li').length === 1")
        page.click("#clear")
        page.click("#confirm-yes")
        until(page, "document.querySelectorAll('#messages > li').length === 0")
        page.wait_for_timeout(1200)  # storage is written once a second at most
        assert "Uno" not in page.evaluate("JSON.stringify(localStorage)")


def test_a_reload_keeps_the_place_and_the_draft(chromium, server):
    with open_page(chromium, server.url, {**GREEDY, "max_tokens": 4}) as page:
        for text in ("First", "Second"):
            page.click("#new-conversation")
            send(page, text)
            wait_reply(page)
        page.get_by_role("button", name="First", exact=True).click()
        page.fill("#composer-text", "Not sent\nyet\nat all")
        height = page.locator("#composer-text").bounding_box()["height"]
        page.reload()
        assert page.locator("li.user .text").all_inner_texts() == ["First"]
        assert page.locator("#conversation-list .current").inner_text() == "First"
        assert page.locator("#composer-text").input_value() == "Not sent\nyet\nat all"
        assert page.locator("#composer-text").bounding_box()["height"] == height
        other = second_tab(page)  # begins on its own
        assert other.locator("#messages > li").count() == 0 and other.locator("#composer-text").input_value() == ""
        page.press("#composer-text", "Enter")
        wait_reply(page, 2)
        page.click("#new-conversation")
        page.reload()
        assert page.locator("#messages > li").count() == 0
        assert page.locator("#composer-text").input_value() == ""


TITLES = "[...document.querySelectorAll('#conversation-list .conversation')].map((node) => node.textContent).join()"
KEPT = """Object.entries(localStorage).filter(([key]) => key.startsWith('ringkeep.conversation.')).map(([, text]) =>
    JSON.parse(text).messages.filter((message) => message.role === 'user').map((message) => message.content).join()).sort()"""


def second_tab(page):
    tab = page.context.new_page()
    tab.goto(page.url)
    tab.locator("#model-name").get_by_text("tinychat").wait_for()
    return tab


def test_tabs_keep_the_conversations_of_each_other(chromium, server):
    with open_page(chromium, server.url, {**GREEDY, "max_tokens": 4}) as page:
        page.evaluate("""localStorage.setItem('ringkeep.conversations', JSON.stringify(
            [{id: 'old', created: 1, messages: [{role: 'user', content: 'Earlier'}]}]))""")
        page.reload()  # a list of an earlier version
        other = second_tab(page)
        for tab, text in ((page, "From A"), (other, "From B")):
            send(tab, text)
            wait_reply(tab)
        for tab in (page, other):  # each learns of the other's
            until(tab, f"{TITLES} === 'From B,From A,Earlier'")
        page.wait_for_timeout(1200)  # storage is written once a second at most
        assert page.evaluate(KEPT) == ["Earlier", "From A", "From B"]
        page.reload()
        until(page, f"{TITLES}.includes('From B,From A,Earlier')")
        page.get_by_role("button", name="From B", exact=True).click()
        send(page, "And A")
        wait_reply(page, 2)
        until(other, "document.querySelectorAll('li.assistant').length === 2")  # what both show goes on in both
        page.get_by_role("button", name="Delete conversation: From B").click()
        page.click("#confirm-yes")
        until(other, "document.querySelectorAll('#messages > li').length === 0")
        send(other, "Next")
        wait_reply(other)
        other.wait_for_timeout(1200)
        assert other.evaluate(KEPT) == ["Earlier", "From A", "Next"]  # what was deleted stays so
        page.reload()
        until(page, f"{TITLES}.includes('Next,From A,Earlier')")


def test_two_tabs_in_one_conversation(chromium, slow_server):
    with open_page(chromium, slow_server.url, {**GREEDY, "max_tokens": 60}) as page:
        send(page, "One")
        wait_reply(page)
        page.wait_for_timeout(1200)
        other = second_tab(page)
        other.get_by_role("button", name="One", exact=True).click()
        page.fill("#composer-text", "Left")
        other.fill("#composer-text", "Right")
        for tab in (page, other):  # at once: neither's words are lost
            tab.press("#composer-text", "Enter")
        for tab in (page, other):
            wait_reply(tab, 2)
        page.wait_for_timeout(1500)
        assert page.evaluate(KEPT) == ["One,Left", "One,Right"]
        assert page.locator("li.user .text").all_inner_texts() == ["One", "Left"]
        assert other.locator("li.user .text").all_inner_texts() == ["One", "Right"]
        send(other, "Gone")
        until(other, "document.querySelector('#messages > li:last-child .text').textContent.length > 3")
        page.get_by_role("button", name="One", exact=True).first.focus()
        for button in page.get_by_role("button", name="Delete conversation: One").all()[::-1]:
            button.click()
            page.click("#confirm-yes")
        until(other, "document.querySelectorAll('#messages > li').length === 0")
        other.locator("#send:visible").wait_for()  # its reply was stopped
        other.wait_for_timeout(1500)
        assert other.evaluate(KEPT) == [] and other.evaluate(TITLES) == "New conversation"


def test_settings_reach_the_server_and_its_errors_the_page(chromium, server):
    with open_page(chromium, server.url) as page:
        page.click("#open-settings")
        page.get_by_label("Max tokens").fill("5")
        page.get_by_label("Temperature").fill("0")
        page.get_by_label("Top p").fill("2")
        assert page.locator("#setting-top_p-problem").inner_text() == "From 0 to 1."
        page.get_by_label("Top p").fill("")
        page.get_by_label("System prompt").fill("Be brief.")
        page.get_by_label("Stop strings").fill("\n".join(f"s{i}" for i in range(40)))
        page.click("#settings-done")
        with page.expect_request("**/v1/chat/completions") as request:
            send(page, "Hi")
        sent = request.value.post_data_json
        assert len(request.value.headers["x-conversation-id"]) > 8  # for proxies (docs/deploy.md)
        assert sent["max_tokens"] == 5 and sent["temperature"] == 0 and "top_p" not in sent
        assert sent["messages"] == [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
        error = wait_reply(page).locator(".error")
        refused = server.post("/v1/chat/completions", sent)
        assert refused.status == 400
        assert refused.error["message"] in error.inner_text()  # the server's own words
        assert "field stop" in error.inner_text() and "HTTP 400" in error.inner_text()
        page.click("#open-settings")
        page.get_by_label("Stop strings").fill("")
        page.click("#settings-done")
        page.get_by_role("button", name="Regenerate reply").click()
        assert "reply 5 tok" in wait_reply(page).locator(".figures").inner_text()


@pytest.mark.parametrize("name, text, problem", [("temperature", "0,7", "Not a number."), ("top_p", "3", "From 0 to 1."),
                                                 ("max_tokens", "12.5", "A whole number is wanted."), ("tools", "{bad", "JSON")])
def test_settings_that_are_not_valid_are_not_kept(chromium, server, name, text, problem):
    kept = "localStorage.getItem('ringkeep.settings')"
    focus = "document.activeElement.id"
    with open_page(chromium, server.url, {"seed": 3, name: ""}, viewport={"width": 375, "height": 667}) as page:
        before = page.evaluate(kept)
        field, done = page.locator(f"#setting-{name}"), page.locator("#settings-done")
        page.click("#open-settings")
        page.get_by_label("Seed").fill("4")
        field.fill(text)
        for press in (done.click, lambda: (done.focus(), page.keyboard.press("Enter"))):
            press()
            assert page.evaluate(focus) == f"setting-{name}" and field.get_attribute("aria-invalid") == "true"
            assert problem in page.locator(f"#setting-{name}-problem").inner_text()
            assert problem in page.locator("#settings-problem").inner_text()  # said, wherever the field is
            box = field.bounding_box()
            assert box["y"] + box["height"] <= page.locator("#settings .dialog-foot").bounding_box()["y"]
        accessible(page, "settings that are refused")
        no_sideways_scroll(page, "settings that are refused")
        assert page.evaluate(kept) == before
        for leave in (lambda: page.keyboard.press("Escape"), page.get_by_role("button", name="Cancel").click):
            leave()
            assert page.evaluate(focus) == "open-settings" and page.evaluate(kept) == before
            page.click("#open-settings")
            assert page.get_by_label("Seed").input_value() == "3" and field.input_value() == ""
            field.fill(text)
        page.mouse.click(3, 3)  # beside the dialog: nothing typed is lost
        assert field.input_value() == text and field.is_visible()
        page.get_by_role("button", name="Reset all").click()
        assert page.get_by_label("Seed").input_value() == "" and page.evaluate(kept) == before
        done.click()
        assert page.evaluate(kept) == "{}" and page.evaluate(focus) == "open-settings"


@pytest.mark.parametrize("name, text", [("temperature", "0,7"), ("top_p", "3"), ("max_tokens", "12.5"), ("tools", "{bad")])
def test_settings_kept_by_an_earlier_version_are_refused_by_name(chromium, server, name, text):
    with open_page(chromium, server.url, {name: text}) as page:
        send(page, "Hi")
        assert f"field {name}" in wait_reply(page).locator(".error").inner_text()


def test_empty_settings_show_what_the_server_takes(chromium, chat_model):
    with Server(chat_model, "--temp", 0.7, "--top-p", 0.9) as server, open_page(chromium, server.url) as page:
        page.set_viewport_size({"width": 375, "height": 667})
        page.click("#open-settings")
        page.wait_for_function("document.getElementById('setting-temperature').placeholder === '0.7'")
        shown = {name: page.locator(f"#setting-{name}").get_attribute("placeholder") for name in ("top_p", "seed", "max_tokens")}
        assert shown == {"top_p": "0.9", "seed": None, "max_tokens": None}
        until(page, "document.getElementById('setting-max_tokens-hint').textContent === 'Empty: to the end of the context'")
        box = page.locator("#settings-done").bounding_box()  # without scrolling
        assert box["y"] >= 0 and box["y"] + box["height"] <= 667
        assert page.evaluate("""() => {
            const box = document.getElementById('settings-done').getBoundingClientRect();
            return document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2).id;
        }""") == "settings-done"


def test_the_limit_of_the_server_is_shown(chromium, chat_model, plain_model):
    hint = "document.getElementById('setting-max_tokens-hint').textContent"
    cases = [(chat_model, ["--max-tokens", 30], 30), (plain_model, ["--max-tokens", 40], 40), (plain_model, [], 16)]
    for model, flags, most in cases:
        with Server(model, "--ctx", 512, *flags) as server, open_page(chromium, server.url, {"temperature": 0}) as page:
            until(page, "document.getElementById('model-name').textContent !== ''")
            page.click("#open-settings")
            until(page, f"{hint} === 'Empty: {most}, as the server is set'")
            assert page.locator("#setting-max_tokens").get_attribute("placeholder") == str(most)
            page.keyboard.press("Escape")
            send(page, "Hi")
            assert f"reply {most} tok" in wait_reply(page).locator(".figures").inner_text()

def test_a_full_context_says_what_to_do(chromium, chat_model):
    with Server(chat_model, "--ctx", 200) as server, open_page(chromium, server.url, {"temperature": 0}, **PHONE) as page:
        until(page, "document.getElementById('model-name').textContent !== ''")
        page.evaluate(LISTEN)
        send(page, "Hi")
        reply = wait_reply(page)
        assert "Cut at the end of the context" in reply.locator(".figures").inner_text()
        send(page, "And more")
        refused = wait_reply(page, 2)
        assert "the context (--ctx) holds 200" in refused.locator(".error").inner_text()
        for one in (reply, refused):
            advice = one.locator(".note").inner_text()
            assert all(word in advice for word in ("new conversation", "Max tokens", "--ctx", "--max-kv-size")), advice
        until(page, "window.said.some((text) => text.includes('new conversation'))")
        accessible(page, "a full context")
        no_sideways_scroll(page, "a full context")
        page.evaluate("document.getElementById('new-conversation').click()")
        page.click("#open-settings")
        page.get_by_label("Max tokens").fill("5")
        page.click("#settings-done")
        send(page, "Hi")
        reply = wait_reply(page)
        assert "Cut at the token limit" in reply.locator(".figures").inner_text() and reply.locator(".note").is_hidden()


def test_a_server_that_is_gone_is_told(chromium, chat_model):
    with Server(chat_model, "--ctx", 512) as server, open_page(chromium, server.url, GREEDY) as page:
        page.locator("#model-name").get_by_text("tinychat").wait_for()
        server.stop()
        send(page, "Hi")
        assert "cannot be reached" in wait_reply(page).locator(".error").inner_text()


def test_a_server_that_is_killed_is_told_soon(chromium, chat_model):
    gone = "document.getElementById('server-state').textContent === 'not reachable'"
    narrow = {"width": 800, "height": 900}  # without the map, which asks as well
    with Server(chat_model, "--ctx", 512) as server, open_page(chromium, server.url, viewport=narrow) as page:
        page.locator("#model-name").get_by_text("tinychat").wait_for()
        server.process.kill()
        until(page, gone, 7)
    with Server(chat_model, "--ctx", 2048, fault="slow:25") as server:
        with open_page(chromium, server.url, {"max_tokens": 1500}, viewport=narrow) as page:
            page.locator("#model-name").get_by_text("tinychat").wait_for()
            send(page, "Go on and on")
            until(page, "document.querySelector('#messages > li:last-child .text')?.textContent.length > 3")
            server.process.kill()
            page.locator("li.assistant .error:visible").wait_for()
            until(page, gone, 2)  # at once
            assert "broke off" in page.locator("li.assistant .error").inner_text()


def test_a_server_that_does_not_answer_is_told(chromium, server):
    with open_page(chromium, server.url) as page:
        page.locator("#model-name").get_by_text("tinychat").wait_for()
        page.route("**/health", lambda route: None)
        until(page, "document.getElementById('server-state').textContent === 'not reachable'", 10)
        page.unroute("**/health")
        until(page, "document.getElementById('server-state').textContent === ''", 10)


def test_no_speed_is_made_up(chromium, server):
    with open_page(chromium, server.url) as page:
        scripted(page, [{"content": "word "}] * 500)  # all at once
        send(page, "Hi")
        figures = wait_reply(page).locator(".figures").inner_text()
        assert "reply 34 tok" in figures and "speed" not in figures


@pytest.mark.parametrize("attack", ["all", *range(len(ATTACKS))])
def test_replies_cannot_bring_scripts(chromium, server, attack):
    text = "\n\n".join(ATTACKS) if attack == "all" else ATTACKS[attack]
    with open_page(chromium, server.url) as page:
        scripted(page, [{"content": piece} for piece in text])  # byte by byte: half tags are seen, too
        send(page, "Attack")
        reply = wait_reply(page).locator(".text")
        found = reply.evaluate("""(node) => [...node.querySelectorAll('*')].map((one) => [one.tagName,
            ...one.getAttributeNames().filter((name) => name.startsWith('on') || name === 'style' || name === 'srcdoc')].join(' '))""")
        allowed = {"P", "BR", "A", "CODE", "PRE", "FIGURE", "FIGCAPTION", "SPAN", "BUTTON", "svg", "path", "DIV",
                   "TABLE", "THEAD", "TBODY", "TR", "TH", "TD"}
        assert set(found) <= allowed, found
        for link in reply.locator("a").all():
            assert link.get_attribute("href").startswith(("https://", "http://"))
            assert "noopener" in link.get_attribute("rel")
        page.wait_for_timeout(50)  # a handler would have run


def test_markdown(chromium, server):
    render = """async (text) => {
        const {render} = await import('/markdown.js');
        const node = document.createElement('div');
        render(node, text);
        for (const extra of node.querySelectorAll('figcaption')) extra.remove();
        for (const one of node.querySelectorAll('*'))
            for (const name of one.getAttributeNames())
                if (!['href', 'start', 'class'].includes(name) || one.getAttribute('class')?.match(/code|table|heading|task/)) one.removeAttribute(name);
        return node.innerHTML;
    }"""
    cases = {
        "a **b** *c* ~~d~~ __e__ `f` \\*g\\*": "<p>a <strong>b</strong> <em>c</em> <del>d</del> <strong>e</strong> <code>f</code> *g*</p>",
        "snake_case_name 2 * 3 * 4": "<p>snake_case_name 2 * 3 * 4</p>",
        "# One\n### Three ###": "<h4>One</h4><h6>Three</h6>",
        "a\nb\n\nc": "<p>a<br>b</p><p>c</p>",
        "1. a\n2. b\n   - c\n   - d\n3. e": "<ol><li>a</li><li>b<ul><li>c</li><li>d</li></ul></li><li>e</li></ol>",
        "4) x": '<ol start="4"><li>x</li></ol>',
        "- [x] a\n- [ ] b": "<ul><li><span>☑</span>a</li><li><span>☐</span>b</li></ul>",
        "1. a\n\n- b": "<ol><li>a</li></ol><ul><li>b</li></ul>",
        "> a\n> > b": "<blockquote><p>a</p><blockquote><p>b</p></blockquote></blockquote>",
        "```py\na < b\n\n  c\n```\nd": "<figure><pre><code>a &lt; b\n\n  c</code></pre></figure><p>d</p>",
        "```\nnot closed": "<figure><pre><code>not closed</code></pre></figure>",
        "| a | b |\n|--:|---|\n| `x\\|y` | 2 |\n\nz": '<div><table><thead><tr><th class="align-right">a</th><th>b</th></tr></thead>'
        '<tbody><tr><td class="align-right"><code>x|y</code></td><td>2</td></tr></tbody></table></div><p>z</p>',
        "a\n***\nb": "<p>a</p><hr><p>b</p>",
        "[a *b*](https://x.org/?q=1&r=2) http://y.org.": '<p><a href="https://x.org/?q=1&amp;r=2">a *b*</a> <a href="http://y.org/">http://y.org</a>.</p>',
        "a <b> & \"c\"": '<p>a &lt;b&gt; &amp; "c"</p>',
        "": "",
    }
    with open_page(chromium, server.url) as page:
        for text, expected in cases.items():
            assert page.evaluate(render, text) == expected, text
        # Any text is shown whole: no word is lost.
        words = page.evaluate(render, "x1 *x2 **x3 [x4](x5 `x6 ~~x7\n- x8\n| x9 |\n> x10\n# x11")
        assert all(f"x{i}" in words for i in range(1, 12)), words
        # What takes quadratic time where marks have no end.
        for text in ("*" * 60000, "[" * 60000, "`a" * 30000, "**a " * 20000, "> " * 20000, "- " * 20000,
                     "|" * 60000, "[a](" * 20000, "_a*" * 20000, "\n" * 100000, "- a\n\n" * 5000):
            page.evaluate(render, text)


def test_reasoning_and_tool_calls(chromium, server):
    tool = '[{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]'
    with open_page(chromium, server.url, {"tools": tool}) as page:
        requests = []
        scripted(page, [{"role": "assistant"}, {"reasoning_content": "Let me "}, {"reasoning_content": "think."},
                        {"content": "I look."},
                        {"tool_calls": [{"index": 0, "id": "c1", "type": "function", "function": {"name": "look", "arguments": ""}}]},
                        {"tool_calls": [{"index": 0, "function": {"arguments": '{"at":'}}]},
                        {"tool_calls": [{"index": 0, "function": {"arguments": ' "<b>"}'}}]}], requests)
        send(page, "Look")
        reply = wait_reply(page)
        assert not reply.locator(".reasoning-text").is_visible()
        reply.get_by_text("Reasoning").click()
        assert reply.locator(".reasoning-text").inner_text() == "Let me think."
        assert reply.locator(".call figcaption").inner_text() == "Tool call: look"
        assert reply.locator(".call code").inner_text() == '{\n  "at": "<b>"\n}'
        accessible(page, "a reply with a tool call")
        page.get_by_label("Result of look").fill("A view.")
        page.get_by_role("button", name="Send results").click()
        wait_reply(page, 2)
        assert requests[0]["tools"][0]["function"]["name"] == "look"
        assert requests[1]["messages"][1:] == [
            {"role": "assistant", "content": "I look.", "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"at": "<b>"}'}}]},
            {"role": "tool", "content": "A view.", "tool_call_id": "c1"}]


def test_the_map_shows_the_cache(chromium, slow_server):
    with open_page(chromium, slow_server.url, {"temperature": 0, "max_tokens": 600}, viewport={"width": 1400, "height": 900}) as page:
        page.locator("#cache-body").wait_for()
        groups = slow_server.kv()["groups"]
        assert page.locator("#cache-groups canvas").count() == len(groups) > 1
        send(page, "Fill the cache")
        page.locator("#cache-sequences td").first.wait_for()
        page.locator("#cache-sequences").get_by_text("decoding").wait_for()
        page.click("#cache-details summary")
        rows = page.locator("#cache-table tbody tr")
        assert rows.count() == len(groups)
        for i, group in enumerate(groups):
            cells = rows.nth(i).locator("th, td").all_inner_texts()
            assert cells[1].startswith(group["kind"]) and str(group["k"]) in cells[3]
            assert (str(group["window"]) in cells[2]) == bool(group["window"])
            pages = [int(cell.replace(",", "")) for cell in cells[4:9]]
            assert sum(pages) == group["pages_total"]
        assert any(int(rows.nth(i).locator("td").nth(5).inner_text()) > 0 for i in range(len(groups)))  # used
        drawn = page.locator("#cache-groups canvas").first.evaluate(
            "(c) => new Set(c.getContext('2d').getImageData(0, 0, c.width, c.height).data).size")
        assert drawn > 3
        accessible(page, "the map beside a chat that runs")
        page.click("#stop")


def test_the_map_asks_only_while_it_is_seen(chromium, server):
    with open_page(chromium, server.url, viewport={"width": 1400, "height": 900}) as page:
        page.locator("#cache-body").wait_for()
        asked = []
        page.on("request", lambda request: request.url.endswith("/kv") and asked.append(request.url))
        page.evaluate("""() => {
            Object.defineProperty(document, 'hidden', {get: () => window.away, configurable: true});
            window.away = true;
            document.dispatchEvent(new Event('visibilitychange'));
        }""")
        page.wait_for_timeout(200)
        asked.clear()
        page.wait_for_timeout(4000)
        assert asked == []
        with page.expect_request("**/kv"):
            page.evaluate("window.away = false; document.dispatchEvent(new Event('visibilitychange'))")
        page.set_viewport_size({"width": 800, "height": 900})  # the chat alone
        page.wait_for_timeout(200)
        asked.clear()
        page.wait_for_timeout(4000)
        assert asked == []


def test_states_of_pages_add_up(chromium, server):
    group = {"pages_total": 5000, "pages_used": 1800, "keep": 100, "page_tokens": 64}
    sequences = [{"pages": [list(range(500))]}, {"pages": [[0, 1, *range(400, 900)]]}]
    with open_page(chromium, server.url) as page:
        counts, small, large = page.evaluate("""async ([group, sequences]) => {
            const {countStates, squares} = await import('/cache.js');
            const counts = countStates(group, 0, sequences);
            return [counts, squares({pinned: 1, shared: 0, used: 5, held: 0, free: 2}, 100), squares(counts, 100)];
        }""", [group, sequences])
        assert counts == {"pinned": 2, "shared": 100, "used": 798, "held": 900, "free": 3200}
        assert sum(counts.values()) == group["pages_total"]
        assert small == {"pages": 1, "runs": [["pinned", 1], ["shared", 0], ["used", 5], ["held", 0], ["free", 2]]}
        assert large["pages"] == 50 and dict(large["runs"])["pinned"] == 1 and sum(n for _, n in large["runs"]) <= 105


def test_with_the_keyboard_alone(chromium, server):
    with open_page(chromium, server.url, {**GREEDY, "max_tokens": 6}) as page:
        page.locator("#model-name").get_by_text("tinychat").wait_for()
        focus = "document.activeElement.id || document.activeElement.getAttribute('aria-label') || document.activeElement.className"
        for _ in range(15):  # back to the beginning of the page
            page.keyboard.press("Shift+Tab")
            if page.evaluate("document.activeElement.className") == "skip":
                break
        page.wait_for_timeout(300)
        assert page.evaluate("document.activeElement.getBoundingClientRect().top") > 0  # shown while focused
        page.keyboard.press("Enter")
        assert page.evaluate(focus) == "composer-text"
        page.keyboard.type("One")
        page.keyboard.press("Shift+Enter")
        page.keyboard.type("line")
        page.keyboard.press("Enter")
        wait_reply(page)
        assert page.locator("li.user .text").inner_text() == "One\nline"
        assert page.evaluate(focus) == "composer-text"  # ready for the next one
        seen = []
        for _ in range(12):
            page.keyboard.press("Shift+Tab")
            seen.append(page.evaluate(focus))
        assert {"Regenerate reply", "Copy reply", "Edit message", "log"} <= set(seen), seen
        page.focus("#open-settings")
        page.keyboard.press("Enter")
        assert page.evaluate("document.activeElement.closest('dialog')?.id") == "settings"
        for _ in range(30):  # focus stays inside
            page.keyboard.press("Tab")
            assert page.evaluate("document.activeElement === document.body || document.activeElement.closest('dialog') !== null")
        page.keyboard.press("Escape")
        assert page.evaluate(focus) == "open-settings"
        page.get_by_role("button", name="Edit message").focus()
        page.keyboard.press("Enter")
        assert page.evaluate("document.activeElement.className") == "edit-area"
        page.keyboard.press("Escape")
        assert page.evaluate(focus) == "Edit message"


def test_a_phone(chromium, server):
    with open_page(chromium, server.url, {**GREEDY, "max_tokens": 8}, **PHONE) as page:
        scripted(page, [{"content": "x" * 300 + "\n\n| " + "long " * 10 + "| b |\n|-|-|\n| " + "y" * 80 + " | 2 |\n\n```\n" + "z" * 200 + "\n```"}])
        no_sideways_scroll(page, "empty")
        send(page, "w" * 200)
        wait_reply(page)
        no_sideways_scroll(page, "a reply")
        assert page.locator("#side").is_hidden() and page.locator("#cache").is_hidden()
        accessible(page, "chat on a phone")
        page.click("#open-settings")
        no_sideways_scroll(page, "settings")
        page.keyboard.press("Escape")
        page.click("#open-drawer")
        assert page.locator("#drawer .conversation").count() == 1
        no_sideways_scroll(page, "conversations")
        accessible(page, "conversations on a phone")
        page.keyboard.press("Escape")
        page.click("#view-cache")
        page.locator("#cache-groups canvas").first.wait_for()
        page.click("#cache-details summary")
        no_sideways_scroll(page, "the map")
        accessible(page, "the map on a phone")
        page.click("#view-chat")
        page.locator("#composer-text").wait_for()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_accessible(chromium, server, scheme):
    text = "# Head\n\nSome `code`, a [link](https://example.com) and\n\n> a quote\n\n```py\nx = 1\n```\n\n| a |\n|-|\n| b |"
    with open_page(chromium, server.url, color_scheme=scheme, viewport={"width": 1400, "height": 900}) as page:
        page.locator("#cache-body").wait_for()
        accessible(page, "empty")
        scripted(page, [{"reasoning_content": "Hm."}, {"content": text}])
        send(page, "Hello")
        wait_reply(page)
        page.locator("li.assistant .reasoning summary").click()
        accessible(page, "a chat")
        page.get_by_role("button", name="Edit message").click()
        accessible(page, "editing")
        page.click("#open-settings")
        page.get_by_label("Temperature").fill("x")
        accessible(page, "settings with a fault")


def test_the_theme_can_be_chosen(chromium, server):
    ground = "getComputedStyle(document.body).backgroundColor"
    with open_page(chromium, server.url, color_scheme="light") as page:
        light = page.evaluate(ground)
        page.click("#open-settings")
        page.get_by_label("Colours").select_option("dark")
        dark = page.evaluate(ground)
        assert dark != light
        page.keyboard.press("Escape")
        page.wait_for_function(f"{ground} === '{light}'")  # told once the dialog is gone
        page.click("#open-settings")
        page.get_by_label("Colours").select_option("dark")
        page.click("#settings-done")
        page.reload()
        assert page.evaluate(ground) == dark


LISTEN = """() => {
    window.said = [];
    const node = document.getElementById('announcer');
    new MutationObserver(() => window.said.push(node.textContent)).observe(node, {childList: true});
}"""


def test_screen_readers_hear_a_reply(chromium, server):
    with open_page(chromium, server.url) as page:
        page.evaluate(LISTEN)
        assert page.locator("#log[aria-live]").count() == 0
        scripted(page, [{"content": "First one. "}, {"content": "And a sec"}, {"content": "ond. No end"}])
        send(page, "Hello")
        wait_reply(page)
        until(page, "window.said.some((text) => text.includes('The reply is complete.'))")
        said = page.evaluate("window.said")
        assert said[0] == "The reply begins."
        assert " ".join(said[1:]) == "First one.  And a second.  No end The reply is complete."


def test_screen_readers_are_not_flooded(chromium, server):
    with open_page(chromium, server.url) as page:
        page.evaluate(LISTEN)
        page.evaluate("""async () => {
            const {announce} = await import('/dom.js');
            for (let i = 0; i < 40; i += 1) {
                announce(`w${i}`);
                await new Promise((done) => setTimeout(done, 20));
            }
        }""")
        until(page, "window.said.join(' ').endsWith('w39')")
        said = page.evaluate("window.said")
        assert len(said) <= 3 and " ".join(said).split() == [f"w{i}" for i in range(40)]


def test_motion_stops_where_it_is_not_wanted(chromium, server):
    moving = "[...document.querySelectorAll('*')].some((node) => parseFloat(getComputedStyle(node).transitionDuration) > 0 || getComputedStyle(node).animationName !== 'none')"
    with open_page(chromium, server.url, reduced_motion="reduce") as page:
        assert not page.evaluate(moving)
    with open_page(chromium, server.url, reduced_motion="no-preference") as page:
        assert page.evaluate(moving)


def test_a_key_is_asked_for(chromium, chat_model):
    key = "k" * 32
    with Server(chat_model, "--ctx", 512, "--api-key", key) as server, open_page(chromium, server.url, GREEDY) as page:
        page.locator("#key-dialog[open]").wait_for()
        accessible(page, "the key dialog")
        page.locator("#key").fill("wrong")
        page.keyboard.press("Enter")
        page.locator("#key-error:visible").wait_for()
        assert server.get("/v1/models", headers={"Authorization": "Bearer wrong"}).error["message"] == page.locator("#key-error").inner_text()
        page.locator("#key").fill(key)
        page.keyboard.press("Enter")
        page.locator("#model-name").get_by_text("tinychat").wait_for()
        send(page, "Hi")
        assert wait_reply(page).locator(".error").is_hidden()
        assert key not in page.evaluate("JSON.stringify(localStorage)") and key in page.evaluate("JSON.stringify(sessionStorage)")


def test_without_a_template_text_is_continued(chromium, demo):
    with Server(demo, "--ctx", 512, "--served-model-name", "demo") as server:
        with open_page(chromium, server.url, {"temperature": 0, "max_tokens": 8}) as page:
            page.locator("#mode-note:visible").wait_for()
            assert "no chat template" in page.locator("#mode-note").inner_text()
            accessible(page, "text that is continued")
            send(page, "The Debian operating system is")
            wait_reply(page)
            send(page, "")  # goes on
            wait_reply(page, 2)
            shown = "".join(page.locator("#messages .text").all_text_contents())
            whole = server.complete("The Debian operating system is", max_tokens=16)["choices"][0]["text"]
            assert shown == "The Debian operating system is" + whole
