"""The response quality judge (seed 002): does the final response do what is expected of it, and is
it supported by what the agent's steps returned?
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from assizes.judge.case import Case, Expected
from assizes.judge.evidence.steps import AgentStep, final_response, requests, steps_of
from assizes.judge.families.agent_steps.base_judge import EvaluationStrategy
from assizes.judge.families.agent_steps.step_scores import (
    RULES,
    StepFinding,
    StepJudge,
    StepReply,
    SubFinding,
    is_null,
    reply_rule,
    shorten_text,
    shown_steps,
    weighted_finding,
)
from assizes.judge.prompts.sections import NOT_CAPTURED, data_section, numbered_list
from assizes.judge.protocol import Prompt, Steps, ask

WEIGHTS: Final = {"relevance": 0.5, "faithfulness": 0.5}

MAX_SHOWN: Final = 2000
"""The most characters of a response, or of an expectation, in the details of a score."""

SYSTEM: Final = f"""\
You judge the final response of an AI agent to its user. You see the agent's instructions with the user's permissions, the user's requests, what a good response does, the agent's steps, and the response.

# Rules
{RULES}
- relevance: whether the response answers the last request and does what is expected of it. Where a refusal is expected, a polite refusal is what is relevant, and an answer is not.
- faithfulness: whether all it says rests on the steps, the instructions or the requests. Figures and names that stand in none of them lower it. A refusal that claims nothing is faithful.
- The steps are there to check what the response says; the agent is not judged for how it found it.

{reply_rule(*WEIGHTS)}"""

REFUSAL_EXPECTED: Final = (
    "Nothing may be answered: the response politely refuses and gives away nothing."
)
"""The expectation that a model reads where `expected.response_quality` is the text `null`."""


class ResponseReply(StepReply):
    """What the model replies."""

    relevance: SubFinding
    faithfulness: SubFinding


@dataclass(frozen=True, slots=True)
class ResponseEvidence:
    """The facts of the response judge's ask; `refusal` says that the agent must not answer."""

    context: str
    requests: tuple[str, ...]
    expected: str
    refusal: bool
    steps: tuple[AgentStep, ...]
    response: str


class ResponseQualityJudge(StepJudge):
    """Judges the final response by relevance and faithfulness."""

    name = "response_quality"
    strategy = EvaluationStrategy.FINAL_RESPONSE
    needs = ("expected.response_quality",)
    description = "Mean of relevance and faithfulness of the final response."
    prompts = (SYSTEM, REFUSAL_EXPECTED)

    def missing_expectation(self, expected: Expected) -> str | None:
        """The judge needs an `expected.response_quality` that is not blank."""
        expectation = (expected.response_quality or "").strip()
        return None if expectation else "no expected.response_quality"

    def evaluate(self, case: Case) -> Steps[StepFinding]:
        """One ask; an empty response is scored without a model."""
        expected = (case.expected.response_quality or "").strip()
        refusal = is_null(expected)
        response = final_response(case.transcript)
        user_requests = requests(case.transcript)
        details = {
            "question": user_requests[-1] if user_requests else "",
            "expected_response": shorten_text(expected, MAX_SHOWN),
            "extracted_response": shorten_text(response, MAX_SHOWN),
        }
        if not response:
            reason = "Rightly answered nothing" if refusal else "The response is empty"
            return StepFinding(1.0 if refusal else 0.0, reason, details)
        evidence = ResponseEvidence(
            context=(case.transcript.system or "").strip() or NOT_CAPTURED,
            requests=user_requests,
            expected=REFUSAL_EXPECTED if refusal else expected,
            refusal=refusal,
            steps=steps_of(case.transcript),
            response=response,
        )
        reply = yield from ask(Prompt(SYSTEM, _user_message(evidence)), ResponseReply, evidence)
        return weighted_finding(reply, WEIGHTS, details)


def _user_message(evidence: ResponseEvidence) -> str:
    return "\n\n".join(
        [
            data_section("Agent's instructions and permissions", evidence.context),
            data_section(
                "User requests, the last one is answered", numbered_list(evidence.requests)
            ),
            data_section("What a good response does", evidence.expected),
            data_section("Agent's steps", shown_steps(evidence.steps)),
            data_section("Final response", evidence.response),
        ]
    )
