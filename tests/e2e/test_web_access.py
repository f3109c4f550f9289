"""The page for everyone: the keyboard alone, a phone, contrast, screen readers, motion."""

import pytest

from browser import GREEDY, LISTEN, PHONE, accessible, no_sideways_scroll, open_page, scripted, send, until, wait_reply


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
