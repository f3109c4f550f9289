"""A chat on the page at /, in Chromium: it streams, stops, is made again, edited and kept."""

import re

from browser import GREEDY, accessible, open_page, scripted, send, until, wait_reply
from serving import Server


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


def test_no_speed_is_made_up(chromium, server):
    with open_page(chromium, server.url) as page:
        scripted(page, [{"content": "word "}] * 500)  # all at once
        send(page, "Hi")
        figures = wait_reply(page).locator(".figures").inner_text()
        assert "reply 34 tok" in figures and "speed" not in figures


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
