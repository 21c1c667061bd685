"""html_check.py FILE TEXT ...: every tag that must be closed is, in order; nothing is
loaded from elsewhere; every TEXT stands in it."""
import html.parser
import pathlib
import sys

OPTIONAL = {"meta", "br", "p", "tr", "td", "th", "html"}  # may be left open by the standard


class Checker(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.text = [], ""

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            assert name not in ("src", "href", "onload"), f"<{tag} {name}={value}>"
        assert tag != "script"
        if tag not in OPTIONAL:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in OPTIONAL:
            assert self.open and self.open[-1] == tag, f"</{tag}> closes {self.open}"
            self.open.pop()

    def handle_data(self, data):
        self.text += data


checker = Checker()
checker.feed(pathlib.Path(sys.argv[1]).read_text())
assert not checker.open, checker.open
for text in sys.argv[2:]:
    assert text in checker.text, f"'{text}' is missing"
