"""The judges that ask no model: recorded verdicts, document recall, the agent's usage."""

from __future__ import annotations

from typing import Final

from assizes.judge.case import Case, Transcript
from assizes.judge.score import Metric, Scale, Score
from assizes.judge.statistics.exact import rounded_value

REWARD: Final = "reward"
"""Key in the labels of a case: the verdict of a benchmark or of a person on the conversation."""

RECORDED_REWARD: Final = Metric(
    name="recorded_reward",
    scale=Scale.FRACTION,
    display_name="Recorded Reward",
    description="The verdict on the conversation that its data set came with.",
    needs=("labels",),
    needs_ground_truth=True,
)


class RecordedJudge:
    """Repeats the verdicts found in the data, so that other judges can be compared with them."""

    name = "recorded"
    version = "1"
    metrics = (RECORDED_REWARD,)

    def missing(self, case: Case) -> str | None:
        """A case without labels is skipped: there is nothing to repeat."""
        return None if case.labels else "no recorded label"

    def judge(self, case: Case) -> list[Score]:
        """The headline score, then one part for each other label, sorted by name."""
        # `labels["reward"]` is the headline score, every other label a part.
        others = sorted(name for name in case.labels if name != REWARD)
        parts = [_recorded_score(case.labels[name], name, f"label:{name}") for name in others]
        if REWARD not in case.labels:
            return [Score.skipped(RECORDED_REWARD.name, "no recorded label"), *parts]
        return [_recorded_score(case.labels[REWARD], REWARD), *parts]


def _recorded_score(verdict: float, name: str, part: str = "") -> Score:
    if not 0 <= verdict <= 1:  # another range would be read as passes
        reason = f"label {name!r} is {verdict!r}, wanted 0 to 1"
        return Score.failed(RECORDED_REWARD.name, reason, "invalid_label", part)
    return Score.of(RECORDED_REWARD, verdict, part=part, passed=round(verdict, 9) >= 1)


DOCUMENT_RECALL: Final = Metric(
    name="document_recall",
    scale=Scale.FRACTION,
    display_name="Document Recall",
    description="Share of the documents known to be relevant that the retriever found.",
    needs=("retrieved_context", "expected.retrieved_context"),
    needs_ground_truth=True,
    run_names=("retrieval/ground_truth/document_recall/average",),
)

_ALL: Final = "over all model calls of the agent; the judge's own are not counted."
_LATENCY: Final = "Seconds from the beginning to the end of the conversation."


def _usage(name: str, display_name: str, description: str, run_name: str = "") -> Metric:
    return Metric(
        name=name,
        scale=Scale.AMOUNT,
        display_name=display_name,
        description=description,
        needs=("transcript",),
        run_names=(f"agent/{run_name or name}/average",),
    )


class DocumentRecall:
    """Document recall: retrieved expected documents / expected documents; no model is asked."""

    name = DOCUMENT_RECALL.name
    version = "1"
    metrics = (DOCUMENT_RECALL,)

    def missing(self, case: Case) -> str | None:
        """Why a case is skipped; a retrieval that found nothing is judged, and has recall 0."""
        if not case.expected.retrieved_context:
            return "missing input: expected_retrieved_context[].doc_uri"
        passages = case.transcript.retrieval()
        if passages is None:
            return "missing input: retrieved_context"
        if passages and not any(passage.doc_uri for passage in passages):
            return "missing input: retrieved_context[].doc_uri"
        return None

    def judge(self, case: Case) -> list[Score]:
        """The headline score; its details list the documents `found` and `not_found`."""
        # Sets: a document counts once, however many of its chunks were retrieved.
        expected = {document.doc_uri for document in case.expected.retrieved_context}
        retrieved = {chunk.doc_uri for chunk in case.transcript.retrieved_chunks()}
        details = {"found": sorted(expected & retrieved), "not_found": sorted(expected - retrieved)}
        recall = rounded_value(len(details["found"]) / len(expected))
        return [Score.of(DOCUMENT_RECALL, recall, details=details)]


class AgentUsage:
    """Tokens and seconds that the agent took, as the transcript records them; no model is asked."""

    name = "agent_usage"
    version = "1"
    metrics = (
        _usage("total_token_count", "Total Tokens", f"Input and output tokens {_ALL}"),
        *(
            _usage(f"total_{side}_token_count", f"{name} Tokens", f"{name} tokens {_ALL}", run_name)
            for side, name, run_name in (
                ("input", "Input", "input_token_count"),
                ("output", "Output", "output_token_count"),
            )
        ),
        _usage("latency_seconds", "Latency", _LATENCY),
    )

    def missing(self, case: Case) -> str | None:
        """No case is skipped as a whole: each number that is not recorded is skipped."""
        return None

    def judge(self, case: Case) -> list[Score]:
        """Four scores: total, input and output tokens, and the latency in seconds."""
        usage = case.transcript.agent_usage()
        counts: list[float | None] = [None, None, None]  # total, input, output
        if usage is not None:
            inputs, outputs = usage.input_tokens, usage.output_tokens
            counts = [inputs + outputs, inputs, outputs]
        amounts = [*counts, latency_seconds(case.transcript)]
        return [
            Score.skipped(metric.name, f"the transcript records no {metric.name}")
            if amount is None
            else Score.of(metric, amount)
            for metric, amount in zip(self.metrics, amounts, strict=True)
        ]


def latency_seconds(transcript: Transcript) -> float | None:
    """Seconds from trace start to trace end, as recorded or from the turns; `None`: not known."""
    if transcript.duration_ms is not None:
        return rounded_value(transcript.duration_ms / 1000)
    if not transcript.turns:
        return None
    first, last = transcript.turns[0], transcript.turns[-1]
    # The latency of the last turn is the time from its start to the end of the trace.
    if first.started_at is None or last.started_at is None or last.latency_ms is None:
        return None
    return rounded_value(
        (last.started_at - first.started_at).total_seconds() + last.latency_ms / 1000
    )
