"""Conversations longer than one prompt: tool results are shortened, then turns split into windows.

Nothing is left out silently. Every cut is marked where it was made, and every score of such a case
holds `truncated_input` in its details: the numbers of characters cut and of windows read.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pydantic import Field

from assizes.judge.case import Transcript, Turn
from assizes.judge.config.prices import estimated_tokens
from assizes.judge.families.entry import JudgeOptions
from assizes.judge.prompts.sections import rendered_transcript, rendered_turns
from assizes.judge.score import Metric, Score

TRUNCATED: Final = "truncated_input"
"""Key in the details of a score: how the transcript was cut and split for the judge."""

AT_THE_END: Final = ("task_completion",)
"""Metrics of the conversation as a whole: the last window gives the score, because its prompt holds
the findings of all windows before. Every other metric takes the score of its worst window."""

_RESULT_CHARS: Final = (16_000, 8_000, 4_000, 2_000, 1_000, 500)
"""Lengths in characters to which tool results are cut, tried in this order."""
_TEXT_CHARS: Final = (16_000, 4_000, 1_000)
"""Lengths in characters to which the texts of turns are cut, tried in this order."""
_LEAST_TOKENS: Final = 500
"""Tokens that a prompt has for the transcript at the least, whatever else it holds."""
_FINDINGS_PART: Final = 4
"""One part in four of the tokens of a window is reserved for the findings in the windows before."""
_FINDING_CHARS: Final = (400, 200, 100, 50)
"""Lengths in characters to which findings are cut, tried in this order."""
_MARK_TOKENS: Final = 5
"""Tokens of the mark at the end of a cut text."""


class ReadingOptions(JudgeOptions):
    """The table [judge.options.conversation]: how much of a conversation one prompt holds."""

    context_tokens: int | None = Field(
        default=None, ge=1000, description="of one prompt, estimated; null: a prompt holds it all"
    )
    window_overlap: int = Field(
        default=2, ge=0, le=50, description="turns that a window repeats of the one before"
    )


@dataclass(frozen=True, slots=True)
class TranscriptView:
    """A transcript as the prompts show it.

    Attributes:
        transcript: the transcript, its long texts cut where necessary.
        windows: ranges of turns in order; one range where a single prompt holds all turns.
        cut_chars: how many characters of tool results and texts were cut.
        findings_tokens: the most tokens of earlier findings in the prompt of a window.
    """

    transcript: Transcript
    windows: tuple[range, ...]
    cut_chars: int = 0
    findings_tokens: int = 0

    @property
    def truncation(self) -> dict[str, Any] | None:
        """The detail `truncated_input` of scores; `None` where one prompt held everything."""
        if len(self.windows) <= 1 and not self.cut_chars:
            return None
        return {"windows": len(self.windows), "cut_chars": self.cut_chars}


def transcript_view(
    transcript: Transcript, options: ReadingOptions, around_tokens: int
) -> TranscriptView:
    """The whole transcript where it fits; else with shortened tool results; else in windows.

    Args:
        transcript: a transcript of at least one turn.
        options: how many tokens a prompt may have.
        around_tokens: the tokens of a prompt without the transcript.
    """
    whole = range(len(transcript.turns))
    if options.context_tokens is None:
        return TranscriptView(transcript, (whole,))
    free_tokens = max(_LEAST_TOKENS, options.context_tokens - around_tokens)
    if estimated_tokens(rendered_transcript(transcript)) <= free_tokens:
        return TranscriptView(transcript, (whole,))
    short, cut = transcript, 0
    for most in _RESULT_CHARS:
        short, cut = _shorten_turns(transcript, most, _with_short_result)
        if estimated_tokens(rendered_transcript(short)) <= free_tokens:
            return TranscriptView(short, (whole,), cut)
    findings_tokens = free_tokens // _FINDINGS_PART
    free_tokens -= findings_tokens
    read, cut_texts, sizes = short, 0, _sizes(short)
    for most in _TEXT_CHARS:
        if max(sizes) <= free_tokens:
            break
        read, cut_texts = _shorten_turns(short, most, _with_short_text)
        sizes = _sizes(read)
    windows = _windows(sizes, free_tokens, options.window_overlap)
    return TranscriptView(read, windows, cut + cut_texts, findings_tokens)


def reduce_windows(
    metrics: Sequence[Metric], window_scores: Sequence[Sequence[Score]]
) -> list[Score]:
    """One score for each metric from the scores of all windows; the outcomes of the last window.

    A metric that one window could not score is not scored: the fault may stand in that window.
    """
    last = {score.metric: score for score in window_scores[-1] if not score.part}
    other_scores = [
        score
        for score in window_scores[-1]
        if score.metric not in {metric.name for metric in metrics}
    ]
    scores = []
    for metric in metrics:
        of_metric = [
            score for each in window_scores for score in each if score.metric == metric.name
        ]
        unscored = [score for score in of_metric if score.status != "scored"]
        if unscored:
            scores.append(unscored[0])
        elif metric.name in AT_THE_END:
            scores.append(last[metric.name])
        else:
            scores.append(min(of_metric, key=lambda score: score.raw or 0.0))
    return [*scores, *other_scores]


def findings_so_far(view: TranscriptView, window_scores: Sequence[Sequence[Score]]) -> str:
    """The findings in the windows already judged, as text for the prompt of the next window.

    The text has at most `view.findings_tokens` tokens. Where all findings are longer than that,
    only the worst and the last finding of each metric and outcome remain, each cut to fit.
    """
    pairs = list(zip(view.windows, window_scores, strict=False))
    if not pairs:
        return ""
    lines = []
    for window, scores in pairs:
        lines.append(f"{_turns(window)}:")
        lines += [_finding(score) for score in scores]
    text = "\n".join(lines)
    for most in _FINDING_CHARS:
        if estimated_tokens(text) <= view.findings_tokens:
            return text
        text = "\n".join(_worst_and_last(pairs, most))
    tokens = estimated_tokens(text)
    if tokens <= view.findings_tokens:
        return text
    return _cut_text(text, max(0, len(text) * (view.findings_tokens - _MARK_TOKENS) // tokens))


def _worst_and_last(
    pairs: Sequence[tuple[range, Sequence[Score]]], most_chars: int
) -> Iterator[str]:
    by_name: dict[tuple[str, str], list[tuple[range, Score]]] = {}
    for window, scores in pairs:
        for score in scores:
            by_name.setdefault((score.metric, score.part), []).append((window, score))
    yield f"{_turns(range(pairs[-1][0].stop))}, of each the worst and the last finding:"
    for of_name in by_name.values():
        worst = min(of_name, key=lambda pair: -1.0 if pair[1].value is None else pair[1].value)
        for window, score in [worst, of_name[-1]][worst is of_name[-1] :]:
            yield f"{_cut_text(_finding(score), most_chars)} ({_turns(window)})"


def _turns(window: range) -> str:
    return f"Turns {window.start} to {window.stop - 1}"


def _finding(score: Score) -> str:
    name = score.details.get("statement", score.metric) if score.part else score.metric
    justification = score.details.get("justification") or score.reason or ""
    shown = score.label or {True: "passed", False: "failed", None: ""}[score.passed]
    return f"- {name}: {shown}. {justification}"


def _cut_text(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]} [...]"


def shorten_text(text: str, most: int) -> str:
    """The first and the last half of `most` characters, with a mark of how many were left out."""
    if len(text) <= most:
        return text
    left_out = len(text) - most
    head, tail = text[: most // 2], text[len(text) - (most - most // 2) :]
    return f"{head}\n[... {left_out} characters left out here by the evaluation ...]\n{tail}"


def _sizes(transcript: Transcript) -> list[int]:
    """The estimated tokens of each turn."""
    return [estimated_tokens(block) for block in rendered_turns(transcript)]


def _windows(sizes: Sequence[int], free_tokens: int, overlap: int) -> tuple[range, ...]:
    """As few windows as fit, each with at least one new turn.

    A window begins up to `overlap` turns before the end of the window before, as far as they fit.
    """
    count = len(sizes)
    up_to = [0, *itertools.accumulate(sizes)]
    windows: list[range] = []
    stop = 0
    while stop < count:
        start = max(0, stop - overlap)
        while start < stop and up_to[stop + 1] - up_to[start] > free_tokens:
            start += 1
        stop += 1
        while stop < count and up_to[stop + 1] - up_to[start] <= free_tokens:
            stop += 1
        windows.append(range(start, stop))
    return tuple(windows)


def _shorten_turns(
    transcript: Transcript, most: int, shorten: Callable[[Turn, int], tuple[Turn, int]]
) -> tuple[Transcript, int]:
    """The transcript with every turn shortened, and how many characters were cut."""
    pairs = [shorten(turn, most) for turn in transcript.turns]
    turns = tuple(turn for turn, _ in pairs)
    return transcript.model_copy(update={"turns": turns}), sum(cut for _, cut in pairs)


def _with_short_result(turn: Turn, most: int) -> tuple[Turn, int]:
    result = turn.tool_result
    if result is None or len(result.content) <= most:
        return turn, 0
    short = result.model_copy(update={"content": shorten_text(result.content, most)})
    return turn.model_copy(update={"tool_result": short}), len(result.content) - most


def _with_short_text(turn: Turn, most: int) -> tuple[Turn, int]:
    text = turn.text or ""
    if len(text) <= most:
        return turn, 0
    return turn.model_copy(update={"text": shorten_text(text, most)}), len(text) - most
