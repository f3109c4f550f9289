"""Conversations on the page: what a reload keeps, and what several tabs do to each other."""

from browser import GREEDY, open_page, send, until, wait_reply

TITLES = "[...document.querySelectorAll('#conversation-list .conversation')].map((node) => node.textContent).join()"
KEPT = """Object.entries(localStorage).filter(([key]) => key.startsWith('ringkeep.conversation.')).map(([, text]) =>
    JSON.parse(text).messages.filter((message) => message.role === 'user').map((message) => message.content).join()).sort()"""


def second_tab(page):
    tab = page.context.new_page()
    tab.goto(page.url)
    tab.locator("#model-name").get_by_text("tinychat").wait_for()
    return tab


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
