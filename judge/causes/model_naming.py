"""Names of causes by a model: each name, and each merge, rests on reasons that the model quotes.

The asks go through an engine as those of a judge do, with its cache, ledger, budget and limits. A
reply that rests on no reason counts as none, and the name that the program gave stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field

from assizes.judge.case import Case, Transcript, Turn
from assizes.judge.prompts.prompt_texts import DATA_RULE, data_section
from assizes.judge.protocol import Ask, NoReply, Prompt, Steps, ask_each
from assizes.judge.rubrics.codebook import quotable
from assizes.judge.score import Metric, Score

NAMER: Final = "causes"
"""The name under which the asks are made and charged."""

MAX_REASONS: Final = 8
"""The most reasons of a cause that a model is shown."""

MAX_WORDS: Final = 6
"""The most words of a name."""

SENTENCE_CHARS: Final = 300
"""The most characters of a sentence."""

_NAMES: Final = Metric("names")

_NAME_RULES: Final = f"""\
You name a cause of failures of an AI agent. You see what judges said about cases that failed for it.

# Rules
- Say what the agent did wrong in all of these cases, and nothing that only one of them shows.
- Name no case, person, number or identifier.
- {DATA_RULE}

# Reply
One JSON object, nothing else, with these keys in this order:
- reasons: numbers of the reasons that the name rests on
- name: two to {MAX_WORDS} words in lower case
- sentence: one sentence that says what goes wrong, at most {SENTENCE_CHARS} characters"""

_MERGE_RULES: Final = f"""\
A program grouped failures of an AI agent by their words. You say which two groups have the same cause.

# Rules
- Two groups have the same cause if one change to the agent would mend both. If in doubt, they differ.
- {DATA_RULE}

# Reply
One JSON object, nothing else, with the key pairs: for each pair, in order, an object of, in this order:
- pair: its number
- first: numbers of the reasons of the first group that show it, or []
- second: numbers of the reasons of the second group that show it, or []
- same: true or false"""


class _Reply(BaseModel):
    model_config = ConfigDict(extra="forbid")


class NameReply(_Reply):
    """What a model replies for one cause."""

    reasons: list[int] = Field(max_length=50)
    name: str
    sentence: str


class PairReply(_Reply):
    """What a model replies for one pair of causes."""

    pair: int
    first: list[int] = Field(max_length=50)
    second: list[int] = Field(max_length=50)
    same: bool


class PairsReply(_Reply):
    """What a model replies for all pairs."""

    pairs: list[PairReply] = Field(max_length=50)


@dataclass(frozen=True, slots=True)
class QuotedCause:
    """A cause as a model is shown it."""

    cause_id: str
    reasons: tuple[str, ...]  # up to `MAX_REASONS`, the most typical first

    @classmethod
    def of(cls, cause_id: str, reasons: Sequence[str]) -> QuotedCause:
        """The cause with its first different reasons; those that address a judge are left out."""
        return cls(cause_id, tuple(quotable(reasons, MAX_REASONS)))


@dataclass(frozen=True, slots=True)
class GivenName:
    """The name that a model gave a cause, and the reasons on which it rests."""

    cause_id: str
    name: str
    sentence: str
    quotes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GivenMerge:
    """Two causes that are one by a model's word, and the reasons on which this rests."""

    cause_id: str
    into: str
    quotes: tuple[str, ...]


class CauseNamer:
    """Asks for the names of some causes and for merges of some pairs, in the form of a judge.

    The details of its only score hold `names` and `merges`, as `given` reads them.
    """

    name = NAMER
    version = "1"
    metrics = (_NAMES,)

    def __init__(
        self, causes: Sequence[QuotedCause], pairs: Sequence[tuple[QuotedCause, QuotedCause]]
    ) -> None:
        """Keep what is asked about; of a pair the second cause would become the first one."""
        self._causes = [cause for cause in causes if cause.reasons]
        self._pairs = [pair for pair in pairs if pair[0].reasons and pair[1].reasons]

    def missing(self, case: Case) -> str | None:
        """The case stands for the run; it always applies."""
        return None

    def judge(self, case: Case) -> Steps[list[Score]]:
        """One round: an ask for each cause, and one for all pairs."""
        asks: list[Ask[Any]] = [Ask(name_prompt(cause), NameReply) for cause in self._causes]
        if self._pairs:
            asks.append(Ask(merge_prompt(self._pairs), PairsReply))
        if not asks:
            return [Score.of(_NAMES, 1.0, details={"names": [], "merges": [], "failed": []})]
        replies = yield from ask_each(asks)
        names = [
            row
            for cause, reply in zip(self._causes, replies, strict=False)
            if isinstance(reply, NameReply) and (row := _name_row(cause, reply))
        ]
        pairs = replies[-1] if self._pairs else None
        merges = self._merges(pairs) if isinstance(pairs, PairsReply) else []
        failed = [reply.code for reply in replies if isinstance(reply, NoReply)]
        details = {"names": names, "merges": merges, "failed": failed}
        return [Score.of(_NAMES, 1.0, details=details)]

    def _merges(self, reply: PairsReply) -> list[dict[str, Any]]:
        rows = []
        for item in reply.pairs:
            if not item.same or not 0 < item.pair <= len(self._pairs):
                continue
            older, younger = self._pairs[item.pair - 1]
            sides = (_quotes(older, item.first), _quotes(younger, item.second))
            if all(sides):  # it rests on reasons of both
                quotes = [*sides[0], *sides[1]]
                rows.append(
                    {"cause_id": younger.cause_id, "into": older.cause_id, "quotes": quotes}
                )
        return rows


def stand_in_case() -> Case:
    """The case that stands for a run before the namer."""
    turn = Turn(role="user", text="causes of failures")
    return Case(case_id=NAMER, transcript=Transcript(turns=(turn,)))


def given(score: Score) -> tuple[list[GivenName], list[GivenMerge]]:
    """The names and merges in the score of a namer; none where the score is not there."""
    names = [
        GivenName(**row | {"quotes": tuple(row["quotes"])})
        for row in score.details.get("names", ())
    ]
    merges = [
        GivenMerge(**row | {"quotes": tuple(row["quotes"])})
        for row in score.details.get("merges", ())
    ]
    return names, merges


def name_prompt(cause: QuotedCause) -> Prompt:
    """The two messages of the ask for a name."""
    return Prompt(_NAME_RULES, data_section("Reasons of judges", _numbered(cause.reasons)))


def merge_prompt(pairs: Sequence[tuple[QuotedCause, QuotedCause]]) -> Prompt:
    """The two messages of the ask about pairs of causes."""
    sections = [
        data_section(f"Pair {number}, {side} group", _numbered(cause.reasons))
        for number, pair in enumerate(pairs, 1)
        for side, cause in zip(("first", "second"), pair, strict=True)
    ]
    return Prompt(_MERGE_RULES, "\n\n".join(sections))


def _numbered(reasons: Sequence[str]) -> str:
    return "\n".join(f"{number}. {reason}" for number, reason in enumerate(reasons, 1))


def _quotes(cause: QuotedCause, numbers: Sequence[int]) -> list[str]:
    chosen = sorted({number for number in numbers if 0 < number <= len(cause.reasons)})
    return [cause.reasons[number - 1] for number in chosen]


def _name_row(cause: QuotedCause, reply: NameReply) -> dict[str, Any] | None:
    """The name as a row; None where it rests on no reason or cannot be one."""
    name = " ".join("".join(quotable([reply.name], 1)).split())
    sentence = "".join(quotable([reply.sentence], 1))
    quotes = _quotes(cause, reply.reasons)
    if not name or not quotes or len(name.split()) > MAX_WORDS:
        return None
    return {"cause_id": cause.cause_id, "name": name, "sentence": sentence, "quotes": quotes}
