#!/usr/bin/env python3
"""The text that quality figures are measured on: the prose of Debian's debian-handbook.

    apt-get download debian-handbook && dpkg -x debian-handbook_*.deb handbook
    handbook_text.py handbook OUT.txt

The sections' English text in the order of their file names; the SHA-256 of version 11.20220922 is
checked (another version is written all the same, with a warning).
"""

import hashlib
import html.parser
import pathlib
import re
import sys

SHA256 = "1d1fac3dbe359b0e87208b8302192595abdec2cf03db8cd6c1cf0d7831f2cad9"


class _Prose(html.parser.HTMLParser):
    """Text of headings, paragraphs, list items and listings; scripts and navigation left out."""

    SKIP = {"script", "style", "head", "title"}
    BLOCK = {"p", "li", "pre", "h1", "h2", "h3", "h4", "dt", "dd", "div", "td"}

    def __init__(self):
        super().__init__()
        self.skipping = 0
        self.parts = []

    def handle_starttag(self, tag, attributes):
        classes = dict(attributes).get("class") or ""
        if self.skipping or tag in self.SKIP or (tag == "ul" and "docnav" in classes):
            self.skipping += tag not in ("br", "img", "hr", "meta", "link", "input")
        elif tag in self.BLOCK:
            self.parts.append("\n")

    def handle_endtag(self, tag):
        if self.skipping:
            self.skipping -= 1
        elif tag in self.BLOCK:
            self.parts.append("\n")

    def handle_data(self, data):
        if not self.skipping:
            self.parts.append(data)


def handbook_text(root) -> str:
    folder = pathlib.Path(root) / "usr/share/doc/debian-handbook/html/en-US"
    pages = sorted(folder.glob("sect.*.html"))
    if not pages:
        raise SystemExit(f"{folder}: no sections; unpack the debian-handbook package there")
    texts = []
    for page in pages:
        parser = _Prose()
        parser.feed(page.read_text(encoding="utf-8"))
        text = re.sub(r"[ \t\xa0]+", " ", "".join(parser.parts))
        texts.append(re.sub(r" ?\n[\n ]*", "\n", text).strip())
    return "\n\n".join(texts) + "\n"


def main():
    text = handbook_text(sys.argv[1]).encode()
    pathlib.Path(sys.argv[2]).write_bytes(text)
    digest = hashlib.sha256(text).hexdigest()
    print(f"{sys.argv[2]}: {len(text)} bytes, sha256 {digest}")
    if digest != SHA256:
        print(f"warning: figures were measured on {SHA256}", file=sys.stderr)


if __name__ == "__main__":
    main()
