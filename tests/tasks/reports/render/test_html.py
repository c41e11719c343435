"""The HTML report: one file that shows everything and runs nothing."""

from __future__ import annotations

import base64
import hashlib
import re
import sys
import time
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from bs4 import BeautifulSoup

from assizes.tasks import reports
from assizes.tasks.reports import html_report, json_report
from assizes.tasks.reports.formatting import clean, one_line
from assizes.tasks.reports.render.charts import report_charts
from tests.tasks.reports.render.hostile import PAYLOADS
from tests.tasks.reports.sample import Run, Said, compared, incomplete, run, with_prompts

GROUPS = [PAYLOADS[start : start + 9] for start in range(0, len(PAYLOADS), 9)]
DEAR = pytest.mark.promised  # seconds of drawing, too many for `make quick`
# The tests of one group run in one process, where its page is made once.
of_each_group = pytest.mark.parametrize(
    "payloads",
    [
        pytest.param(group, marks=(DEAR, pytest.mark.xdist_group(f"page {place}")), id=str(place))
        for place, group in enumerate(GROUPS)
    ],
)
TEMPLATES = Path(reports.__file__).parent / "templates"
TEXT = {
    "p",
    "h1",
    "h2",
    "h3",
    "h4",
    "ul",
    "ol",
    "li",
    "div",
    "span",
    "bdi",
    "code",
    "br",
    "strong",
    "pre",
    "q",
    "article",
}
FRAME = {"html", "head", "meta", "title", "style", "body", "main", "header", "nav", "footer", "a"}
TABLE = {"table", "caption", "thead", "tbody", "tr", "th", "td", "dl", "dt", "dd", "section"}
IMAGE = {
    "figure",
    "figcaption",
    "picture",
    "source",
    "img",
    "i",
    "b",
    "details",
    "summary",
    "wbr",
    "script",
}
TAGS = TEXT | FRAME | TABLE | IMAGE
NAMING = {
    "alt",
    "aria-hidden",
    "aria-label",
    "aria-labelledby",
    "role",
    "scope",
    "lang",
    "tabindex",
}
MEANING = {"charset", "content", "http-equiv", "name", "media", "id", "class", "style", "open"}
DATA = {"data-label", "data-has", "data-filtered", "hidden"}
ATTRIBUTES = NAMING | MEANING | DATA | {"href", "src", "srcset"}


def page(of: Run) -> BeautifulSoup:
    return BeautifulSoup(html_report(of.data()), "html.parser")


def side(texts: Sequence[str], level: int, run_id: str) -> Run:
    said = [
        Said(
            case_id=text,
            levels=(level, level),
            done=level > 3,
            outcomes=((text, level > 3, text),),
            code=text,
            why=text,
            agent=text,
            tags={text: text},
        )
        for text in texts
    ]
    lost = [Said(f"lost {text}", (0, 0), error=f"timeout: {text}") for text in texts]
    return run([*said, *lost], run_id=run_id, transcripts={"uri": texts[0]})


@cache
def full_page(texts: tuple[str, ...]) -> str:
    """Every place of the report that holds foreign text, filled with it."""
    return html_report(compared(side(texts, 5, "before"), side(texts, 1, "after")))


def structure(html: str) -> list[tuple[str, tuple[str, ...]]]:
    # A name may break after an underscore, so the number of `wbr` follows the text.
    tags = BeautifulSoup(html, "html.parser").find_all(True)
    return [(tag.name, tuple(sorted(tag.attrs))) for tag in tags if tag.name != "wbr"]


def images(soup: BeautifulSoup) -> list[str]:
    found = [image["src"] for image in soup.find_all("img")]
    return found + [source["srcset"] for source in soup.find_all("source")]


SAMPLE = compared(
    run([Said("a", (5, 5)), Said("b", (4, 4))], run_id="before"),
    run(
        [Said("a", (5, 5)), Said("b", (1, 2), done=False), Said("c", (0, 0), error="timeout: x")],
        thresholds={"min_coverage": 0.5},
        comparison={"allow": True},
    ),
)


def test_every_section_is_there_and_named():
    soup = BeautifulSoup(html_report(SAMPLE), "html.parser")
    assert [(one["id"], one.find("h2").text) for one in soup.find_all("section")] == [
        ("verdict", "REGRESSION"),
        ("read-first", "Cases to read first"),
        ("failures", "What failed"),
        ("metrics", "Metrics"),
        ("problems", "Errors and warnings"),
        ("comparison", "Comparison with the baseline"),
        ("cases", "All cases"),
        ("usage", "Records, time and money"),
        ("configuration", "Configuration"),
    ]


def test_the_first_words_say_who_judged():
    soup = page(run([Said("a", (5, 5))]))
    assert soup.main.find(True).text == (
        "Judged by the offline baseline (offline/lexical): plain text rules, no language model."
    )


def test_every_link_leads_to_a_place_in_the_page():
    soup = BeautifulSoup(html_report(SAMPLE), "html.parser")
    ids = {tag["id"] for tag in soup.find_all(id=True)}
    links = [tag["href"] for tag in soup.find_all(href=True)]
    labels = {tag["aria-labelledby"] for tag in soup.find_all(attrs={"aria-labelledby": True})}
    assert len(links) > 10
    # page.js reads what follows the question mark: a filter of the table of all cases.
    assert {link.removeprefix("#").partition("?")[0] for link in links} | labels <= ids
    assert len(ids) == len(soup.find_all(id=True))


@pytest.mark.row("001-29")
def test_each_expected_outcome_is_one_line_with_its_sign_and_justification():
    outcomes = (
        ("The booking is cancelled", True, "Turn 7 confirms it."),
        ("The refund is named", False, "No amount is mentioned."),
    )
    soup = page(run([Said("c1", (5, 5), outcomes=outcomes)]))
    lines = [one_line(line.text) for line in soup.select(".checklist li")]
    assert lines == [
        "✓ The booking is cancelled Turn 7 confirms it.",
        "✗ The refund is named No amount is mentioned.",
    ]
    signs = [sign["aria-label"] for sign in soup.select(".checklist .sign")]
    assert signs == ["holds", "does not hold"]


def test_the_policy_of_the_page_allows_its_one_script_and_no_request():
    soup = BeautifulSoup(html_report(SAMPLE), "html.parser")
    policy = soup.find("meta", attrs={"http-equiv": "Content-Security-Policy"})
    (script,) = soup.find_all("script")
    digest = base64.b64encode(hashlib.sha256(script.string.encode()).digest()).decode()
    assert policy["content"] == (
        "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
        f"script-src 'sha256-{digest}'; form-action 'none'; connect-src 'none'"
    )


@of_each_group
def test_the_script_of_the_page_is_ours_whatever_the_data_says(payloads: tuple[str, ...]):
    (script,) = BeautifulSoup(full_page(payloads), "html.parser").find_all("script")
    assert script.string == (TEMPLATES / "page.js").read_text()


def test_nothing_outside_the_file_is_named():
    html = html_report(SAMPLE)
    soup = BeautifulSoup(html, "html.parser")
    assert all(one.startswith("data:image/svg+xml;base64,") for one in images(soup))
    assert re.findall(r"url\(|@import|https?://", html) == []


def test_headings_go_down_one_level_at_a_time():
    soup = BeautifulSoup(html_report(SAMPLE), "html.parser")
    levels = [int(tag.name[1]) for tag in soup.find_all(re.compile("^h[1-4]$"))]
    steps = [after - before for before, after in pairwise(levels)]
    assert levels[0] == 1
    assert max(steps) == 1


def test_every_image_says_what_it_shows():
    found = BeautifulSoup(html_report(SAMPLE), "html.parser").find_all("img")
    assert [image["alt"].split(" ")[0] for image in found] == ["Bar", "Histogram", "Bar"]


@of_each_group
def test_foreign_text_adds_no_node_and_no_attribute(payloads: tuple[str, ...]):
    harmless = tuple(f"text {place}" for place, _ in enumerate(payloads))
    assert structure(full_page(payloads)) == structure(full_page(harmless))


@of_each_group
def test_foreign_text_is_shown_as_the_text_it_is(payloads: tuple[str, ...]):
    shown = BeautifulSoup(full_page(payloads), "html.parser")
    ids = {tag.text for tag in shown.select("#cases bdi")}
    assert {clean(one_line(payload), 512) for payload in payloads} <= ids


@of_each_group
def test_only_known_tags_attributes_and_targets_are_in_the_page(payloads: tuple[str, ...]):
    soup = BeautifulSoup(full_page(payloads), "html.parser")
    tags = soup.find_all(True)
    assert {tag.name for tag in tags} <= TAGS
    assert {name for tag in tags for name in tag.attrs} <= ATTRIBUTES
    assert all(tag["href"].startswith("#") for tag in soup.find_all(href=True))
    assert all(one.startswith("data:image/svg+xml;base64,") for one in images(soup))
    styles = {tag["style"] for tag in soup.find_all(style=True)}
    assert all(re.fullmatch(r"(width|left): [\d.]+%|flex: \d+", style) for style in styles)


def hostile_charts() -> list[str]:
    metrics = [
        {"metric": text, "mean": 3.0, "baseline_mean": 2.0, "unit": "0-5"} for text in PAYLOADS
    ]
    codes = [{"code": text, "count": 2} for text in PAYLOADS]
    drawn = []
    for start in range(0, len(PAYLOADS), 12):
        data = {
            "metrics": metrics[start : start + 12],
            "failure_codes": {"shown": codes[start : start + 12]},
            "scores": {"bins": []},
        }
        drawn += [uri for one in report_charts(data).values() for uri in (one.light, one.dark)]
    assert len(drawn) >= 2 * len(PAYLOADS) // 12
    return drawn


@pytest.mark.full
def test_hostile_names_stay_text_inside_the_drawings_too():
    for uri in hostile_charts():
        drawing = ET.fromstring(base64.b64decode(uri.partition("base64,")[2]))
        tags = {element.tag.rpartition("}")[2] for element in drawing.iter()}
        attributes = {name for element in drawing.iter() for name in element.attrib}
        assert tags <= {"svg", "g", "path", "text", "line", "rect", "title", "clipPath", "defs"}
        assert not [name for name in attributes if name.startswith("on") or "href" in name]


def test_the_same_run_gives_the_same_bytes():
    first, second = (
        compared(
            run([Said("a", (5, 5)), Said("b", (4, 4))], run_id="before"),
            run([Said("a", (5, 5)), Said("b", (1, 2), done=False)]),
        )
        for _ in range(2)
    )
    assert html_report(first) == html_report(second)
    assert json_report(first) == json_report(second)


@pytest.mark.parametrize(
    "of",
    [
        run([]),
        run([Said("lost", (0, 0), error="timeout: x")]),
        incomplete(run([Said("a", (5, 5))])),
    ],
    ids=["empty", "nothing judged", "not ended"],
)
def test_a_run_without_findings_still_has_a_page(of: Run):
    assert page(of).find("section")["id"] == "verdict"


def test_slices_by_tool_are_shown_and_said_to_overlap():
    def night(name: str, level: int, *tools: str) -> Run:
        said = [Said(f"c{n:02}", (level, level), done=level > 3, tools=tools) for n in range(20)]
        return run(said, run_id=name)

    def moved(*tools: str) -> str:
        data = compared(night("before", 5, *tools), night("after", 1, *tools))
        return BeautifulSoup(html_report(data), "html.parser").get_text()

    assert "tool=find" in moved("find", "pay")
    assert "of every tool it called, so these groups overlap" in moved("find", "pay")
    assert "overlap" not in moved()


@pytest.mark.full
def test_a_report_of_ten_thousand_cases_stays_under_five_megabytes(record_property, capsys):
    long = "The agent repeated the same call with the same arguments. " * 40
    outcomes = tuple((f"Statement {place}. {long}", place != 1, long) for place in range(5))
    before, after = (
        run(
            [
                Said(f"case-{place:05d}-{'x' * 40}", (level, 4), outcomes=outcomes, why=long)
                for place in range(10_000)
            ],
            run_id=run_id,
        )
        for run_id, level in (("before", 5), ("after", 1))
    )
    started = time.perf_counter()
    data = compared(before, after)
    collected = time.perf_counter()
    html, raw = html_report(data), json_report(data)
    seconds = {
        "comparison and data": collected - started,
        "render": time.perf_counter() - collected,
    }
    record_property("seconds", seconds)
    with capsys.disabled():
        sys.stdout.write(
            f"\n10,000 cases: {seconds}, HTML {len(html):,} JSON {len(raw):,} characters\n"
        )
    assert len(html.encode()) < 5_000_000
    assert len(raw.encode()) < 5_000_000


def prompts_section(**sides: dict[str, str]) -> tuple[str, list[str]]:
    """The note on the prompts, and what differs in each."""
    before, after = (
        with_prompts(run([Said("a", (5, 5))], run_id=run_id), **texts)
        for run_id, texts in sides.items()
    )
    soup = BeautifulSoup(html_report(compared(before, after)), "html.parser")
    note = soup.find(id="prompt-diff")
    shown = [one.pre.text for one in note.find_all_next("details") if "Prompts of" in one.text]
    return note.text, shown


def test_what_differs_in_the_prompts_is_shown_line_by_line_as_text():
    was, now = "\n".join(("Rules", *PAYLOADS)), "\n".join(("Rules", *PAYLOADS, "Be <kind>\r"))
    note, (shown,) = prompts_section(before={"tone": was}, after={"tone": now})
    assert note == "The judges are not the same: below is what differs in their prompts."
    lines = [line for line in shown.split("\n") if line.startswith(("+", "-"))]
    assert lines == ["+Be <kind>\u240d"]


def test_a_run_that_kept_no_texts_is_named_as_the_reason():
    note, shown = prompts_section(before={}, after={"tone": "Be kind"})
    assert "kept a hash of its prompts, not their text. To see what changed, compare" in note
    assert shown == []


def test_the_same_prompts_are_not_shown():
    same = {"tone": "Be kind"}
    note, shown = prompts_section(before=same, after=same)
    assert note.endswith("The prompts of both runs are the same, so something else changed.")
    assert shown == []
    assert BeautifulSoup(html_report(SAMPLE), "html.parser").find(id="prompt-diff") is None


@pytest.mark.parametrize("name", ["__proto__", "constructor", "toString", "valueOf"])
def test_a_name_that_every_object_has_is_drawn_as_any_other(name: str, capfd):
    data = {
        "metrics": [],
        "failure_codes": {"shown": [{"code": name, "count": 3}, {"code": "other", "count": 2}]},
        "scores": {"bins": []},
    }
    (chart,) = report_charts(data).values()
    drawing = base64.b64decode(chart.light.partition("base64,")[2]).decode()
    assert name in drawing
    assert "ERROR" not in capfd.readouterr().err


def test_each_metric_of_a_case_that_moved_leads_to_the_cases_below_acceptable():
    before, after = (
        run([Said("a", (5, 5))], run_id="nightly-bbbbbbbbbbbb"),
        run([Said("a", (2, 5))]),
    )
    page = BeautifulSoup(html_report(compared(before, after)), "html.parser")
    cell = page.select_one("#comparison td[data-label=Moved]")
    assert cell.text.strip().startswith("tool_routing 5 → 2")
    assert cell.a["href"] == "#cases?metric=tool_routing"
