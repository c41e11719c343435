"""Who proposes guidelines: a protocol, a proposer that asks a model, and what a proposal may hold.

A proposer yields its questions as a judge does, so that they go through the same cache, ledger,
budget and limits. An optimiser of somebody else is a function `ProposalTask -> guidelines`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from assizes.judge.alignment.labelled_cases import LabelledCase
from assizes.judge.case import Case, Transcript, Turn
from assizes.judge.errors import ConfigurationError
from assizes.judge.injection.families import flags
from assizes.judge.privacy.secret_masking import mask
from assizes.judge.prompts.prompt_texts import DATA_RULE, data_section
from assizes.judge.protocol import Prompt, Steps, ask
from assizes.judge.rubrics.guidance import TEXT_CHARS, TITLE_CHARS, Guideline
from assizes.judge.score import Metric, Score

MAX_WRONG: Final = 30
"""The most cases on which judge and people differ that a proposer is shown."""

MAX_RIGHT: Final = 10
"""The most cases on which judge and people agree that a proposer is shown."""

REASON_CHARS: Final = 600
"""The most characters of the judge's reason, and of a note, that a proposer is shown."""

COPIED_WORDS: Final = 8
"""So many words in a row that stand in a case make a guideline a copy of that case."""

PROPOSER: Final = "align"
"""The name under which the asks of proposers are made and charged."""

_GUIDELINES: Final = Metric("guidelines")
_IDENTIFIER: Final = re.compile(r"#?\b(?=\w*\d)(?=\w*[A-Za-z])\w{5,}\b|\b\d{5,}\b|\S+@\S+\.\S+")

_SYSTEM: Final = f"""\
You improve the rubric of a judge. People and the judge looked at the same cases, and said otherwise in some.

# Rules
- Find what the judge gets wrong again and again, and write guidelines that put it right.
- A guideline is general: it holds for cases that nobody has seen. It names no case, person, number or identifier, and says of no single case how it is judged.
- Do not touch what the judge already gets right. Few guidelines are better than many; none is a good answer where the errors have nothing in common.
- {DATA_RULE}

# Reply
One JSON object, nothing else, with the key guidelines: a list of objects, each with these keys in this order:
- cases: numbers of the wrong cases that the guideline rests on
- title: at most {TITLE_CHARS} characters
- text: one to three sentences to the judge, at most {TEXT_CHARS} characters"""


@dataclass(frozen=True, slots=True)
class ProposalTask:
    """What a proposer may see; no held-out case is among it."""

    metric: str
    rubric: str  # the text that the judge reads
    wrong: tuple[LabelledCase, ...]  # people say otherwise
    right: tuple[LabelledCase, ...]  # people say the same
    most: int  # guidelines that may be proposed


class Proposer(Protocol):
    """Distils guidelines from the cases on which a judge and people differ."""

    @property
    def name(self) -> str:
        """The model, or `module:function`."""

    def propose(self, task: ProposalTask) -> Sequence[Guideline] | Steps[Sequence[Guideline]]:
        """The guidelines, or a generator that yields asks and returns the guidelines."""


class GuidelineReply(BaseModel):
    """One guideline as a model replies it."""

    model_config = ConfigDict(extra="forbid")

    cases: list[int]
    title: str
    text: str


class GuidelinesReply(BaseModel):
    """What a proposing model replies."""

    model_config = ConfigDict(extra="forbid")

    guidelines: list[GuidelineReply] = Field(max_length=50)


class ModelProposer:
    """Asks a language model once for guidelines."""

    def __init__(self, name: str) -> None:
        """Keep the name of the model that answers."""
        self.name = name

    def propose(self, task: ProposalTask) -> Steps[Sequence[Guideline]]:
        """One ask with the rubric and the cases as data; a text that is too long is cut."""
        reply = yield from ask(proposal_prompt(task), GuidelinesReply)
        ids = [item.case.case_id for item in task.wrong]
        return [
            Guideline(
                title=item.title.strip()[:TITLE_CHARS] or "Guideline",
                text=item.text.strip()[:TEXT_CHARS],
                rests_on=[ids[case - 1] for case in item.cases[:50] if 0 < case <= len(ids)],
            )
            for item in reply.guidelines[: task.most]
            if item.text.strip()
        ]


def proposal_prompt(task: ProposalTask) -> Prompt:
    """The two messages of the ask for guidelines."""
    sections = [
        data_section(f"Wrong case {number}: {_words(item)}", _evidence(item))
        for number, item in enumerate(task.wrong, 1)
    ]
    sections += [
        data_section(f"Right case: {_words(item)}", _evidence(item)) for item in task.right
    ]
    rubric = data_section(f"Rubric of {task.metric}", task.rubric)
    wanted = f"Write at most {task.most} guidelines for {task.metric}."
    return Prompt(_SYSTEM, "\n\n".join([rubric, wanted, *sections]))


def _words(item: LabelledCase) -> str:
    return f"people say {_word(item.people)}, the judge says {_word(item.judge)}"


def _word(passed: bool | None) -> str:
    return "nothing" if passed is None else "pass" if passed else "fail"


def _evidence(item: LabelledCase) -> str:
    note = f"\nNote of people: {mask(item.note)[:REASON_CHARS]}" if item.note else ""
    return f"{item.excerpt}\n\nReason of the judge: {mask(item.reason)[:REASON_CHARS]}{note}"


class FunctionProposer:
    """An optimiser of the user: a function, or a generator function that yields asks."""

    def __init__(self, name: str, function: Callable[[ProposalTask], Any]) -> None:
        """Keep the function; `name` is its `module:function`."""
        self.name = name
        self._function = function

    def propose(self, task: ProposalTask) -> Steps[Sequence[Guideline]]:
        """The guidelines of the function, checked.

        Raises:
            ConfigurationError: the function returned something else.
        """
        result = self._function(task)
        if isinstance(result, Generator):
            result = yield from result
        try:
            return [Guideline.model_validate(item) for item in list(result)[: task.most]]
        except (TypeError, ValidationError) as error:
            reason = str(error).split("\n", 1)[0]
            raise ConfigurationError(
                f"--optimiser {self.name!r} returned no list of guidelines: {reason}"
            ) from error


class ProposerAsJudge:
    """A proposer in the form of a judge, so that an engine answers its asks."""

    name = PROPOSER
    version = "1"
    metrics = (_GUIDELINES,)

    def __init__(self, proposer: Proposer, task: ProposalTask) -> None:
        """Keep the proposer and what it is to see."""
        self._proposer, self._task = proposer, task

    def missing(self, case: Case) -> str | None:
        """The case stands for the task; it always applies."""
        return None

    def judge(self, case: Case) -> Steps[list[Score]]:
        """One score, whose details hold the guidelines."""
        result = self._proposer.propose(self._task)
        if isinstance(result, Generator):
            result = yield from result
        guidelines = [item.model_dump(mode="json") for item in result]
        return [Score.of(_GUIDELINES, 1.0, details={"guidelines": guidelines})]


def guideline_fault(guideline: Guideline, cases: Sequence[LabelledCase]) -> str | None:
    """Why a guideline may not enter a rubric; `None`: it may.

    A guideline must not carry a secret, speak of a single case, or give orders of somebody else.
    """
    text = f"{guideline.title} {guideline.text}"
    if mask(text) != text:
        return "carries a secret"
    words = _plain_words(text)
    copies = {tuple(words[at : at + COPIED_WORDS]) for at in range(len(words) - COPIED_WORDS + 1)}
    identifiers = set(_IDENTIFIER.findall(text))
    for item in cases:
        if len(item.case.case_id) >= 4 and item.case.case_id in text:
            return f"names case {item.case.case_id!r}"
        if any(identifier in item.excerpt for identifier in identifiers):
            return "repeats an identifier of a case"
        own = _plain_words(item.excerpt) if copies else []
        if any(tuple(own[at : at + COPIED_WORDS]) in copies for at in range(len(own))):
            return "copies the words of a case"
    said = Case(case_id=PROPOSER, transcript=Transcript(turns=(Turn(role="user", text=text),)))
    if any(flag.holds for flag in flags(said)):
        return "gives the judge an order as attacks do"
    return None


def _plain_words(text: str) -> list[str]:
    return re.findall(r"\w+", text.casefold())
