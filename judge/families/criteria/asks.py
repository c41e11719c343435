"""The input and the two asks of the criteria judges."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import Annotated, Final

from pydantic import BaseModel, BeforeValidator, ConfigDict

from assizes.judge.case import Transcript
from assizes.judge.prompts.prompt_texts import DATA_RULE, data_section
from assizes.judge.protocol import Ask, Prompt


@dataclass(frozen=True, slots=True)
class AnsweredTurn:
    """A question of the user with the agent's answer."""

    index: int  # among the answered questions, from 0
    at: int  # of the answer among all turns
    query: str
    response: str


def answered_turns(transcript: Transcript) -> tuple[AnsweredTurn, ...]:
    """Each user message that the agent answered, with the first text that answers it."""
    turns = transcript.turns
    texts = [
        (at, turn)
        for at, turn in enumerate(turns)
        if turn.role in ("user", "assistant") and (turn.text or "").strip()
    ]
    answered: list[AnsweredTurn] = []
    query: str | None = None
    for role, pairs in groupby(texts, key=lambda pair: pair[1].role):
        group = list(pairs)
        if role == "user":
            query = group[-1][1].text  # the last of several in a row
        elif query is not None:
            at = transcript.answer_places(group[-1][0])[0]
            answered.append(AnsweredTurn(len(answered), at, query, turns[at].text or ""))
    return tuple(answered)


def criteria_text(value: object) -> str | None:
    """A text, or a list of texts joined by newlines; `None` for other values and blank texts."""
    lines = [value] if isinstance(value, str) else value
    if not isinstance(lines, list | tuple) or not all(isinstance(line, str) for line in lines):
        return None
    return "\n".join(line.strip() for line in lines if line.strip()) or None


_DATA_RULE: Final = f"- {DATA_RULE}"

_DECOMPOSE_CRITERIA: Final = f"""\
You prepare the marking of an AI agent's answers: split acceptance criteria into points that can be checked one by one.

# Rules
- One aspect for each separate requirement, in the order of the criteria; merge what overlaps. A list has one aspect for each item; otherwise 2 to 4 aspects are usual.
- 1 to 4 concepts for each aspect: short, concrete, each to be found in an answer on its own.
- Take everything from the criteria. The query only explains them. Add no requirement of your own; criteria that ask for nothing have no aspects.
- What the criteria name only as an example ("such as", "for instance") is no concept of its own: anything of the kind will do.
{_DATA_RULE}"""

_DECOMPOSE_REFERENCE: Final = f"""\
You prepare the marking of an AI agent's answers: split a reference answer into points that a complete answer must hold.

# Rules
- One aspect for each separate point that matters to the query, in the order of the reference; merge what overlaps. 2 to 4 aspects are usual.
- 1 to 4 concepts for each aspect: short, concrete, each to be found in an answer on its own.
- Take everything from the reference answer. Leave out greetings, filler and style; a reference that says nothing on the query has no aspects.
{_DATA_RULE}"""

_DECOMPOSE_REPLY: Final = """\
# Reply
One JSON object, nothing else, with the keys in this order:
- reasoning: one or two sentences on how you split it
- aspects: list of objects of aspect (a short name) and concepts (list of texts)"""

# Always asks for contradictions, so that both settings of that option share their replies.
_CHECK: Final = """\
You check an AI agent's answer against listed aspects. Aspects and their concepts have ids: a1, a1c1 and so on.

# Rules
- Look at the answer alone. The query{source} and the aspects say what to look for; they prove nothing.
- {measure}
- A concept is contradicted when the answer says something that cannot be true together with it. Silence is no contradiction; a contradicted concept is missing.
- A concept that forbids something is covered when nothing in the answer does it.
- An aspect is covered when the answer meets it on the whole, even if a lesser concept is missing; never if all of its concepts are.
{data_rule}"""

_STRICT: Final = "A concept is covered when the answer conveys its substance, in whatever words; touching on its topic is not enough."
_GENEROUS: Final = "Be generous: a concept is covered when the answer conveys it in any words, in short, or by something that implies it."

_CHECK_REPLY: Final = """\
# Reply
One JSON object, nothing else, with the key aspects: a list with one object for each aspect, of these keys in this order:
- id: the id of the aspect
- reason: one sentence, before the findings
- concepts_covered, concepts_missing: ids of its concepts; each of them is in exactly one of the two
- concepts_contradicted: ids of its concepts, or []
- covered: true or false"""


@dataclass(frozen=True, slots=True)
class Wording:
    """What is equal for all cases."""

    heading: str  # of the section with the criteria
    decompose: str  # system message of the first ask
    check: str  # system message of the second


def _wording(heading: str, decompose: str, source: str, measure: str) -> Wording:
    check = _CHECK.format(source=source, measure=measure, data_rule=_DATA_RULE)
    return Wording(heading, f"{decompose}\n\n{_DECOMPOSE_REPLY}", f"{check}\n\n{_CHECK_REPLY}")


CRITERIA_WORDING: Final = _wording(
    "Acceptance criteria", _DECOMPOSE_CRITERIA, ", the criteria", _STRICT
)
REFERENCE_WORDING: Final = _wording(
    "Reference answer", _DECOMPOSE_REFERENCE, ", the reference answer", _GENEROUS
)


@dataclass(frozen=True, slots=True)
class Concept:
    """One thing that an answer must hold."""

    id: str  # a1c1, a1c2 ...; unique in a case
    text: str


@dataclass(frozen=True, slots=True)
class Aspect:
    """One requirement of the criteria, with at least one concept."""

    id: str  # a1, a2 ...; numbered by code
    name: str
    concepts: tuple[Concept, ...]


class _Reply(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


# Models write null for an empty list; that is no reason to pay for another ask.
_Texts = Annotated[list[str], BeforeValidator(lambda value: [] if value is None else value)]


class DecomposedAspect(_Reply):
    """An aspect as the model names it, before it gets its id."""

    aspect: str
    concepts: _Texts


class Decomposition(_Reply):
    """What the model replies to the first question."""

    reasoning: str
    aspects: list[DecomposedAspect]


class AspectFinding(_Reply):
    """What the model found of one aspect, by ids."""

    id: str
    reason: str
    concepts_covered: _Texts
    concepts_missing: _Texts
    concepts_contradicted: _Texts
    covered: bool


class CoverageReply(_Reply):
    """What the model replies to the second question."""

    aspects: list[AspectFinding]


@dataclass(frozen=True, slots=True)
class DecomposeEvidence:
    """The facts of the first ask: the query, and the text that says what an answer must hold."""

    query: str
    criteria: str


@dataclass(frozen=True, slots=True)
class CoverageEvidence:
    """The facts of the second ask: the numbered aspects and one answer."""

    aspects: tuple[Aspect, ...]
    response: str


def decompose_ask(wording: Wording, query: str, criteria: str) -> Ask[Decomposition]:
    """The first ask: which aspects, with which concepts, do the criteria require?"""
    # Of query and criteria alone: the reply cache answers it once for any number of transcripts.
    sections = [data_section("Query", query), data_section(wording.heading, criteria)]
    prompt = Prompt(wording.decompose, "\n\n".join(sections))
    return Ask(prompt, Decomposition, DecomposeEvidence(query, criteria))


def coverage_ask(
    wording: Wording, criteria: str, aspects: tuple[Aspect, ...], turn: AnsweredTurn
) -> Ask[CoverageReply]:
    """The second ask: which concepts does this answer cover?"""
    lines = []
    for aspect in aspects:
        lines.append(f"{aspect.id}: {aspect.name}")
        lines += [f"  {concept.id}: {concept.text}" for concept in aspect.concepts]
    # What is equal for many answers stands first, where a provider can cache it.
    sections = [
        data_section(wording.heading, criteria),
        data_section("Aspects with their concepts", "\n".join(lines)),
        data_section("Query", turn.query),
        data_section("Answer to check", turn.response),
    ]
    closing_line = f"Aspects to check: {', '.join(aspect.id for aspect in aspects)}"

    def doubts(reply: CoverageReply) -> str | None:
        answered_ids = {normalised_id(finding.id) for finding in reply.aspects}
        missing = [aspect.id for aspect in aspects if aspect.id not in answered_ids]
        return f"aspects has no entry for: {', '.join(missing)}" if missing else None

    prompt = Prompt(wording.check, "\n\n".join([*sections, closing_line]))
    return Ask(prompt, CoverageReply, CoverageEvidence(aspects, turn.response), doubts)


def normalised_id(text: str) -> str:
    """An id from a reply, without blanks around it and in lower case, to compare with ours."""
    return text.strip().lower()
