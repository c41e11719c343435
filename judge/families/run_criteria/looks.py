"""The looks of the judge `run_criteria`: what a model is shown, and what it may reply."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict

from assizes.judge.case import Case
from assizes.judge.case_probe import StateProbe
from assizes.judge.config.judging import estimated_tokens
from assizes.judge.excerpts.run_digest import digest_text, shorten_middle
from assizes.judge.excerpts.spans import Span
from assizes.judge.prompts.prompt_texts import DATA_RULE, NOT_CAPTURED, data_section
from assizes.judge.protocol import Prompt

_TASK_CHARS: Final = 1000
_CRITERION_CHARS: Final = 400
_SETTLED_CHARS: Final = 60
_NOTES_CHARS: Final = 900
_NAMES_CHARS: Final = 500
_PROBE_CHARS: Final = 160
_DIGEST_SHARE: Final = 0.2
"""Share (0..1) of the room beside the frame that the digest of the run takes, where excerpts follow."""
_SEAMS: Final = 60
"""Tokens of the headings and the blank lines around the sections."""

Holds = Literal["yes", "no", "not_shown"]

_ROLE: Final = f"""\
You check numbered criteria against a run of one or several AI agents, and against the state that the run left. You look for the evidence yourself.

# Rules
- {DATA_RULE}
- A step is a turn, named by its number in brackets. Lines of the digest and excerpts are shortened: " ... " marks what was left out.
- holds: yes only if evidence that you have read shows it. no if evidence shows the opposite, or if you have read every place where it would have to stand. not_shown if you found no evidence either way.
- What an agent says about its own work is a claim. A tool's result or a probe is evidence of what was done; where they differ, they count.
- A criterion with several demands holds only if each of them does.
- Length, style and confidence of a text are no evidence.
- quotes: one to three texts copied letter by letter from a turn or from the result of a probe, without " ... ". A yes without a quote that stands there does not count."""

_FINDING_KEYS: Final = """\
  - criterion: its number
  - reason: one or two sentences, before everything else
  - quotes: a list of texts
  - holds: "yes", "no" or "not_shown\""""

_LAST_REPLY: Final = f"""\
# Reply
One JSON object, nothing else, with these keys in this order:
- reasoning: what the evidence shows, in two to four sentences
- findings: a list with one object for each criterion that is not settled, of these keys in this order:
{_FINDING_KEYS}"""

_LOOK_REPLY: Final = f"""\
# Reply
One JSON object, nothing else, with these keys in this order:
- reasoning: what you know and what you still must see, in two to four sentences; you are shown it again, and nothing else of this look
- findings: a list with one object for each criterion that you can settle now, [] for none, of these keys in this order:
{_FINDING_KEYS}
- search: up to 6 texts; you get the turns that hold their words, the rarer the better
- read: up to 6 spans of turns to be read in full, each an object of first and last
- tools: up to 3 names of tools whose calls and results you must see
- agents: up to 3 names of agents whose turns you must see
- probes: up to 4 looks at the state, each an object of name (of a probe that is listed) and argument (a SELECT statement, or the path of a file; "" where the probe says "fixed", or for a list of the files)
Ask for little: all that you get shares a fixed room. With every criterion settled, ask for nothing: [] each."""

SYSTEM_LAST: Final = f"{_ROLE}\n\n{_LAST_REPLY}"
"""The system message of a look that must settle every criterion."""
SYSTEM_LOOK: Final = f"{_ROLE}\n\n{_LOOK_REPLY}"
"""The system message of a look that may ask for more."""


class CriterionFinding(BaseModel):
    """What a model found about one criterion."""

    model_config = ConfigDict(extra="forbid")

    criterion: int
    reason: str
    quotes: list[str]
    holds: Holds


class ProbeRequest(BaseModel):
    """One look at the state that a run left."""

    model_config = ConfigDict(extra="forbid")

    name: str
    argument: str


class CriteriaReply(BaseModel):
    """What a reply of any look is."""

    model_config = ConfigDict(extra="forbid")

    reasoning: str
    findings: list[CriterionFinding]


class LastCriteriaLook(CriteriaReply):
    """What the model replies in its last look."""


class CriteriaLook(CriteriaReply):
    """What the model replies in a look after which it may see more."""

    search: list[str]
    read: list[Span]
    tools: list[str]
    agents: list[str]
    probes: list[ProbeRequest]

    def asks_for_more(self) -> bool:
        """Whether anything is asked for."""
        return bool(self.search or self.read or self.tools or self.agents or self.probes)


@dataclass(frozen=True, slots=True)
class RunCriteriaEvidence:
    """The facts of an ask as values, for the offline judge."""

    criteria: tuple[tuple[int, str], ...]  # those that are not settled, with their numbers from 1
    blocks: tuple[str, ...]  # the rendered turns of the run
    is_last: bool


@dataclass(frozen=True, slots=True)
class Knowledge:
    """What a hearing knows before a look."""

    criteria: tuple[str, ...]
    settled: Mapping[int, CriterionFinding] = field(
        default_factory=dict
    )  # by the number of the criterion
    notes: str = ""  # the reasoning of the look before
    excerpts: str = ""  # the answers to what that look asked for

    def open_criteria(self) -> tuple[tuple[int, str], ...]:
        """The criteria that are not settled, with their numbers from 1."""
        numbered = enumerate(self.criteria, 1)
        return tuple((number, text) for number, text in numbered if number not in self.settled)


def frame_tokens(case: Case, knowledge: Knowledge) -> int:
    """The estimated tokens of a look without the run and without excerpts."""
    texts = [*_frame(case, knowledge), *_notes(knowledge)]
    return prompt_tokens(Prompt(SYSTEM_LOOK, "\n\n".join(texts))) + _SEAMS


def whole_prompt(case: Case, knowledge: Knowledge, blocks: Sequence[str]) -> Prompt:
    """The prompt of a run that is short enough to be shown in full, in one look."""
    run = data_section("Run, in full", "\n".join(blocks))
    return Prompt(SYSTEM_LAST, "\n\n".join([*_frame(case, knowledge), run]))


def look_prompt(
    case: Case, knowledge: Knowledge, blocks: Sequence[str], most_tokens: int, *, is_last: bool
) -> Prompt:
    """The prompt of one look, of about `most_tokens` (estimated): see `digest_room`."""
    room = digest_room(case, knowledge, most_tokens, has_excerpts=bool(knowledge.excerpts))
    whole = "\n".join(blocks)
    if estimated_tokens(whole) <= room:
        run = data_section("Run, in full", whole)
    else:
        digest = digest_text(case.transcript, room)
        run = data_section("Run, one line a turn, shortened", digest)
    sections = [*_frame(case, knowledge), run, *_notes(knowledge)]
    if knowledge.excerpts:
        sections.append(data_section("What you asked for", knowledge.excerpts))
    return Prompt(SYSTEM_LAST if is_last else SYSTEM_LOOK, "\n\n".join(sections))


def digest_room(case: Case, knowledge: Knowledge, most_tokens: int, *, has_excerpts: bool) -> int:
    """The tokens of a look that its digest may take; excerpts get the rest."""
    room = max(1, most_tokens - frame_tokens(case, knowledge))
    return max(1, int(room * _DIGEST_SHARE)) if has_excerpts else room


def prompt_tokens(prompt: Prompt) -> int:
    """The estimated tokens of a prompt, without the schema of its reply."""
    return estimated_tokens(prompt.system, prompt.user)


def _frame(case: Case, knowledge: Knowledge) -> list[str]:
    """The sections that every look shows: task, criteria, and what there is to look at."""
    turns = case.transcript.turns
    task = next((turn.text for turn in turns if turn.role == "user" and turn.text), None)
    if task is None:  # agents that pass a task on among themselves
        task = next((turn.text for turn in turns if turn.text), None)
    lines = []
    for number, text in enumerate(knowledge.criteria, 1):
        finding = knowledge.settled.get(number)
        limit = _CRITERION_CHARS if finding is None else _SETTLED_CHARS
        mark = "" if finding is None else f" (settled: {finding.holds})"
        lines.append(f"{number}. {shorten_middle(' '.join(text.split()), limit)}{mark}")
    return [
        data_section("Task", shorten_middle(task or NOT_CAPTURED, _TASK_CHARS)),
        data_section("Criteria", "\n".join(lines)),
        data_section("What there is to look at", _places(case)),
    ]


def _places(case: Case) -> str:
    transcript = case.transcript
    tools = Counter(call.name for _, call in transcript.calls())
    agents = Counter(turn.agent for turn in transcript.turns if turn.agent)
    lines = [f"turns: 0 to {len(transcript.turns) - 1}"]
    for kind, names in (("tools", tools), ("agents", agents)):
        if names:
            counts = ", ".join(f"{' '.join(name.split())} x{n}" for name, n in names.most_common())
            lines.append(f"{kind}: {shorten_middle(counts, _NAMES_CHARS)}")
    return "\n".join([*lines, *(_probe_line(probe) for probe in case.expected.probes)])


def _probe_line(probe: StateProbe) -> str:
    name, about = " ".join(probe.name.split()), " ".join(probe.description.split())
    if probe.database is not None:
        use = "fixed statement" if probe.sql is not None else "a SELECT statement of yours"
    else:
        use = "fixed file" if probe.file is not None else "the path of a file"
    tail = f"; {shorten_middle(about, _PROBE_CHARS)}" if about else ""
    return f"probe {name}: {use}{tail}"


def _notes(knowledge: Knowledge) -> list[str]:
    if not knowledge.notes:
        return []
    notes = shorten_middle(knowledge.notes, _NOTES_CHARS)
    return [data_section("Your notes from the look before", notes)]
