"""The few words of the product's own, for `assizes help words` and docs/words.md.

After a change of a word: `assizes help words --markdown > docs/words.md`.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple


class Word(NamedTuple):
    """A word, what it means, and where its numbers or rows are."""

    name: str
    meaning: str
    place: str  # Markdown; a reader of the terminal sees it without the marks


INTRODUCTION: Final = (
    "These words have one meaning in every command, table, report and page of Assizes. All other "
    "words are the usual ones of the field. One sentence joins the first nine: a judge hears a case "
    "by putting asks to a model, the hearing gives scores, the scores of a case give its verdict, "
    "the verdicts of a run give its summary, and two summaries give a comparison; an anchor checks "
    "the judge."
)

WORDS: Final[Mapping[str, Sequence[Word]]] = {  # heading -> words
    "The nine words": (
        Word(
            "case",
            "One conversation of your agent with what is known about it, such as expected outcomes "
            "or expected tool calls. Conversations are also called transcripts.",
            "table `cases`; `assizes case RUN CASE`",
        ),
        Word(
            "judge",
            "What looks at a case and gives scores. Most judges ask a language model; some only "
            "count or compare.",
            "`assizes judges`; [judges](judges.md)",
        ),
        Word(
            "ask",
            "One question that a judge puts to a model, with its reply, tokens and cost. Several "
            "metrics can share one ask.",
            "table `asks`; `assizes explain RUN CASE METRIC`",
        ),
        Word(
            "hearing",
            "All that happens between one judge and one case: the asks, the replies, the scores. "
            "You meet this word when you write a judge of your own.",
            "[judges](judges.md)",
        ),
        Word(
            "score",
            "What a judge found for one metric of one case. A score is `scored` (a number), "
            "`skipped` (the metric does not apply) or `failed` (no usable reply came). It is never "
            "NaN.",
            "table `scores`",
        ),
        Word(
            "verdict",
            "Whether a case passed, what decided that, and the root cause if it failed.",
            "table `cases`: `passed`, `gate`, `root_cause`",
        ),
        Word(
            "summary",
            "The numbers of a run, such as its pass rate, mean scores, coverage and cost.",
            "`assizes show RUN`",
        ),
        Word(
            "comparison",
            "Two runs side by side, and whether the second is worse.",
            "table `comparisons`; `assizes compare`; [statistics](statistics.md)",
        ),
        Word(
            "anchor",
            "A fixed conversation that is judged again beside the runs, without cached replies. "
            "The agent in it never changes, so a change of its scores comes from the judge.",
            "`[anchors]`; [trends](trends.md)",
        ),
    ),
    "Words about a run": (
        Word(
            "run",
            "One evaluation of a set of cases. Its id is made of its name and a hash of settings, "
            "input and judges, so that the same command goes on with the same run.",
            "table `runs`; `assizes runs`",
        ),
        Word(
            "session",
            "One start of a run by a process. A run that was stopped and resumed has several.",
            "`assizes show RUN`: what all sessions spent",
        ),
        Word(
            "baseline",
            "The earlier run with which a run is compared.",
            "`[comparison] baseline`",
        ),
        Word(
            "gate",
            "A rule that decides whether a case or a run passes.",
            "`[thresholds]`; [rows](rows.md#cases)",
        ),
        Word(
            "coverage",
            "The share of the expected scores that the judges gave. A run with too little of it is "
            "`inconclusive`, whatever its other numbers are.",
            "`[thresholds] min_coverage`",
        ),
        Word(
            "rejected",
            "A record of the input that could not be read. It is counted as `quarantined`, and "
            "`assizes retry-rejected` reads it again.",
            "table `rejects`",
        ),
        Word(
            "errored",
            "A case that could not be judged, for instance because the model did not answer. "
            "`assizes resume RUN --errors` judges it anew.",
            "table `cases`: `status`, `error`",
        ),
        Word(
            "flagged",
            "A case in which a text tries to influence the judge, or is hidden. You decide whether "
            "its pass counts.",
            "table `cases`: `flags`; [judges](judges.md)",
        ),
        Word(
            "repetition",
            "One of several trials of the same case, counted from 0.",
            "column `repetition`",
        ),
        Word(
            "part",
            "What a score within a metric is about: one expected outcome, one retrieved passage, "
            "one sub-score. The score of the whole metric has an empty part.",
            "table `scores`: `part`",
        ),
        Word(
            "ledger",
            "The file in which all processes on a machine note what they spend, so that a budget "
            "also holds after a crash.",
            "`[limits] ledger`",
        ),
        Word(
            "reply cache",
            "The replies that were paid for. The same ask is never paid for twice.",
            "`[cache]`",
        ),
        Word(
            "shard, partition",
            "A shard is a piece of the input that is judged and stored at once. A partition is the "
            "group of shards that one worker judges.",
            "`[runner]`",
        ),
    ),
}

_WIDTH: Final = 80  # columns of a narrow terminal
_LINK: Final = re.compile(r"\[([^]]+)\]\(([^)]+)\)")


def words_text() -> str:
    """The page as plain text for a terminal."""
    lines = [textwrap.fill(INTRODUCTION, _WIDTH)]
    for heading, words in WORDS.items():
        lines += ["", f"{heading}:"]
        for word in words:
            place = _LINK.sub(r"\1 (docs/\2)", word.place).replace("`", "")
            texts = (word.meaning.replace("`", ""), f"See: {place}")
            wrapped = (textwrap.fill(text, _WIDTH - 6) for text in texts)
            lines += ["", f"  {word.name}", *(textwrap.indent(text, " " * 6) for text in wrapped)]
    return "\n".join(lines) + "\n"


def words_page() -> str:
    """The page as Markdown: docs/words.md."""
    lines = ["# Words", "", "`assizes help words` prints this page.", "", _filled(INTRODUCTION)]
    for heading, words in WORDS.items():
        lines += ["", f"## {heading}"]
        for word in words:
            lines += ["", f"### {word.name}", "", _filled(word.meaning), "", f"See {word.place}."]
    return "\n".join(lines) + "\n"


def _filled(text: str) -> str:
    return textwrap.fill(text, 120)
