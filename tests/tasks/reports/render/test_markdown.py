"""The Markdown report, as GitHub and the Prefect UI show it."""

from __future__ import annotations

import os
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from assizes.tasks.reports import markdown_report
from assizes.tasks.reports.formatting import clean, code, one_line, plain
from tests.tasks.reports.render.hostile import PAYLOADS
from tests.tasks.reports.sample import Said, compared, run, with_prompts

GOLDEN = Path(__file__).resolve().parents[3] / "golden" / "reports" / "report.md"
GITHUB = MarkdownIt("commonmark").enable(["table", "strikethrough"])
AUTOLINK = re.compile(r"(?i)https?://|www\.|[\w.+-]@[\w-]|mailto:|xmpp:")
ACTIVE = {"link_open", "image", "html_inline", "html_block", "s_open", "em_open"}
OUTCOMES = (
    ("The booking is cancelled", True, "cancel_booking succeeded at turn 7."),
    ("The refund is named", False, "No amount is mentioned."),
)


def golden_data() -> dict[str, Any]:
    before = [
        Said("booking-1", (5, 5), outcomes=tuple((text, True, why) for text, _, why in OUTCOMES)),
        Said("booking-2", (2, 4), done=False),
        Said("booking-3", (5, 4)),
        Said("booking-4", (5, 4)),
    ]
    after = [
        Said("booking-1", (4, 5), outcomes=OUTCOMES, tags={"topic": "refund"}),
        Said("booking-2", (5, 4)),
        Said("booking-3", (1, 3), done=False, why="Searched twice with the *same* arguments."),
        Said("booking-5", (0, 0), error="timeout: no answer in 120 s"),
    ]
    thresholds = {"min_coverage": 0.7}
    return compared(
        run(before, run_id="nightly-aaaaaaaaaaaa"),
        run(
            after, run_id="nightly-bbbbbbbbbbbb", thresholds=thresholds, comparison={"allow": True}
        ),
    )


def tokens(text: str) -> list[Any]:
    found = GITHUB.parse(text)
    return found + [child for token in found for child in token.children or ()]


def inline(text: str) -> str:
    """What a reader sees of one paragraph of Markdown."""
    (paragraph,) = [token for token in GITHUB.parse(text) if token.type == "inline"]
    return "".join(child.content for child in paragraph.children or ())


def test_the_report_of_a_known_run_reads_as_agreed():
    text = markdown_report(golden_data())
    if os.environ.get("UPDATE_GOLDEN") == "1":
        GOLDEN.parent.mkdir(parents=True, exist_ok=True)
        GOLDEN.write_text(text, "utf-8")
    assert text == GOLDEN.read_text("utf-8")


def test_the_first_line_says_who_judged():
    first = markdown_report(run([Said("a", (5, 5))]).data()).splitlines()[0]
    assert first == (
        "Judged by the offline baseline (offline/lexical): plain text rules, no language model."
    )


@pytest.mark.row("001-29")
def test_each_expected_outcome_is_one_line_with_its_sign_and_justification():
    lines = markdown_report(golden_data()).splitlines()
    assert "- ✓ The booking is cancelled: cancel_booking succeeded at turn 7." in lines
    assert "- ✗ The refund is named: No amount is mentioned." in lines


@cache
def hostile_report(payloads: tuple[str, ...]) -> str:
    before, after = (
        run(
            [
                Said(
                    text,
                    (level, level),
                    done=level > 3,
                    outcomes=((text, level > 3, text),),
                    code=text,
                    why=text,
                    agent=text,
                    tags={text: text},
                )
                for text in payloads
            ]
            + [Said(f"lost {text}", (0, 0), error=text) for text in payloads],
            run_id=run_id,
            transcripts={"uri": payloads[0]},
        )
        for run_id, level in (("before", 5), ("after", 1))
    )
    return markdown_report(compared(before, after))


GROUPS = [PAYLOADS[start : start + 9] for start in range(0, len(PAYLOADS), 9)]
# The tests of one group run in one process, where its report is made once.
of_each_group = pytest.mark.parametrize(
    "payloads",
    [
        pytest.param(group, marks=pytest.mark.xdist_group(f"text {number}"), id=str(number))
        for number, group in enumerate(GROUPS)
    ],
)


@pytest.mark.promised
@of_each_group
def test_foreign_text_makes_no_markup(payloads: tuple[str, ...]):
    found = tokens(hostile_report(payloads))
    kinds = {token.type for token in found}
    harmless = {token.type for token in tokens(hostile_report(("a", "b")))}
    assert kinds <= harmless
    assert kinds.isdisjoint(ACTIVE)
    texts = [token.content for token in found if token.type == "text"]
    assert [text for text in texts if AUTOLINK.search(text)] == []


@pytest.mark.promised
@of_each_group
def test_foreign_text_breaks_no_table(payloads: tuple[str, ...]):
    harmless = tuple(f"text {place}" for place, _ in enumerate(payloads))
    shapes = [
        [token.type for token in GITHUB.parse(hostile_report(texts))]
        for texts in (payloads, harmless)
    ]
    assert shapes[0] == shapes[1]


@pytest.mark.parametrize("payload", PAYLOADS)
def test_escaped_text_reads_as_it_was(payload: str):
    shown = clean(one_line(payload), 280)
    assert inline(f"x {plain(payload)}").replace("\u2060", "") == f"x {shown}"
    assert inline(f"x {code(payload)}").replace("\u2060", "") == f"x {shown}"


@given(st.text(max_size=80) | st.from_regex(r"[-+*>#=~`|0-9.) \t]{1,6}[a-z ]{0,4}"))
def test_any_text_begins_no_block_of_its_own(text: str):
    kinds = [token.type for token in GITHUB.parse(plain(text))]
    assert kinds in ([], ["paragraph_open", "inline", "paragraph_close"])
    assert not plain(text) or inline(plain(text)).replace("\u2060", "") == clean(
        one_line(text), 280
    )


@given(st.text(max_size=80))
def test_any_text_reads_as_it_was_and_is_one_cell(text: str):
    shown = clean(one_line(text), 280)
    assert inline(f"x {plain(text)}.").replace("\u2060", "") == f"x {shown}."
    table = f"| a | b |\n| --- | --- |\n| x{plain(text)} | {code(text) or 'x'} |"
    kinds = [token.type for token in GITHUB.parse(table)]
    assert kinds.count("td_open") == 2


def test_the_report_stays_under_100_kilobytes_and_says_where_it_was_cut():
    long = "é " * 140
    outcomes = tuple((f"{place} {long}", False, long) for place in range(60))
    cases = [Said(f"case {place}", (1, 1), outcomes=outcomes, why=long) for place in range(40)]
    text = markdown_report(run(cases).data())
    assert len(text.encode()) < 100_000
    assert text.endswith("*Cut here for length; report.html holds the rest.*\n")


def test_there_is_no_raw_html_in_the_source():
    text = hostile_report(PAYLOADS[:9])
    assert re.findall(r"<[a-zA-Z/!]", text) == []


def test_lines_of_prompts_that_differ_are_cells_of_a_table_and_no_markup():
    now = "\n".join(("Rules", *PAYLOADS, *(f"line {place}" for place in range(90))))
    before, after = (
        with_prompts(run([Said("a", (5, 5))], run_id=run_id), tone=text)
        for run_id, text in (("before", "Rules\n- one"), ("after", now))
    )
    text = markdown_report(compared(before, after))
    assert "| baseline | \\- one |\n| candidate | &lt;script&gt;" in text
    assert "report.html shows more lines." in text
    assert re.findall(r"<[a-zA-Z/!]", text) == []
    kinds = {token.type for token in tokens(text)}
    assert kinds.isdisjoint({"link_open", "image", "html_inline", "html_block", "em_open"})
