"""What the agent-step judges of seed 002 share: sub-scores, the headline over them, and turns.

Each judge is a headline 0..1 with its sub-scores as parts. What a program can decide is decided
before any model is asked: negative cases, and things expected of which there is no trace.
"""

from __future__ import annotations

import hashlib
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from assizes.judge.case import Case, Expected
from assizes.judge.evidence.steps import AgentStep, exchanges
from assizes.judge.families.agent_steps.base_judge import EvaluationStrategy, clamp_score
from assizes.judge.families.entry import JudgeOptions
from assizes.judge.prompts.sections import DATA_RULE
from assizes.judge.protocol import JudgeFailed, NoReply, Steps, together
from assizes.judge.score import Metric, Scale, Score

TURNS: Final = "turns"
"""Key of `expected.additional_input` that holds the expected values of each exchange, in order."""

MAX_CALLS: Final = 50
"""The most tool calls a prompt shows, and the most statements that are tried."""

MAX_RESULT_CHARS: Final = 4000
"""The most of one tool result that a prompt shows."""

MAX_DETAIL_CHARS: Final = 500
MAX_DETAILS: Final = 20

RULES: Final = f"""\
- {DATA_RULE}
- Use the full range of the scores. Judge each on its own. Do not invent problems."""


def reply_rule(*keys: str) -> str:
    """What a reply looks like: one object of reasoning and score for each key."""
    return f"""\
# Reply
One JSON object, nothing else, with the keys {", ".join(keys)}. The value of each is an object of, in this order:
- reasoning: one or two sentences, before the score
- score: a number from 0 to 1, e.g. 0, 0.35, 0.8, 1"""


class StepOptions(JudgeOptions):
    """Options of every agent-step judge."""

    threshold: float = Field(default=0.7, ge=0, le=1, description="score that passes, inclusive")
    per_turn: bool = Field(
        default=False,
        description="judge each exchange on its own; the headline is the mean of the turns",
    )


class StepReply(BaseModel):
    """A reply of an agent-step judge: one `SubFinding` for each sub-score."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class SubFinding(StepReply):
    """What the model replies for one sub-score.

    It is not bounded in the schema: some providers refuse bounds; a score outside 0..1 is clamped.
    """

    reasoning: str
    score: float


@dataclass(frozen=True, slots=True)
class StepFinding:
    """What a judge found in a case or an exchange of it.

    `value` is 0..1; `reasoning` is for people; `subs` are the model's sub-scores by name; `turns`
    are the places of the steps concerned.
    """

    value: float
    reasoning: str
    details: Mapping[str, Any] = field(default_factory=dict)
    subs: Mapping[str, SubFinding] = field(default_factory=dict)
    turns: tuple[int, ...] = ()


def finding_without_asks(finding: StepFinding) -> Steps[StepFinding]:
    """A finding for which nothing need be asked."""
    yield from ()
    return finding


def weighted_finding(
    subs: Mapping[str, SubFinding],
    weights: Mapping[str, float],
    details: Mapping[str, Any],
    turns: tuple[int, ...] = (),
) -> StepFinding:
    """The sum of the clamped sub-scores times their weights, 9 decimals.

    The reasoning reads `Result Match: 0.80, Efficiency: 0.70`.
    """
    scores = {name: clamp_score(sub.score)[0] for name, sub in subs.items()}
    value = round(math.fsum(scores[name] * weight for name, weight in weights.items()), 9)
    score_texts = [f"{_title(name)}: {score:.2f}" for name, score in scores.items()]
    return StepFinding(value, ", ".join(score_texts), details, subs, turns)


class StepJudge(ABC):
    """A judge of seed 002: one headline named as itself, its sub-scores as parts.

    Subclasses say what they need and find one value for a case; whole conversations and single
    exchanges (`per_turn`) are the same to them.
    """

    name: ClassVar[str]
    strategy: ClassVar[EvaluationStrategy]
    version: ClassVar[str] = "1"
    needs: ClassVar[tuple[str, ...]]
    description: ClassVar[str]
    prompts: ClassVar[tuple[str, ...]] = ()

    def __init__(self, options: StepOptions) -> None:
        """Keep the options and promise the headline."""
        self.options = options
        self._metric = Metric(
            name=self.name,
            scale=Scale.FRACTION,
            display_name=_title(self.name),
            description=self.description,
            needs=self.needs,
            needs_ground_truth=True,
            rubric_hash=_hash(self.prompts) if self.prompts else "",
            gate="judges",
        )
        self.metrics = (self._metric,)

    @abstractmethod
    def missing_expectation(self, expected: Expected) -> str | None:
        """Why the expected values say nothing to this judge; null when they do."""

    @abstractmethod
    def evaluate(self, case: Case) -> Steps[StepFinding]:
        """The finding on a case that has what is needed."""

    def missing(self, case: Case) -> str | None:
        """Skips what has no expected value; JSON null is not specified (seed 002)."""
        reason = self.missing_expectation(case.expected)
        if reason is None or not self.options.per_turn:
            return reason
        # A turn whose values cannot be read must fail, not be skipped: `judge` sees to it.
        turns = case.expected.additional_input.get(TURNS)
        return None if turns else reason

    def judge(self, case: Case) -> Steps[list[Score]]:
        """The headline and its parts; asks nothing where a program can decide."""
        if self.options.per_turn:
            return (yield from self._scores_by_turn(case))
        return self._scores((yield from self.evaluate(case)))

    def _scores(self, finding: StepFinding) -> list[Score]:
        headline = self._headline(finding.value, finding.reasoning, finding.details)
        parts = [self._sub_score(name, sub) for name, sub in finding.subs.items()]
        return [_with_turns(headline, finding.turns, 0), *parts]

    def _headline(
        self, value: float, reasoning: str, details: Mapping[str, Any], part: str = ""
    ) -> Score:
        return Score.of(
            self._metric,
            round(value, 9),
            part=part,
            passed=round(value, 9) >= round(self.options.threshold, 9),
            details={"reasoning": reasoning, "strategy": str(self.strategy), **details},
        )

    def _sub_score(self, name: str, sub: SubFinding) -> Score:
        value, warnings = clamp_score(sub.score)
        details = {"reasoning": sub.reasoning, **({"warnings": warnings} if warnings else {})}
        return Score.of(self._metric, value, part=name, details=details)

    def _scores_by_turn(self, case: Case) -> Steps[list[Score]]:
        """Each exchange on its own, as the part `turn:i`; the headline is their mean, failed where
        one of them is: a turn that could not be judged must not raise the mean.
        """
        specified_turns = [
            (place, start, turn)
            for place, (start, turn) in enumerate(_turn_cases(case))
            if self.missing_expectation(turn.expected) is None
        ]
        if not specified_turns:
            return [Score.skipped(self.name, "no turn has what is needed")]
        answers = yield from together([self.evaluate(turn) for _, _, turn in specified_turns])
        parts = [
            self._turn_score(place, start, answer)
            for (place, start, _), answer in zip(specified_turns, answers, strict=True)
        ]
        for part in parts:
            if part.status == "failed":
                code = str(part.details["error"])
                return [Score.failed(self.name, f"{part.part}: {part.reason}", code), *parts]
        values = [part.value or 0.0 for part in parts]
        reasoning = ", ".join(f"{part.part}: {part.value:.2f}" for part in parts)
        return [self._headline(math.fsum(values) / len(values), reasoning, {}), *parts]

    def _turn_score(self, place: int, start: int, answer: StepFinding | NoReply) -> Score:
        part, key = f"turn:{place}", {"key": f"{self.name}_turn_{place}"}
        if isinstance(answer, NoReply):
            return Score.failed(self.name, answer.reason, answer.code, part, **key)
        subs = {
            name: {"score": clamp_score(sub.score)[0], "reasoning": sub.reasoning}
            for name, sub in answer.subs.items()
        }
        details = {**key, **answer.details, **subs}
        return _with_turns(
            self._headline(answer.value, answer.reasoning, details, part), answer.turns, start
        )


def _turn_cases(case: Case) -> Iterator[tuple[int, Case]]:
    """Each exchange as a case with the index of its first turn. Its expected values are those at
    its place in `expected.additional_input["turns"]`, else those of the whole case.

    A user's last words without an answer count only where something is expected of them.

    Raises:
        JudgeFailed: `invalid_expected`, when the values of a turn cannot be read.
    """
    expected_turns = _expected_turns(case.expected)
    turn_slices = [(exchange.start, exchange.turns) for exchange in exchanges(case.transcript)]
    end = len(case.transcript.turns)
    turn_slices += [(end, ())] * (len(expected_turns) - len(turn_slices))
    for place, (start, turns) in enumerate(turn_slices):
        is_answered = any(turn.role == "assistant" for turn in turns)
        if not is_answered and place >= len(expected_turns) and len(turn_slices) > 1:
            continue
        expected = case.expected
        if expected_turns:
            expected = expected_turns[place] if place < len(expected_turns) else Expected()
        transcript = case.transcript.model_copy(update={"turns": turns})
        yield start, case.model_copy(update={"transcript": transcript, "expected": expected})


def _expected_turns(expected: Expected) -> list[Expected]:
    turns = expected.additional_input.get(TURNS)
    if turns is None:
        return []
    if not isinstance(turns, list):
        raise invalid_expected(f"additional_input.{TURNS} is no list of objects")
    defaults = {"database": expected.database}
    expected_turns = []
    for place, fields in enumerate(turns):
        try:
            expected_turns.append(Expected.model_validate(defaults | (fields or {})))
        except (ValidationError, TypeError) as error:
            problem = " ".join(str(error).split())[:200]
            raise invalid_expected(f"additional_input.{TURNS}[{place}]: {problem}") from error
    return expected_turns


def invalid_expected(reason: str) -> JudgeFailed:
    """Ground truth that cannot be used: the judge fails, the agent is not blamed."""
    return JudgeFailed(NoReply("invalid_expected", f"expected: {reason}"))


def shown_steps(steps: Sequence[AgentStep]) -> str:
    """Tool calls with their results for a prompt: `[turn] name(arguments)`, then what came back."""
    lines: list[str] = []
    for step in steps[:MAX_CALLS]:
        around = f" (within {' > '.join(step.within)})" if step.within else ""
        failed = " (failed)" if step.failed else ""
        lines.append(f"[{step.turn}] {_one_line(step.name)}({arguments_text(step)}){around}")
        lines.append(f"  result{failed}: {_result(step)}")
    if len(steps) > MAX_CALLS:
        lines.append(f"and {len(steps) - MAX_CALLS} more calls")
    return "\n".join(lines) or "(none)"


def arguments_text(step: AgentStep) -> str:
    """The arguments of a step, as JSON or as the agent wrote them."""
    if step.raw is not None and not step.arguments:
        return step.raw
    return json.dumps(step.arguments, ensure_ascii=False, default=str)


def turns_of(steps: Sequence[AgentStep]) -> tuple[int, ...]:
    """The turns of steps, ascending, each once."""
    return tuple(sorted({step.turn for step in steps}))


def short_texts(values: Sequence[Any]) -> list[str]:
    """Values as short texts for a score's details: at most 20, of at most 500 characters."""
    texts = [
        value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
        for value in values[:MAX_DETAILS]
    ]
    return [shorten_text(text, MAX_DETAIL_CHARS) for text in texts]


def call_texts(steps: Sequence[AgentStep]) -> list[str]:
    """Steps as short texts for a score's details: name and arguments."""
    return short_texts([f"{step.name}({arguments_text(step)})" for step in steps])


def shorten_text(text: str, limit: int) -> str:
    """A text, shortened with a note of how much is missing."""
    more = len(text) - limit
    return text if more <= 0 else f"{text[:limit]}... ({more} more characters)"


def is_null(value: object) -> bool:
    """True for the text `null`, by which seed 002 says that a thing must not be done."""
    return isinstance(value, str) and value.strip().casefold() == "null"


def _with_turns(score: Score, turns: Sequence[int], start: int) -> Score:
    """The score with its turns counted in the whole conversation."""
    return replace(score, turns=tuple(turn + start for turn in turns))


def _result(step: AgentStep) -> str:
    text = shorten_text((step.result or "").strip(), MAX_RESULT_CHARS)
    return "\n    ".join(text.splitlines()) or "(empty)"


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _title(name: str) -> str:
    return "SQL" if name == "sql" else name.replace("_", " ").title()


def _hash(prompts: Sequence[str]) -> str:
    return hashlib.sha256("\x00".join(prompts).encode()).hexdigest()[:16]
