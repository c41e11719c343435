"""What to try about a failure code: advice that a report gives beside a case that failed.

A judge may name codes of its own, for which there is none; the metric's advice stands in then.
"""

from __future__ import annotations

from typing import Final

_SPEAK_FROM_EVIDENCE: Final = (
    "Let the agent state only what the user, a tool or a passage said before, and let it say so "
    "when it does not know."
)
_TELL_THE_RESULT: Final = (
    "Let the agent end with an answer to each thing that the user asked for, numbers included."
)
_CHOOSE_TOOLS: Final = (
    "Say in the description of each tool what it is for and what it is not for, with an example."
)
_STATE_CHANGE: Final = (
    "Compare the calls that changed data with the expected ones on the page of the case. Then say "
    "in the instructions when each of these tools may be called, and with which values."
)
_FLOW: Final = (
    "Say in the instructions how a conversation goes on: one question at a time, no repetition, "
    "and an end once the user has what they asked for."
)
_SHORTER: Final = (
    "Limit the length of an answer in the instructions, and show one answer of the right length."
)
_ARGUMENTS: Final = (
    "Describe each argument of the tool: its format, an example, and where its value comes from."
)
_ASK_FIRST: Final = (
    "List in the instructions what the agent must know before it acts, and let it ask for the rest."
)
_RULE_BROKEN: Final = (
    "Find the instruction that the named turns break. Say it once, early, and name its exceptions."
)

_CODES: Final = {
    "acted_on_incomplete_data": _ASK_FIRST,
    "hallucinated_result": _SPEAK_FROM_EVIDENCE,
    "information_not_told": _TELL_THE_RESULT,
    "instruction_violated": _RULE_BROKEN,
    "missing_confirmation": (
        "Let the agent repeat a change and wait for the user's yes before it makes the change."
    ),
    "no_response": "Look for time-outs and empty replies of the agent's model in these cases.",
    "no_tool_called": _CHOOSE_TOOLS,
    "outcome_missing": _TELL_THE_RESULT,
    "poor_conversation_flow": _FLOW,
    "unfinished": "Raise the limit of turns or tokens, or find what the agent waits for at the end.",
    "ungrounded_claim": _SPEAK_FROM_EVIDENCE,
    "verbose": _SHORTER,
    "wrong_parameter": _ARGUMENTS,
    "wrong_state_change": _STATE_CHANGE,
    "wrong_tool_selected": _CHOOSE_TOOLS,
}
"""Advice by failure code: those of the rules without a model, and those that prompts name."""

_METRICS: Final = {
    "conversation_management": _FLOW,
    "grounding_fidelity": _SPEAK_FROM_EVIDENCE,
    "information_gathering": _ASK_FIRST,
    "instruction_compliance": _RULE_BROKEN,
    "parameter_extraction": _ARGUMENTS,
    "response_delivery": _SHORTER,
    "result_interpretation": _SPEAK_FROM_EVIDENCE,
    "tool_routing": _CHOOSE_TOOLS,
}
"""Advice by metric of a conversation, for codes that a judge made up."""


def fix_for(metric: str, failure_code: str | None) -> str | None:
    """What to try about a failure of a metric; `None` where no advice would fit."""
    return _CODES.get(failure_code or "") or _METRICS.get(metric)
