"""Turns and evidence for the offline judge."""

from __future__ import annotations

from assizes.judge.case import Case, Expected, ExpectedCall, ToolCall, Transcript, Turn
from assizes.judge.evidence.tool_calls import ConversationEvidence, tool_evidence
from assizes.judge.heuristic.conversation import answer
from assizes.judge.rubrics.rubric import BUILT_IN
from assizes.judge.score import Metric, Scale

METRICS = tuple(
    Metric(name, Scale.BINARY if name == "task_completion" else Scale.SCORED) for name in BUILT_IN
)


def says(text):
    return Turn(role="assistant", text=text)


def called(name, arguments=None, **more):
    return Turn(
        role="assistant", tool_calls=(ToolCall(name=name, arguments=arguments or {}, **more),)
    )


def due(name, arguments=None):
    return ExpectedCall(name=name, arguments=arguments)


def evidence(*turns, metrics=METRICS, finished=True, tools=(), **expected):
    case = Case(
        case_id="c",
        transcript=Transcript(turns=turns, finished=finished, tools=tools),
        expected=Expected(**expected),
    )
    return ConversationEvidence(case, tool_evidence(case), metrics)


def reply_for(metric, *turns, **more):
    return answer(evidence(*turns, **more))[metric]


W = called("w", {"x": 1})
EXPECT_W = {"tool_calls": (due("w", {"x": 1}),), "writes": ("w", "v")}
