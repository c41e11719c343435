"""Logs of inspect_ai: one `.json` document of samples, or an `.eval` archive of one file a sample.

A sample is a case, its epoch the repetition. Scores become labels. Samples that an error or a limit
ended are not finished.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from assizes.judge.case import MOST_MS, Case, Expected, ToolCall, Transcript, Turn
from assizes.judge.errors import DataError
from assizes.judge.formats.shared.containers import Layout
from assizes.judge.formats.shared.json_shapes import (
    amount,
    as_text,
    between_ms,
    mapping,
    moment,
    name_of,
    sequence,
)
from assizes.judge.formats.shared.messages import (
    ConversationBuilder,
    call_of,
    usage_of,
    with_last_answer,
)

_ATTACHED: Final = "attachment://"
_GRADES: Final = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0}
_LAST_EPOCH: Final = 10**6
_MESSAGE: Final = {
    *("role", "content", "tool_calls", "tool_call_id", "function", "error", "id", "source"),
    *("model", "internal", "parse_error", "metadata"),
}


class InspectAI(Layout):
    """Samples of an inspect_ai log, each with the facts that all share."""

    name = "inspect_ai"

    def fits(self, value: dict[str, Any]) -> bool:
        """A log, or one sample with the facts of its log."""
        if not isinstance(value.get("eval"), dict):
            return False
        return not value.keys().isdisjoint({"samples", "sample", "status", "version"})

    def split_document(self, document: Any) -> list[Any]:
        """The samples of a log.

        Raises:
            DataError: `schema`.
        """
        log = mapping(document, "document")
        samples = sequence(log.get("samples"), "samples")
        return [{"eval": log.get("eval"), "sample": sample} for sample in samples]

    def read(self, value: Any) -> Case:
        """The case of a sample.

        Raises:
            DataError: `schema`.
        """
        if "sample" not in value:
            raise DataError("schema", "sample: missing; a log in lines holds one sample a line")
        return _case(mapping(value.get("eval"), "eval"), mapping(value["sample"], "sample"))


def _case(log: dict[str, Any], sample: dict[str, Any]) -> Case:
    builder = ConversationBuilder()
    sample = _with_attachments(sample, mapping(sample.get("attachments"), "attachments"))
    for place, message in enumerate(sequence(sample.get("messages"), "messages")):
        _add(mapping(message, f"messages.{place}"), f"messages.{place}", builder)
    metadata = mapping(sample.get("metadata"), "metadata")
    ended = _ending(sample)
    seconds = amount(sample.get("total_time"))
    sample_id = name_of(sample.get("id"))
    if sample_id is None:
        raise DataError("schema", "sample.id: missing")
    return Case(
        case_id=f"{as_text(log.get('task'))}/{sample_id}".lstrip("/"),
        repetition=_repetition(sample.get("epoch")),
        transcript=Transcript(
            turns=_with_usage(builder.turns, sample),
            system="\n\n".join(builder.systems) or None,
            started_at=moment(sample.get("started_at")),
            duration_ms=_duration_ms(sample, seconds),
            finished=not ended,
        ),
        expected=_expected_values(sample.get("target")),
        agent=name_of(log.get("model")),
        agent_version=name_of(mapping(log.get("revision"), "revision").get("commit")),
        cluster=name_of(metadata.get("cluster")) or sample_id,
        labels=_labels(mapping(sample.get("scores"), "scores")),
        metadata={**metadata, **ended, **builder.metadata()},
    )


def _repetition(epoch: Any) -> int:
    """From 0; what is no epoch is the first."""
    number = amount(epoch)
    return int(number) - 1 if number is not None and 1 <= number <= _LAST_EPOCH else 0


def _ending(sample: dict[str, Any]) -> dict[str, Any]:
    """What ended a sample before its time; of an error its message alone."""
    ending = {name: sample[name] for name in ("error", "limit") if sample.get(name)}
    if isinstance(ending.get("error"), dict):
        ending["error"] = as_text(ending["error"].get("message"))
    return ending


def _duration_ms(sample: dict[str, Any], seconds: float | None) -> float | None:
    if seconds is not None and 0 <= seconds * 1000 <= MOST_MS:
        return round(seconds * 1000, 3)
    return between_ms(moment(sample.get("started_at")), moment(sample.get("completed_at")))


def _with_attachments(value: Any, attachments: dict[str, Any]) -> Any:
    """The value with long texts where their hashes stood."""
    if isinstance(value, str):
        if value.startswith(_ATTACHED):
            return attachments.get(value.removeprefix(_ATTACHED), value)
        return value
    if isinstance(value, list):
        return [_with_attachments(item, attachments) for item in value]
    if isinstance(value, dict):
        skipped = ("attachments", "events")
        return {
            name: item if name in skipped else _with_attachments(item, attachments)
            for name, item in value.items()
        }
    return value


def _add(message: dict[str, Any], path: str, builder: ConversationBuilder) -> None:
    builder.tally.count_unread(message, _MESSAGE, "message")
    role, content = message.get("role"), message.get("content")
    if role == "system":
        builder.add_system(builder.text_of(content))
    elif role == "tool":
        error = message.get("error")
        failed = mapping(error, f"{path}.error").get("message") if error else None
        shown = content if content not in (None, "", []) else failed
        builder.add_result(
            shown, message.get("tool_call_id"), message.get("function"), is_error=bool(error)
        )
    elif role in ("user", "assistant"):
        thought: list[str] = []
        text = builder.text_of(content, thought)
        calls = [
            _call(mapping(call, f"{path}.tool_calls"), path)
            for call in sequence(message.get("tool_calls"), f"{path}.tool_calls")
        ]
        known = {"role": role, "text": text or None, "tool_calls": tuple(calls)}
        builder.add_turn(Turn.model_validate(known), thought)
    else:
        raise DataError(
            "schema", f"{path}.role: found {str(role)[:40]!r}, expected one of four roles"
        )


def _call(call_data: dict[str, Any], path: str) -> ToolCall:
    call = call_of(
        call_data.get("function"), call_data.get("arguments"), call_data.get("id"), path=path
    )
    if call_data.get("parse_error"):
        return call.model_copy(update={"raw": as_text(call_data.get("arguments")), "arguments": {}})
    return call


def _with_usage(turns: Sequence[Turn], sample: dict[str, Any]) -> tuple[Turn, ...]:
    """The tokens of a sample are known for all its calls together: they go to the last answer."""
    used = [usage_of(usage) for usage in mapping(sample.get("model_usage"), "model_usage").values()]
    known = [usage for usage in used if usage is not None]
    if not known:
        return tuple(turns)
    total = known[0].model_copy(
        update={
            "input_tokens": sum(usage.input_tokens for usage in known),
            "output_tokens": sum(usage.output_tokens for usage in known),
        }
    )
    return with_last_answer(turns, total)


def _expected_values(target: Any) -> Expected:
    texts = [target] if isinstance(target, str) else target
    answers = [as_text(item) for item in texts] if isinstance(texts, list) else []
    response = " or ".join(text for text in answers if text)
    return Expected(response=response or None)


def _labels(scores: dict[str, Any]) -> dict[str, float]:
    grades = {
        name: _grade(mapping(score, f"scores.{name}").get("value"))
        for name, score in scores.items()
    }
    return {name: grade for name, grade in grades.items() if grade is not None and 0 <= grade <= 1}


def _grade(value: Any) -> float | None:
    if isinstance(value, str) and value in _GRADES:
        return _GRADES[value]
    return float(value) if isinstance(value, bool | int | float) else None
