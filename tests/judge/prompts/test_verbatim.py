"""The text of a transcript is never a template: it is sent, stored and shown unchanged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from assizes.judge.case import Case, Expected
from assizes.judge.catalog import resolve_judges
from assizes.judge.config.judging import JudgeConfig
from assizes.judge.formats import FORMATS, native_line
from assizes.judge.hearing import Hearing
from assizes.judge.rows import as_json
from assizes.tasks.reports.formatting import code, plain
from assizes.tasks.reports.render.ci import junit_report
from assizes.tasks.reports.render.html import page
from tests.builders import agent, call, case, result, user
from tests.tasks.reports.sample import Said, run

TEMPLATES = (
    "{{7*7}}", "{{ config }}", "{% for x in y %}z{% endfor %}", "{# note #}", "{0.__class__}", "{0}", "{}",
    "{case_id}", "{transcript!r:>10}", "{{{{x}}}}", "%s", "%(x)s", "%d %%", "${x}", "$x $$", "#{7*7}",
    "<%= 7*7 %>", "\\1 \\g<0>", "$1", "&&", "{date}", "{date:%Y}", "%Y-%m-%d", "@{x}", "{{x|safe}}",
    "{{''.__class__.__mro__[1].__subclasses__()}}", "{'a': 1}", "[[7*7]]", "~{x}", "$(7*7)", "`7*7`",
)  # fmt: skip


def spoken(text: str) -> Case:
    return case(
        user(f"a {text} b"),
        agent(text, calls=[call(text, **{text: text})]),
        result(text, name=text),
        agent(f"c {text} d"),
        case_id=f"id {text}",
        agent=text,
        tags={text: text},
        metadata={text: text},
        expected=Expected(outcomes=(f"holds {text}",)),
    )


def as_sent(of: Case) -> str:
    (judge,) = resolve_judges(JudgeConfig()).judges
    hearing = Hearing(judge, of)
    return "\n".join(ask.prompt.system + ask.prompt.user for ask in hearing.asks)


@pytest.mark.parametrize("text", TEMPLATES)
def test_a_template_is_sent_as_it_was_written(text: str):
    sent = as_sent(spoken(text))
    shown = (text, json.dumps(text)[1:-1])
    assert sum(sent.count(text) for text in set(shown)) >= 6
    assert as_sent(spoken("xyzzy")).count("xyzzy") >= 6


@pytest.mark.parametrize("text", TEMPLATES)
def test_a_template_is_kept_as_it_was_written(text: str):
    talk = spoken(text)
    assert FORMATS["native"].case(native_line(talk)) == talk
    assert json.loads(as_json({text: text})) == {text: text}


def test_templates_are_shown_as_they_were_written(tmp_path: Path):
    assert len(TEMPLATES) >= 30
    made = run([Said(text, (1, 2), done=False, why=text, error=None) for text in TEMPLATES])
    junit = junit_report(made.data(), made.frames["cases"].lazy())
    for text in TEMPLATES:
        shown = page("problem", {"problem_title": text, "detail": text}, None)
        escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        escaped = escaped.replace("'", "&#39;").replace('"', "&#34;")
        assert shown.count(escaped) >= 3
        assert "49" not in plain(text) + code(text)
        assert text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;") in junit
