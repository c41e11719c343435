"""The base class of the agent-step judges, and the texts and scores that they share."""

from __future__ import annotations

import hashlib
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from types import MappingProxyType
from typing import Any, ClassVar, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from assizes.judge.case import Case, Expected
from assizes.judge.evidence.steps import AgentStep, UserExchange, exchanges
from assizes.judge.families.agent_steps.base_judge import EvaluationStrategy, clamp_score
from assizes.judge.families.entry import JudgeOptions
from assizes.judge.prompts.prompt_texts import DATA_RULE, data_section
from assizes.judge.protocol import JudgeFailed, NoReply, Prompt, Steps, ask, together
from assizes.judge.score import SUSPECT, Metric, Scale, Score

TURNS: Final = "turns"
"""Key of `expected.additional_input`: a list of the expected values of each exchange."""
MAX_CALLS: Final = 50
"""The most tool calls that a prompt shows, and the most SQL statements that are executed."""
MAX_RESULT_CHARS: Final = 4000
"""The most characters of one tool result that a prompt shows."""
MAX_DETAIL_CHARS: Final = 500
"""The most characters of one text in the details of a score."""
MAX_DETAILS: Final = 20
"""The most texts of one kind in the details of a score."""

RULES: Final = f"""\
- {DATA_RULE}
- Use the full range of the scores. Judge each on its own. Do not invent problems."""


def reply_rule(*keys: str) -> str:
    """The end of a system message: a reply holds an object of reasoning and score for each key."""
    return f"""\
# Reply
One JSON object, nothing else, with the keys {", ".join(keys)}. The value of each is an object of, in this order:
- reasoning: one or two sentences, before the score
- score: a number from 0 to 1, e.g. 0, 0.35, 0.8, 1"""


class StepOptions(JudgeOptions):
    """Options of every agent-step judge."""

    threshold: float = Field(
        default=0.7, ge=0, le=1, description="The score from which a case passes."
    )
    per_turn: bool = Field(
        default=False,
        description="Judge each exchange on its own. The score of the case is then the mean of the "
        "turns.",
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
    """The result of a judge for a case or one of its exchanges."""

    value: float  # 0..1
    reasoning: str
    details: Mapping[str, Any] = field(default_factory=dict)
    subs: Mapping[str, SubFinding] = field(default_factory=dict)  # the model's sub-scores by name
    turns: tuple[int, ...] = ()  # indexes of the turns that were judged


def negative_case_finding(
    steps: Sequence[AgentStep],  # of the forbidden kind
    operations: Sequence[str],  # the same as short texts, for the details
    details: Mapping[str, Any],
    *,
    fault: str,  # begins the reasoning for a 0
    merit: str,  # the reasoning for a 1
) -> StepFinding:
    """The finding where nothing may be done: 1 when the agent did nothing, else 0."""
    details = {**details, "operations": list(operations)}
    if not operations:
        return StepFinding(1.0, merit, details)
    return StepFinding(0.0, f"{fault}: {operations[0]}", details, turns=turns_of(steps))


def uncalled_finding(missed: str, tools: Sequence[str], details: Mapping[str, Any]) -> StepFinding:
    """The finding 0 where none of the tools was called that the expected values call for."""
    names = f"none of {', '.join(tools)} was called" if tools else "no call is seen to do that"
    return StepFinding(0.0, f"{missed} expected, but {names}", details)


def name_tools(
    finding: StepFinding, looked_at: Sequence[AgentStep], called: Sequence[AgentStep]
) -> StepFinding:
    """The finding, whose reasoning says which tools it is about, or which others were called."""
    if not called:
        return finding
    # Names are chosen by whoever wrote the transcript: in one line each, and cut.
    names = [shorten_text(" ".join(step.name.split()), 60) for step in looked_at or called]
    note = f"{'looked' if looked_at else 'not'} at {', '.join(list(dict.fromkeys(names))[:5])}"
    return replace(finding, reasoning=f"{finding.reasoning} ({note})")


class StepJudge(ABC):
    """An agent-step judge: one headline score under the judge's own name, sub-scores as parts."""

    name: ClassVar[str]
    strategy: ClassVar[EvaluationStrategy]
    version: ClassVar[str] = "1"
    needs: ClassVar[tuple[str, ...]]  # expected values, for listings
    description: ClassVar[str]
    prompts: ClassVar[tuple[str, ...]] = ()  # the first is the system message
    reply: ClassVar[type[StepReply]]  # set by judges that ask a model, as the weights
    weights: ClassVar[Mapping[str, float]]  # sub-score -> share; the sum is 1

    def __init__(self, options: StepOptions) -> None:
        """Keep the options and promise one metric under the judge's name."""
        self.options = options
        self._metric = Metric(
            name=self.name,
            scale=Scale.FRACTION,
            display_name=_title(self.name),
            description=self.description,
            needs=self.needs,
            needs_ground_truth=True,
            rubric_hash=hashlib.sha256("\x00".join(self.prompts).encode()).hexdigest()[:16]
            if self.prompts
            else "",
            gate="judges",
        )
        self.metrics = (self._metric,)

    @abstractmethod
    def missing_expectation(self, expected: Expected) -> str | None:
        """The reason to skip a case without the expected values that the judge needs; else `None`."""

    @abstractmethod
    def evaluate(self, case: Case) -> Steps[StepFinding]:
        """The finding for a case whose expected values are there, with the asks that it takes."""

    def missing(self, case: Case) -> str | None:
        """A case without the expected values is skipped; JSON null is no value."""
        # An exchange whose expected values are invalid must fail, not be skipped: `judge` does so.
        has_turns = self.options.per_turn and case.expected.additional_input.get(TURNS)
        return None if has_turns else self.missing_expectation(case.expected)

    def judge(self, case: Case) -> Steps[list[Score]]:
        """The headline score and its parts; no ask where code can decide."""
        if self.options.per_turn:
            return (yield from self._scores_by_turn(case))
        return self._scores((yield from self.evaluate(case)))

    def _ask_model(
        self,
        evidence: object,
        sections: Sequence[tuple[str, str]],
        details: Mapping[str, Any],
        steps: Sequence[AgentStep] = (),
        counted: Mapping[str, float] = MappingProxyType({}),  # sub-score -> 0..1, by the evidence
    ) -> Steps[StepFinding]:
        """One ask that shows the sections, each a heading and its text, as data.

        A sub-score more than half of the scale from what was counted makes the score suspect.
        """
        user = "\n\n".join(data_section(heading, text) for heading, text in sections)
        reply = yield from ask(Prompt(self.prompts[0], user), self.reply, evidence)
        subs: dict[str, SubFinding] = {name: getattr(reply, name) for name in self.weights}
        scores = {name: clamp_score(sub.score)[0] for name, sub in subs.items()}
        value = round(math.fsum(scores[name] * share for name, share in self.weights.items()), 9)
        reasoning = ", ".join(f"{_title(name)}: {score:.2f}" for name, score in scores.items())
        contradictions = [
            f"{name} is {scores[name]:g}, but the evidence counts {share:g}"
            for name, share in counted.items()
            if abs(scores[name] - share) > 0.5
        ]
        if contradictions:
            details = {**details, SUSPECT: "; ".join(contradictions)}
        return StepFinding(value, reasoning, details, subs, turns_of(steps))

    def _scores(self, finding: StepFinding) -> list[Score]:
        scores = [self._score(finding)]
        for name, sub in finding.subs.items():
            value, warnings = clamp_score(sub.score)
            details = {"reasoning": sub.reasoning, **({"warnings": warnings} if warnings else {})}
            scores.append(Score.of(self._metric, value, part=name, details=details))
        return scores

    def _score(self, finding: StepFinding, part: str = "") -> Score:
        value = round(finding.value, 9)
        return Score.of(
            self._metric,
            value,
            part=part,
            passed=value >= round(self.options.threshold, 9),  # both rounded: 0.1 + 0.2 reaches 0.3
            turns=finding.turns,
            details={
                "reasoning": finding.reasoning,
                "strategy": str(self.strategy),
                **finding.details,
            },
        )

    def _scores_by_turn(self, case: Case) -> Steps[list[Score]]:
        """The headline score, the mean of the exchanges, then a part `turn:i` for each of them."""
        specified_turns = [
            (place, start, turn)
            for place, (start, turn) in enumerate(_turn_cases(case))
            if self.missing(turn) is None
        ]
        if not specified_turns:
            return [Score.skipped(self.name, "no turn has what is needed")]
        answers = yield from together([self.evaluate(turn) for _, _, turn in specified_turns])
        parts = [
            self._turn_score(place, start, answer)
            for (place, start, _), answer in zip(specified_turns, answers, strict=True)
        ]
        for part in parts:
            # An exchange that could not be judged must not raise the mean.
            if part.status == "failed":
                code = str(part.details["error"])
                return [Score.failed(self.name, f"{part.part}: {part.reason}", code), *parts]
        mean = math.fsum(part.value or 0.0 for part in parts) / len(parts)
        reasoning = ", ".join(f"{part.part}: {part.value:.2f}" for part in parts)
        return [self._score(StepFinding(mean, reasoning)), *parts]

    def _turn_score(self, place: int, start: int, answer: StepFinding | NoReply) -> Score:
        part, key = f"turn:{place}", {"key": f"{self.name}_turn_{place}"}
        if isinstance(answer, NoReply):
            return Score.failed(self.name, answer.reason, answer.code, part, **key)
        subs = {
            name: {"score": clamp_score(sub.score)[0], "reasoning": sub.reasoning}
            for name, sub in answer.subs.items()
        }
        # The steps were counted within the exchange; the score counts the whole conversation.
        turns = tuple(turn + start for turn in answer.turns)
        finding = replace(answer, details={**key, **answer.details, **subs}, turns=turns)
        return self._score(finding, part)


def _turn_cases(case: Case) -> Iterator[tuple[int, Case]]:
    """Yield each exchange as a case, after the index of its first turn in the conversation."""
    expected_turns = _expected_turns(case.expected)
    # Where there is a list, the values of the case count for no exchange.
    otherwise = Expected() if expected_turns else case.expected
    silence = UserExchange(len(case.transcript.turns), ())
    # The longer side counts: an exchange that never took place cannot meet its expected values.
    pairs = list(zip_longest(exchanges(case.transcript), expected_turns))
    for exchange, expected in pairs:
        start, turns = (exchange or silence).start, (exchange or silence).turns
        is_answered = any(turn.role == "assistant" for turn in turns)
        if not is_answered and expected is None and len(pairs) > 1:
            continue  # words that nobody answered, and of which nothing is expected
        transcript = case.transcript.model_copy(update={"turns": turns})
        update = {"transcript": transcript, "expected": expected or otherwise}
        yield start, case.model_copy(update=update)


def _expected_turns(expected: Expected) -> list[Expected]:
    turns = expected.additional_input.get(TURNS)
    if turns is None:
        return []
    if not isinstance(turns, list):
        raise invalid_expected(f"additional_input.{TURNS} is no list of objects")
    defaults = {"database": expected.database}  # one file for all exchanges
    expected_turns = []
    for place, fields in enumerate(turns):
        try:
            # JSON null stands for an exchange of which nothing is expected.
            expected_turns.append(Expected.model_validate(defaults | (fields or {})))
        except (ValidationError, TypeError) as error:
            problem = " ".join(str(error).split())[:200]
            raise invalid_expected(f"additional_input.{TURNS}[{place}]: {problem}") from error
    return expected_turns


def invalid_expected(reason: str) -> JudgeFailed:
    """The failure of a judge whose expected values cannot be used; the agent is not blamed."""
    return JudgeFailed(NoReply("invalid_expected", f"expected: {reason}"))


def shown_steps(steps: Sequence[AgentStep]) -> str:
    """Tool calls for a prompt: a line `[turn] name(arguments)`, then the result, for each call."""
    lines: list[str] = []
    next_line = "\n    "
    for step in steps[:MAX_CALLS]:
        # Names in one line, other texts indented, or they could look like another step.
        name, *within = (" ".join(text.split()) for text in (step.name, *step.within))
        around = f" (within {' > '.join(within)})" if within else ""
        failed = " (failed)" if step.failed else ""
        arguments = next_line.join(arguments_text(step).splitlines())
        lines.append(f"[{step.turn}] {name}({arguments}){around}")
        result = shorten_text((step.result or "").strip(), MAX_RESULT_CHARS)
        result = next_line.join(result.splitlines()) or "(empty)"
        lines.append(f"  result{failed}: {result}")
    if len(steps) > MAX_CALLS:
        lines.append(f"and {len(steps) - MAX_CALLS} more calls")
    return "\n".join(lines) or "(none)"


def arguments_text(step: AgentStep) -> str:
    """The arguments of a step as JSON; as the agent wrote them where that was no JSON object."""
    if step.raw is not None and not step.arguments:
        return step.raw
    return json.dumps(step.arguments, ensure_ascii=False, default=str)


def turns_of(steps: Sequence[AgentStep]) -> tuple[int, ...]:
    """The indexes of the turns of these steps, ascending, each once."""
    return tuple(sorted({step.turn for step in steps}))


def short_texts(values: Sequence[Any]) -> list[str]:
    """Values as texts for the details of a score: at most 20, of at most 500 characters each."""
    texts = [
        value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
        for value in values[:MAX_DETAILS]
    ]
    return [shorten_text(text, MAX_DETAIL_CHARS) for text in texts]


def call_texts(steps: Sequence[AgentStep]) -> list[str]:
    """Steps as texts `name(arguments)` for the details of a score."""
    return short_texts([f"{step.name}({arguments_text(step)})" for step in steps])


def shorten_text(text: str, limit: int) -> str:
    """The first `limit` characters of a text, with a note of how many more there are."""
    more = len(text) - limit
    return text if more <= 0 else f"{text[:limit]}... ({more} more characters)"


def is_null(value: object) -> bool:
    """Whether a value is the text `null`, which forbids an action (negative case)."""
    return isinstance(value, str) and value.strip().casefold() == "null"


def _title(name: str) -> str:
    return "SQL" if name == "sql" else name.replace("_", " ").title()
