"""D25: labels, column names and file names that are HTML or script stay text in the report."""

from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import pytest

import piwo
from piwo.cli.main import main

LABEL = "</script><img src=x onerror=alert(1)>"
COLUMN = "<b onmouseover=alert(2)>x</b>"
FILE = '"><svg onload=alert(3)>.csv'
DOLLARS = "$\\frac{a}{b}$ {{ 7 * 7 }} {% raw %} &amp; \u202e"

pytest.importorskip("jinja2")


class Elements(HTMLParser):
    """Every element with its attributes, every text, in order."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, tuple[str, ...]]] = []
        self.texts: list[str] = []
        self.values: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, tuple(name for name, _ in attrs)))
        self.values += [value or "" for _, value in attrs]

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


Report = Callable[[str, str, str, str], str]


@pytest.fixture
def report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Report:
    """A report on a log whose labels, column and file name are given."""

    def make(label: str, other: str, column: str, name: str) -> str:
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        folder.mkdir()
        log, policy, out = folder / name, folder / f"{name}.piwo", folder / "report.html"

        def cell(text: str) -> str:
            return '"' + text.replace('"', '""') + '"'

        rows = [f"{cell(label)},{i % 2},0.5,{i}" for i in range(4)] + [
            f"{cell(other)},1,0.5,{i}" for i in range(4)
        ]
        log.write_text("\n".join([f"item,click,p,{cell(column)}", *rows]) + "\n", encoding="utf-8")
        piwo.policies.Constant(label, [label, other]).save(policy)
        words = ["report", str(log), "--action", "item", "--reward", "click", "--propensity", "p"]
        words += [
            "--context",
            column,
            "--policy",
            f"constant:{label}",
            "--policy",
            str(policy),
            "--out",
            str(out),
        ]
        assert main(words) == 0, capsys.readouterr().err
        return out.read_bytes().decode("utf-8")

    return make


def test_no_name_becomes_markup(report: Report) -> None:
    page = report(LABEL, DOLLARS, COLUMN, FILE)
    for raw in (
        LABEL,
        COLUMN,
        FILE,
        "<img",
        "<svg onload",
        "<b ",
        "onmouseover=alert(2)>",
        "\u202e",
    ):
        assert raw not in page
    # the template's own: the explorer, and its numbers
    assert page.count("<script") == report("label", "other", "column", "log.csv").count("<script")
    # a namespace, which nothing fetches
    page = page.replace("http://www.w3.org/2000/svg", "")
    for remote in ("javascript:", "http:", "https:", "@import", "url("):
        assert remote not in page


def test_no_element_or_attribute_beyond_the_templates_own(report: Report) -> None:
    hostile, harmless = (
        Elements(report(LABEL, DOLLARS, COLUMN, FILE)),
        Elements(report("label", "other", "column", "log.csv")),
    )
    assert hostile.elements == harmless.elements
    assert {tag for tag, _ in hostile.elements}.isdisjoint(
        {"img", "iframe", "object", "link", "base", "form"}
    )
    assert not any(
        name.startswith("on") or name in ("style", "href", "src")
        for _, names in hostile.elements
        for name in names
    )


def test_every_name_can_still_be_read(report: Report) -> None:
    texts = Elements(report(LABEL, DOLLARS, COLUMN, FILE)).texts
    assert LABEL in texts
    assert COLUMN in texts
    assert any(text.endswith(FILE) for text in texts)
    # mathematics and templates are not interpreted; a mark of writing direction is shown, not
    # obeyed
    assert DOLLARS.replace("\u202e", "\\u202e") in texts


def test_the_page_declares_its_charset_and_its_policy(report: Report) -> None:
    page = report("Łódź −5 %", "b", "c", "log.csv")
    assert page.index('<meta charset="utf-8">') < 1024
    assert "Łódź −5 %" in page
    allowed = next(x for x in Elements(page).values if "default-src" in x)
    assert allowed.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in allowed


def test_the_style_is_the_one_that_the_policy_allows(report: Report) -> None:
    import base64
    import hashlib

    page = report("a", "b", "c", "log.csv")
    style = page[page.index("<style>") + len("<style>") : page.index("</style>")]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert any(f"'sha256-{digest}'" in x for x in Elements(page).values)
