"""Judges of seed 004 that ask no model: document recall, and the agent's tokens and latency."""

from __future__ import annotations

from typing import Final

from assizes.judge.case import Case, Transcript
from assizes.judge.score import Metric, Scale, Score
from assizes.judge.statistics.exact import rounded_value

DOCUMENT_RECALL: Final = Metric(
    name="document_recall",
    scale=Scale.FRACTION,
    display_name="Document Recall",
    description="Share of the documents known to be relevant that the retriever found.",
    needs=("retrieved_context", "expected.retrieved_context"),
    needs_ground_truth=True,
    run_names=("retrieval/ground_truth/document_recall/average",),
)

_WHOLE_TRACE: Final = "over all model calls of the agent; the judge's own are not counted."


def _usage_metric(name: str, display_name: str, description: str, run_name: str) -> Metric:
    return Metric(
        name=name,
        scale=Scale.AMOUNT,
        display_name=display_name,
        description=description,
        needs=("transcript",),
        run_names=(run_name,),
    )


TOTAL_TOKENS: Final = _usage_metric(
    "total_token_count",
    "Total Tokens",
    f"Input and output tokens {_WHOLE_TRACE}",
    "agent/total_token_count/average",
)
INPUT_TOKENS: Final = _usage_metric(
    "total_input_token_count",
    "Input Tokens",
    f"Input tokens {_WHOLE_TRACE}",
    "agent/input_token_count/average",
)
OUTPUT_TOKENS: Final = _usage_metric(
    "total_output_token_count",
    "Output Tokens",
    f"Output tokens {_WHOLE_TRACE}",
    "agent/output_token_count/average",
)
LATENCY: Final = _usage_metric(
    "latency_seconds",
    "Latency",
    "Seconds from the beginning to the end of the conversation.",
    "agent/latency_seconds/average",
)


class DocumentRecall:
    """Document recall: retrieved expected documents / expected documents; no model is asked.

    A document is counted once by its `doc_uri`, however many of its chunks were retrieved.
    """

    name = DOCUMENT_RECALL.name
    version = "1"
    metrics = (DOCUMENT_RECALL,)

    def missing(self, case: Case) -> str | None:
        """A case is skipped without expected documents or without a retrieval.

        A retrieval without any result is judged: its recall is 0.
        """
        if not case.expected.retrieved_context:
            return "missing input: expected_retrieved_context[].doc_uri"
        if case.transcript.retrieval() is None:
            return "missing input: retrieved_context"
        return None

    def judge(self, case: Case) -> list[Score]:
        """The headline score; its details list the documents `found` and `not_found`."""
        expected = {document.doc_uri for document in case.expected.retrieved_context}
        retrieved = {chunk.doc_uri for chunk in case.transcript.retrieved_chunks()}
        retrieved_expected = expected & retrieved
        details = {
            "found": sorted(retrieved_expected),
            "not_found": sorted(expected - retrieved_expected),
        }
        recall = rounded_value(len(retrieved_expected) / len(expected))
        return [Score.of(DOCUMENT_RECALL, recall, details=details)]


class AgentUsage:
    """Tokens and seconds that the agent took, as the transcript records them; no model is asked."""

    name = "agent_usage"
    version = "1"
    metrics = (TOTAL_TOKENS, INPUT_TOKENS, OUTPUT_TOKENS, LATENCY)

    def missing(self, case: Case) -> str | None:
        """No case is skipped as a whole: each number that is not recorded is skipped."""
        return None

    def judge(self, case: Case) -> list[Score]:
        """Four scores: total, input and output tokens, and the latency in seconds."""
        usage = case.transcript.agent_usage()
        counts: list[float | None] = [None, None, None]
        if usage is not None:
            inputs, outputs = usage.input_tokens, usage.output_tokens
            counts = [inputs + outputs, inputs, outputs]
        amounts = [*counts, latency_seconds(case.transcript)]
        return [
            _amount(metric, amount) for metric, amount in zip(self.metrics, amounts, strict=True)
        ]


def latency_seconds(transcript: Transcript) -> float | None:
    """Seconds from trace start to trace end; `None` where they are not known.

    The recorded duration counts; without one, the time from the start of the first turn to the end
    of the last turn.
    """
    if transcript.duration_ms is not None:
        return rounded_value(transcript.duration_ms / 1000)
    if not transcript.turns:
        return None
    first, last = transcript.turns[0], transcript.turns[-1]
    if first.started_at is None or last.started_at is None or last.latency_ms is None:
        return None
    return rounded_value(
        (last.started_at - first.started_at).total_seconds() + last.latency_ms / 1000
    )


def _amount(metric: Metric, amount: float | None) -> Score:
    if amount is None:
        return Score.skipped(metric.name, f"the transcript records no {metric.name}")
    return Score.of(metric, amount)
