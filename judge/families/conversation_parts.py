"""The parts in which the conversation judge reads and scores: windows of turns, and a checklist.

A conversation longer than one prompt has its tool results shortened, then its turns split into
windows. Every cut is marked, and every score of such a case has `truncated_input` in its details.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, Final

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from assizes.judge.case import Transcript
from assizes.judge.config.judging import estimated_tokens
from assizes.judge.families.entry import JudgeOptions
from assizes.judge.prompts.prompt_texts import neutralise, rendered_transcript, rendered_turns
from assizes.judge.prompts.reply import WHOLE
from assizes.judge.rubrics.rubric import OUTCOMES
from assizes.judge.score import Metric, Scale, Score

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
        default=None,
        ge=1000,
        description="The most estimated tokens of one prompt. Longer conversations are read in "
        "windows. Not set: one prompt holds the whole conversation.",
    )
    window_overlap: int = Field(
        default=2,
        ge=0,
        le=50,
        description="The number of turns that a window repeats of the one before.",
    )
    codebook: str | None = Field(
        default=None,
        description="A TOML file of failure codes, as `assizes causes codebook` writes it. The judge "
        "gives these codes alone, or `other`. Not set: it makes up its own.",
    )


@dataclass(frozen=True, slots=True)
class TranscriptView:
    """A transcript as the prompts show it, its long texts cut."""

    transcript: Transcript
    windows: tuple[range, ...]  # turns of each prompt, in order; one range: all in one prompt
    cut_chars: int = 0  # left out in all
    findings_tokens: int = 0  # the most for earlier findings in a prompt


def transcript_view(
    transcript: Transcript, options: ReadingOptions, around_tokens: int
) -> TranscriptView:
    """The whole transcript where it fits; else with shortened tool results; else in windows."""
    whole = range(len(transcript.turns))
    if options.context_tokens is None:
        return TranscriptView(transcript, (whole,))
    # `around_tokens`, the rest of a prompt, could leave nothing for the transcript, or less.
    free_tokens = max(_LEAST_TOKENS, options.context_tokens - around_tokens)
    if estimated_tokens(rendered_transcript(transcript)) <= free_tokens:
        return TranscriptView(transcript, (whole,))
    short, cut = transcript, 0
    for most in _RESULT_CHARS:
        # Always from the original: a cut of a cut text would hide its mark and count twice.
        short, cut = _shorten_turns(transcript, most, results=True)
        if estimated_tokens(rendered_transcript(short)) <= free_tokens:
            return TranscriptView(short, (whole,), cut)
    findings_tokens = free_tokens // _FINDINGS_PART
    free_tokens -= findings_tokens
    read, cut_texts, sizes = short, 0, _sizes(short)
    for most in _TEXT_CHARS:
        if max(sizes) <= free_tokens:
            break
        read, cut_texts = _shorten_turns(short, most, results=False)
        sizes = _sizes(read)
    windows = _windows(sizes, free_tokens, options.window_overlap)
    return TranscriptView(read, windows, cut + cut_texts, findings_tokens)


def reduce_windows(
    metrics: Sequence[Metric], window_scores: Sequence[Sequence[Score]]
) -> list[Score]:
    """One score for each metric from the scores of all windows; the outcomes of the last window."""
    names = [metric.name for metric in metrics]
    scores = []
    for name in names:
        of_metric = [score for each in window_scores for score in each if score.metric == name]
        unscored = [score for score in of_metric if score.status != "scored"]
        if unscored:  # the fault may stand in this very window
            scores.append(unscored[0])
        elif name in AT_THE_END:  # it knows the findings of all before
            scores.append(of_metric[-1])
        else:  # the worst window, the first of equal ones
            scores.append(min(of_metric, key=lambda score: score.raw or 0.0))
    return [*scores, *(score for score in window_scores[-1] if score.metric not in names)]


def findings_so_far(view: TranscriptView, window_scores: Sequence[Sequence[Score]]) -> str:
    """The findings in the windows already judged, as text for the prompt of the next window."""
    pairs = list(zip(view.windows, window_scores, strict=False))  # the windows judged so far
    text = "\n".join(
        "\n".join([f"{_turns(window)}:", *map(_finding, scores)]) for window, scores in pairs
    )
    # What is too long is reduced to the worst and the last finding of each metric, ever shorter.
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
    # (metric, part) -> its findings in the order of the windows
    by_name: dict[tuple[str, str], list[tuple[range, Score]]] = {}
    for window, scores in pairs:
        for score in scores:
            by_name.setdefault((score.metric, score.part), []).append((window, score))
    yield f"{_turns(range(pairs[-1][0].stop))}, of each the worst and the last finding:"
    for of_name in by_name.values():
        # A window without a value counts as the worst: what was not judged may be as bad as any.
        worst = min(of_name, key=lambda pair: -1.0 if pair[1].value is None else pair[1].value)
        # Both may be one finding, which is shown once.
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
    """As few windows as fit, each with a new turn and up to `overlap` turns of the one before."""
    count = len(sizes)
    up_to = [0, *itertools.accumulate(sizes)]  # up_to[i]: tokens of the turns before i
    windows: list[range] = []
    stop = 0
    while stop < count:
        start = max(0, stop - overlap)
        # The overlap gives way to the first new turn; a turn too long for a window stands alone.
        while start < stop and up_to[stop + 1] - up_to[start] > free_tokens:
            start += 1
        stop += 1
        while stop < count and up_to[stop + 1] - up_to[start] <= free_tokens:
            stop += 1
        windows.append(range(start, stop))
    return tuple(windows)


def _shorten_turns(
    transcript: Transcript, most_chars: int, *, results: bool
) -> tuple[Transcript, int]:
    """The transcript with long tool results, or else texts, shortened; how much was cut."""
    turns, cut = list(transcript.turns), 0
    for place, turn in enumerate(transcript.turns):
        result = turn.tool_result
        if results and result is not None and len(result.content) > most_chars:
            content = shorten_text(result.content, most_chars)
            short = result.model_copy(update={"content": content})
            turns[place] = turn.model_copy(update={"tool_result": short})
            cut += len(result.content) - most_chars
        elif not results and turn.text and len(turn.text) > most_chars:
            text = shorten_text(turn.text, most_chars)
            turns[place] = turn.model_copy(update={"text": text})
            cut += len(turn.text) - most_chars
    return transcript.model_copy(update={"turns": tuple(turns)}), cut


EXPECTED_OUTCOMES: Final = Metric(
    name=OUTCOMES,
    scale=Scale.FRACTION,
    display_name="Expected Outcomes",
    description="Share of the case's expected outcomes that hold; one part for each statement.",
    needs=("expected.outcomes",),
    needs_ground_truth=True,
)
"""The metric of the whole checklist: it has no weight, and it gates the case."""

NOT_EVALUATED: Final = "not evaluated"
"""Justification of a statement without a finding."""


class ConversationReplyPart(BaseModel):
    """A part of the conversation judge's reply: no keys but those asked for."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, protected_namespaces=())


def require_all(schema: dict[str, Any]) -> None:
    """Make every key required in the schema for a model; a reply without a key is still used."""
    for name in schema["properties"]:
        schema["properties"][name].pop("default", None)
    schema["required"] = list(schema["properties"])


class OutcomeFinding(ConversationReplyPart):
    """What the model replies for one expected outcome; `number` is its place in the list, from 1.

    The statement is copied so that a model which counts otherwise is found out.
    """

    model_config = ConfigDict(json_schema_extra=require_all)

    # `None` and empty: the model left it out, or wrote what cannot be read.
    number: Annotated[int | None, WithJsonSchema({"type": "integer"})] = None
    statement: str = ""
    justification: str = ""
    passed: Annotated[bool | None, WithJsonSchema({"type": "boolean"})] = None


_TRUTHS: Final = dict.fromkeys(("true", "yes", "pass", "passed", "1"), True) | dict.fromkeys(
    ("false", "no", "fail", "failed", "0"), False
)


def _readable_entry(value: Any) -> dict[str, Any]:
    entry = value if isinstance(value, dict) else {}
    number, passed = entry.get("number"), str(entry.get("passed")).strip().casefold()
    return {
        **entry,
        **{name: str(entry.get(name) or "") for name in ("statement", "justification")},
        "number": number if WHOLE.fullmatch(str(number)) else None,
        "passed": _TRUTHS.get(passed),
    }


OutcomeFindings = Annotated[
    list[OutcomeFinding],
    BeforeValidator(lambda v: [*map(_readable_entry, v)] if isinstance(v, list) else []),
]
"""The findings of a reply, each with what can be read of it, at no cost of other scores."""


@dataclass(frozen=True, slots=True)
class _AlignedFindings:
    """The findings in the order of the case's statements."""

    findings: tuple[OutcomeFinding | None, ...]  # `None`: none that counts
    doubled: tuple[int, ...]  # numbers judged more than once
    ignored: tuple[str, ...]  # why findings were not counted, as sentences


def outcome_doubts(statements: Sequence[str], findings: Sequence[OutcomeFinding]) -> list[str]:
    """Reasons to ask once more: statements without a finding, or with more than one."""
    aligned = _align_findings(statements, findings)
    missing = [number for number, finding in enumerate(aligned.findings, 1) if finding is None]
    faults = {"no entry that counts": missing, "more than one entry": aligned.doubled}
    doubts = [
        f"{OUTCOMES} has {fault} for number {', '.join(map(str, numbers))}"
        for fault, numbers in faults.items()
        if numbers
    ]
    # Entries that were ignored are no reason to pay for a second ask where each statement has one.
    return [*doubts, *aligned.ignored] if doubts else []


def outcome_scores(statements: Sequence[str], findings: Sequence[OutcomeFinding]) -> list[Score]:
    """The headline score, and a part for each statement in the order of the case."""
    if not statements:
        return [Score.skipped(OUTCOMES, "no expected outcomes defined")]
    aligned = _align_findings(statements, findings)
    warned: dict[str, Any] = {"warnings": list(aligned.ignored)} if aligned.ignored else {}
    if not any(aligned.findings):  # the overall score decides then (decision 11)
        reason = "the judge evaluated none of the expected outcomes"
        return [Score.failed(OUTCOMES, reason, "no_outcomes").with_details(**warned)]
    parts = []
    for place, (statement, finding) in enumerate(zip(statements, aligned.findings, strict=True)):
        part, details = f"outcome:{place}", {"statement": statement}
        if finding is None:  # asked for twice: it counts as not passed
            details["justification"] = NOT_EVALUATED
            parts.append(Score.failed(OUTCOMES, NOT_EVALUATED, "missing_outcome", part, **details))
            continue
        passed, share = finding.passed, float(finding.passed is True)
        details["justification"] = finding.justification
        label = "pass" if passed else "fail"
        parts.append(Score(OUTCOMES, part, "scored", share, share, label, passed, details=details))
    values = [part.raw or 0.0 for part in parts]
    share = round(math.fsum(values) / len(values), 9)
    headline = Score.of(EXPECTED_OUTCOMES, share, passed=all(values), details=warned)
    return [headline, *parts]


def _align_findings(
    statements: Sequence[str], findings: Sequence[OutcomeFinding]
) -> _AlignedFindings:
    if any(finding.number == 0 for finding in findings):
        # Where one number counts from 0, every other number may be off by one as well.
        numbering = f"{OUTCOMES} is numbered from 0, the statements from 1"
        return _AlignedFindings((None,) * len(statements), (), (numbering,))
    # By number where there is one: models reorder and reword statements (decision 27).
    by_number: dict[int, list[OutcomeFinding]] = {}
    ignored: list[str] = []
    keys = [_statement_key(statement) for statement in statements]
    for finding in findings:
        number = _statement_number(keys, finding)
        if isinstance(number, str):
            ignored.append(f"ignored an entry of {OUTCOMES}: {number}")
        else:
            by_number.setdefault(number, []).append(finding)
    doubled = tuple(sorted(number for number, entries in by_number.items() if len(entries) > 1))
    # The first finding of a statement counts, unless another finding says the opposite.
    agreed = {
        number: entries[0]
        for number, entries in by_number.items()
        if len({finding.passed for finding in entries}) == 1
    }
    ignored += [
        f"{OUTCOMES} {number} is judged more than once, "
        f"with {'the same result' if number in agreed else 'different results'}"
        for number in doubled
    ]
    in_order = tuple(agreed.get(number) for number in range(1, len(statements) + 1))
    return _AlignedFindings(in_order, doubled, tuple(ignored))


@lru_cache(maxsize=256)  # looked for in a reply's doubts, and again for its scores
def _statement_key(text: str) -> str:
    # The model copies what its prompt showed, with look-alikes of delimiters broken.
    return " ".join(neutralise(text).casefold().split()).strip(" .\"'")


def _statement_number(keys: Sequence[str], finding: OutcomeFinding) -> int | str:
    """The number, from 1, of the expected outcome that a model's finding judges.

    `keys` are the words of the expected outcomes in order, each made by `_statement_key`. The
    finding's own number decides, unless its words are those of another outcome. Without a number
    its words decide, if exactly one outcome has them. A text says why the finding does not count.
    """
    number, key = finding.number, _statement_key(finding.statement)
    if finding.passed is None:
        return "it does not say whether the outcome passed"
    if number is None:
        if keys.count(key) == 1:
            return keys.index(key) + 1
        return "it has neither a number nor the words of one statement"
    if not 1 <= number <= len(keys):
        return f"number {str(number)[:20]} is not among 1 to {len(keys)}"
    if key == keys[number - 1] or key not in keys:  # a reworded copy is fine
        return number
    return f"number {number} has the words of {keys.index(key) + 1}"
