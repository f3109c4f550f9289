"""The page's settings: what is sent, what is refused, what an empty one shows."""

import pytest

from browser import accessible, no_sideways_scroll, open_page, send, until, wait_reply
from serving import Server


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
        until(page, "document.getElementById('setting-temperature').placeholder === '0.7'")
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


def test_the_theme_can_be_chosen(chromium, server):
    ground = "getComputedStyle(document.body).backgroundColor"
    with open_page(chromium, server.url, color_scheme="light") as page:
        light = page.evaluate(ground)
        page.click("#open-settings")
        page.get_by_label("Colours").select_option("dark")
        dark = page.evaluate(ground)
        assert dark != light
        page.keyboard.press("Escape")
        until(page, f"{ground} === '{light}'")  # told once the dialog is gone
        page.click("#open-settings")
        page.get_by_label("Colours").select_option("dark")
        page.click("#settings-done")
        page.reload()
        assert page.evaluate(ground) == dark
