"""Replies as the page shows them: Markdown, and nothing that runs."""

import pytest

from browser import open_page, scripted, send, wait_reply

ATTACKS = [
    "<img src=x onerror=alert(1)>", "<script>alert(1)</script>", "<svg onload=alert(1)>",
    "[a](javascript:alert(1))", "[a](JaVaScRiPt:alert(1))", "[a](  java\tscript:alert(1))",
    "[a](data:text/html,<script>alert(1)</script>)", "![a](https://example.com/x.png)",
    "[a](//example.com)", "[a](https://example.com\" onmouseover=\"alert(1))", "<https://example.com>",
    "[<img src=x onerror=alert(1)>](https://example.com/)", "`<b onclick=alert(1)>`",
    "```\"><script>alert(1)</script>\n<img src=x onerror=alert(1)>\n```", "| <iframe src=//a> |\n|-|\n| <form> |",
    "&lt;script&gt;alert(1)&lt;/script&gt;", "[x]: javascript:alert(1)\n\n[x]", "<a href=javascript:alert(1)>b</a>",
]


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
