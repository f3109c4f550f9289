"""The page and its server: the files, the key, a full context, a server that is gone."""

from browser import GREEDY, LISTEN, PHONE, accessible, no_sideways_scroll, open_page, send, until, wait_reply
from serving import Server


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
