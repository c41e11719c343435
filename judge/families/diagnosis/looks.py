"""The looks of the judge `diagnosis`: what a model is shown, and what it may reply."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pydantic import BaseModel, ConfigDict

from assizes.judge.case import Case
from assizes.judge.config.judging import estimated_tokens
from assizes.judge.evidence.failure_signs import Confidence, Owner, Sign
from assizes.judge.excerpts.run_digest import digest_text, shorten_middle, spans_text
from assizes.judge.excerpts.spans import Span
from assizes.judge.prompts.prompt_texts import (
    DATA_RULE,
    NOT_CAPTURED,
    data_section,
    numbered_list,
    rendered_transcript,
)
from assizes.judge.protocol import Prompt

_TASK_CHARS: Final = 1500
_EXPECTED_CHARS: Final = 800
_NOTES_CHARS: Final = 900
_SIGNS: Final = 5
"""Signs that a prompt shows."""
_DIGEST_SHARE: Final = 0.4
"""Share (0..1) of the room beside the frame that the digest of the run takes, where spans follow."""
_LEAST_ROOM: Final = 800
"""Tokens beside its frame without which a look is not worth its price."""
_SEAMS: Final = 60
"""Tokens of the headings and the blank lines around the sections."""

_ROLE: Final = f"""\
You find the decisive step of a run of one or several AI agents that failed at its task: the earliest step such that the run would have succeeded if this step alone had been right.

# Rules
- {DATA_RULE}
- A step is a turn, named by its number in brackets. Later steps that only pass an error on, or fail to notice it, are not decisive.
- owner: agent (it reasoned, wrote, called or reported wrongly), tool (it answered wrongly or failed on a right call), retrieval (it found nothing, or the wrong passages), user (asked for the wrong thing, or kept back what was needed), environment (an outage, a time-out, a limit).
- An error that was noticed and mended is not decisive. Neither is a step that is only clumsy.
- What a program noticed may be wrong, and may be a consequence: check it against the run.
- quotes: one to three texts copied letter by letter from the turns that show it.
- confidence: high only if you read the decisive turn and what it led to. If nothing in the run shows what went wrong, decisive_turn is null."""

_VERDICT_KEYS: Final = """\
- reasoning: how the failure came about, in two to four sentences, before everything else{read}
- decisive_turn: the number of the turn, or null
- owner: "agent", "tool", "retrieval", "user" or "environment"; null if decisive_turn is null
- should_have: one sentence, what would have had to happen in that turn; else ""
- quotes: a list of texts
- confidence: "high", "medium" or "low\""""

_REPLY: Final = "# Reply\nOne JSON object, nothing else, with these keys in this order:\n"
_READ_KEY: Final = """
- read: spans of turns that you must read in full before you can tell, each an object of first and last; [] if you can tell now. You may ask for up to 6, and get them once. With spans, decisive_turn is null"""

SYSTEM_LAST: Final = f"{_ROLE}\n\n{_REPLY}{_VERDICT_KEYS.format(read='')}"
"""The system message of a look that must end in an answer."""
SYSTEM_LOOK: Final = f"{_ROLE}\n\n{_REPLY}{_VERDICT_KEYS.format(read=_READ_KEY)}"
"""The system message of a look that may ask for spans."""


class DiagnosisReply(BaseModel):
    """What a reply of any look is."""

    model_config = ConfigDict(extra="forbid")


class LastLook(DiagnosisReply):
    """What the model replies in its last look."""

    reasoning: str
    decisive_turn: int | None
    owner: Owner | None
    should_have: str
    quotes: list[str]
    confidence: Confidence


class Look(DiagnosisReply):
    """What the model replies in a look after which it may read spans."""

    reasoning: str
    read: list[Span]
    decisive_turn: int | None
    owner: Owner | None
    should_have: str
    quotes: list[str]
    confidence: Confidence


class ProgramAnswer(LastLook):
    """What the offline judge replies: the answer of the rules, with the name of the rule."""

    rule: str


@dataclass(frozen=True, slots=True)
class DiagnosisEvidence:
    """The facts of the judge's ask: what the rules saw, the best sign first."""

    signs: tuple[Sign, ...]


@dataclass(frozen=True, slots=True)
class Reading:
    """What a look shows of a run."""

    spans: tuple[range, ...] = ()  # that the look before asked for
    notes: str = ""  # the reasoning of that look


def whole_prompt(case: Case, signs: Sequence[Sign]) -> Prompt:
    """The prompt of a run that is short enough to be shown in full."""
    sections = [
        *_frame(case, signs),
        data_section("Run, in full", rendered_transcript(case.transcript)),
    ]
    return Prompt(SYSTEM_LAST, "\n\n".join(sections))


def look_prompt(
    case: Case, signs: Sequence[Sign], reading: Reading, most_tokens: int, *, is_last: bool
) -> Prompt:
    """The prompt of one look, of at most `most_tokens` (estimated); see `look_count`."""
    system = SYSTEM_LAST if is_last else SYSTEM_LOOK
    frame = _frame(case, signs)
    room = most_tokens - prompt_tokens(Prompt(system, "\n\n".join(frame))) - _SEAMS
    share = _DIGEST_SHARE if reading.spans else 1
    digest = digest_text(case.transcript, max(1, int(room * share)))
    sections = [*frame, data_section("Run, one line a turn, shortened", digest)]
    if reading.notes:
        notes = shorten_middle(reading.notes, _NOTES_CHARS)
        sections.append(data_section("Your notes from the look before", notes))
    if reading.spans:
        left = room - estimated_tokens(*sections[len(frame) :])
        turns = [turn for span in reading.spans for turn in span]
        spans = spans_text(case.transcript, turns, max(0, left))
        sections.append(data_section("Turns that you asked for", spans or NOT_CAPTURED))
    return Prompt(system, "\n\n".join(sections))


def look_count(case: Case, signs: Sequence[Sign], looks: int, budget: int) -> int:
    """How many looks, at most `looks` and at least one, the tokens of a budget are enough for."""
    frame = prompt_tokens(Prompt(SYSTEM_LOOK, "\n\n".join(_frame(case, signs))))
    return max(1, min(looks, budget // (frame + _LEAST_ROOM)))


def prompt_tokens(prompt: Prompt) -> int:
    """The estimated tokens of a prompt, without the schema of its reply."""
    return estimated_tokens(prompt.system, prompt.user)


def _frame(case: Case, signs: Sequence[Sign]) -> list[str]:
    """The sections that every look shows: the task, what was expected, what a program noticed."""
    turns = case.transcript.turns
    task = next((turn.text for turn in turns if turn.role == "user" and turn.text), None)
    if task is None:  # agents that pass a task on among themselves
        task = next((turn.text for turn in turns if turn.text), None)
    sections = [data_section("Task", shorten_middle(task or NOT_CAPTURED, _TASK_CHARS))]
    expected = case.expected
    due = [*([expected.response] if expected.response else expected.facts), *expected.outcomes]
    if due:
        text = shorten_middle(numbered_list(due), _EXPECTED_CHARS)
        sections.append(data_section("What was expected", text))
    if lines := [_sign_line(sign) for sign in signs if sign.confidence != "guess"][:_SIGNS]:
        sections.append(data_section("What a program noticed", "\n".join(lines)))
    return sections


def _sign_line(sign: Sign) -> str:
    quotes = "; ".join(
        f'[{quote.turn}] "{shorten_middle(quote.text, 120)}"' for quote in sign.quotes
    )
    return f"- turn {sign.turn}, {sign.owner}: {shorten_middle(sign.reason, 200)} {quotes}".rstrip()
