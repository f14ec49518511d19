# SPDX-License-Identifier: MIT
"""Checks the index: tags that close, no scripts, and links that the server knows.

    check_index.py FILE URL
"""
import html.parser
import sys
import urllib.error
import urllib.request


def check(cond, what):
    if not cond:
        sys.exit("check_index.py: %s" % what)


class Page(html.parser.HTMLParser):
    """Collects links; tags must nest."""

    def __init__(self):
        super().__init__()
        self.open, self.links = [], []

    def handle_starttag(self, tag, attrs):
        check(tag in "html head meta title body h1 p table tr td a".split(), tag)
        check([k for k, _ in attrs] == {"a": ["href"], "html": ["lang"],
                                        "meta": ["charset"]}.get(tag, []), attrs)
        if tag == "a":
            self.links.append(dict(attrs)["href"])
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag):
        check(self.open and self.open.pop() == tag, "%s is not open" % tag)


def status(url):
    """HEAD, since a profile would take its time."""
    try:
        with urllib.request.urlopen(urllib.request.Request(url, method="HEAD")) as answer:
            return answer.status
    except urllib.error.HTTPError as e:
        return e.code


def main(path, url):
    page = Page()
    with open(path, encoding="utf-8") as f:
        page.feed(f.read())
    page.close()
    check(page.open == [], page.open)
    check("/metrics" in page.links and "/debug/vars" in page.links, page.links)
    for link in page.links:
        check(status(url + link) in (200, 501), "%s: %s" % (link, status(url + link)))


main(*sys.argv[1:])
