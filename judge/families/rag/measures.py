"""What can be measured of a RAG agent without a model: document recall, tokens, latency (seed 004)."""

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
    """Expected documents that were retrieved / expected documents; asks no model.

    Documents are counted by `doc_uri`, each once, however many chunks came of them.
    """

    name = DOCUMENT_RECALL.name
    version = "1"
    metrics = (DOCUMENT_RECALL,)

    def missing(self, case: Case) -> str | None:
        """It needs at least one expected document, and a retrieval that may have found nothing."""
        if not case.expected.retrieved_context:
            return "missing input: expected_retrieved_context[].doc_uri"
        if case.transcript.retrieval() is None:
            return "missing input: retrieved_context"
        return None

    def judge(self, case: Case) -> list[Score]:
        """The headline; what was found and what was not is in its details."""
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
    """Tokens and seconds the agent took, as its transcript records them; asks no model."""

    name = "agent_usage"
    version = "1"
    metrics = (TOTAL_TOKENS, INPUT_TOKENS, OUTPUT_TOKENS, LATENCY)

    def missing(self, case: Case) -> str | None:
        """It applies to every case; what is not recorded is skipped by itself."""
        return None

    def judge(self, case: Case) -> list[Score]:
        """Three token counts and the latency."""
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
    """Trace end - trace start: the recorded duration, else from the start of the first turn to the
    end of the last one, where those are known.
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
