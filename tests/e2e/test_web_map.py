"""The page's map of the cache."""

from browser import accessible, open_page, send


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
