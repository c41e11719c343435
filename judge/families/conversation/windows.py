"""Conversations that are longer than a judge can read: shortened results, then windows of turns.

Nothing is left out silently: every cut is marked where it was made, and every score of such a case
says `truncated_input` in its details, how much was cut and in how many windows it was read.
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
"""Where the details of a score say what its judge did not see at once."""

AT_THE_END: Final = ("task_completion",)
"""Metrics of the whole: the last window decides, which is told what the earlier ones showed. All
others are as good as in their worst window."""

_RESULT_CHARS: Final = (16_000, 8_000, 4_000, 2_000, 1_000, 500)
_TEXT_CHARS: Final = (16_000, 4_000, 1_000)
_LEAST_TOKENS: Final = 500
_FINDINGS: Final = 4
"""One part in so many of a window's room is for what the windows before showed."""
_FINDING_CHARS: Final = (400, 200, 100, 50)
_MARK_TOKENS: Final = 5


class ReadingOptions(JudgeOptions):
    """[judge.options.conversation]: how much of a conversation is read at once."""

    context_tokens: int | None = Field(
        default=None, ge=1000, description="of one prompt, estimated; null: a prompt holds it all"
    )
    window_overlap: int = Field(
        default=2, ge=0, le=50, description="turns that a window repeats of the one before"
    )


@dataclass(frozen=True, slots=True)
class TranscriptView:
    """A transcript as it is read.

    Attributes:
        transcript: with what had to be cut in it.
        windows: ranges of turns, in order; one where a single prompt holds it all.
        cut_chars: of results and texts.
        findings_tokens: how much a window is told at most of what those before it showed.
    """

    transcript: Transcript
    windows: tuple[range, ...]
    cut_chars: int = 0
    findings_tokens: int = 0

    @property
    def truncation(self) -> dict[str, Any] | None:
        """What scores say of it; null where all was read at once."""
        if len(self.windows) <= 1 and not self.cut_chars:
            return None
        return {"windows": len(self.windows), "cut_chars": self.cut_chars}


def transcript_view(
    transcript: Transcript, options: ReadingOptions, around_tokens: int
) -> TranscriptView:
    """The transcript whole where it fits; else with its tool results shortened; else in windows.

    Args:
        transcript: at least one turn.
        options: how many tokens a prompt may have.
        around_tokens: what is in every prompt beside the transcript.
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
    findings = free_tokens // _FINDINGS
    free_tokens -= findings
    read, cut_texts, sizes = short, 0, _sizes(short)
    for most in _TEXT_CHARS:
        if max(sizes) <= free_tokens:
            break
        read, cut_texts = _shorten_turns(short, most, _with_short_text)
        sizes = _sizes(read)
    windows = _windows(sizes, free_tokens, options.window_overlap)
    return TranscriptView(read, windows, cut + cut_texts, findings)


def reduce_windows(
    metrics: Sequence[Metric], window_scores: Sequence[Sequence[Score]]
) -> list[Score]:
    """One score a metric from the scores of each window; the outcomes of the last.

    A metric that a window could not score is not scored: the others may have missed the fault.
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


def findings_so_far(seen: TranscriptView, window_scores: Sequence[Sequence[Score]]) -> str:
    """What the windows before showed, for the judge of the next one, in at most as many tokens as
    there is room for: where they are too many, of each metric and outcome the worst and the last
    finding, and of these as much as fits.
    """
    pairs = list(zip(seen.windows, window_scores, strict=False))
    if not pairs:
        return ""
    lines = []
    for window, scores in pairs:
        lines.append(f"{_turns(window)}:")
        lines += [_finding(score) for score in scores]
    text = "\n".join(lines)
    for most in _FINDING_CHARS:
        if estimated_tokens(text) <= seen.findings_tokens:
            return text
        text = "\n".join(_worst_and_last(pairs, most))
    return _fit_tokens(text, seen.findings_tokens)


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


def _fit_tokens(text: str, most_tokens: int) -> str:
    tokens = estimated_tokens(text)
    if tokens <= most_tokens:
        return text
    return _cut_text(text, max(0, len(text) * (most_tokens - _MARK_TOKENS) // tokens))


def shorten_text(text: str, most: int) -> str:
    """The beginning and the end of a text with a mark between them that says how much is not there."""
    if len(text) <= most:
        return text
    left_out = len(text) - most
    head, tail = text[: most // 2], text[len(text) - (most - most // 2) :]
    return f"{head}\n[... {left_out} characters left out here by the evaluation ...]\n{tail}"


def _sizes(transcript: Transcript) -> list[int]:
    """How many tokens each turn is."""
    return [estimated_tokens(block) for block in rendered_turns(transcript)]


def _windows(sizes: Sequence[int], free_tokens: int, overlap: int) -> tuple[range, ...]:
    """As few as fit, each taking up some turns before the end of the last; at least one turn new."""
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
    transcript: Transcript, most: int, made: Callable[[Turn, int], tuple[Turn, int]]
) -> tuple[Transcript, int]:
    """The transcript with its turns made shorter, and how many characters that cut."""
    pairs = [made(turn, most) for turn in transcript.turns]
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
