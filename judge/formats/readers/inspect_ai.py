"""Logs of inspect_ai: one `.json` document of samples, or an `.eval` archive with a file a sample.

A sample becomes a case, and its epoch becomes the repetition. Scores become labels. A sample that
ended with an error or at a limit counts as not finished.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from assizes.judge.case import MOST_MS, Case, Expected, ToolCall, Transcript, Turn, Usage
from assizes.judge.errors import DataError
from assizes.judge.formats.shared.containers import Layout
from assizes.judge.formats.shared.json_shapes import (
    amount,
    as_text,
    between_ms,
    mapping,
    moment,
    name_of,
    numbered_objects,
    objects,
    sequence,
    tokens,
    valid_labels,
)
from assizes.judge.formats.shared.messages import (
    ConversationBuilder,
    call_of,
    usage_of,
    with_last_answer,
)

_ATTACHMENT_PREFIX: Final = "attachment://"
_GRADES: Final = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0}
"""Values of inspect_ai's letters: correct, incorrect, partial, no answer."""

_AGENT_SPAN: Final = "agent"  # the type of a span in which an agent works
_MAX_EPOCH: Final = 10**6  # a larger number is not believed, and gives repetition 0
_MESSAGE_FIELDS: Final = {
    *("role", "content", "tool_calls", "tool_call_id", "function", "error", "id", "source"),
    *("model", "internal", "parse_error", "metadata"),
}


def _fits(value: dict[str, Any]) -> bool:
    if not isinstance(value.get("eval"), dict):
        return False
    return not value.keys().isdisjoint({"samples", "sample", "status", "version"})


def _split_log(document: Any) -> list[Any]:
    """Return the samples of a log, each with the log's `eval` facts."""
    log = mapping(document, "document")
    samples = sequence(log.get("samples"), "samples")
    return [{"eval": log.get("eval"), "sample": sample} for sample in samples]


def _read(value: dict[str, Any]) -> Case:
    if "sample" not in value:
        raise DataError("schema", "sample: missing; a log in lines holds one sample a line")
    log, sample = mapping(value.get("eval"), "eval"), mapping(value["sample"], "sample")
    builder = ConversationBuilder()
    sample = _with_attachments(sample, mapping(sample.get("attachments"), "attachments"))
    messages = list(numbered_objects(sample.get("messages"), "messages"))
    for path, message in messages:
        _add_message(message, path, builder)
    metadata = mapping(sample.get("metadata"), "metadata")
    early_end = _early_end(sample)
    epoch = amount(sample.get("epoch"))
    sample_id = name_of(sample.get("id"))
    if sample_id is None:
        raise DataError("schema", "sample.id: missing")
    return Case(
        case_id=f"{as_text(log.get('task'))}/{sample_id}".lstrip("/"),
        # Epochs count from 1, repetitions from 0.
        repetition=int(epoch) - 1 if epoch is not None and 1 <= epoch <= _MAX_EPOCH else 0,
        transcript=Transcript(
            turns=_with_usage(_with_agents(builder.turns, messages, sample), sample),
            system=builder.system_text(),
            started_at=moment(sample.get("started_at")),
            duration_ms=_duration_ms(sample),
            finished=not early_end,
        ),
        expected=_expected_values(sample.get("target")),
        agent=name_of(log.get("model")),
        agent_version=name_of(mapping(log.get("revision"), "revision").get("commit")),
        cluster=name_of(metadata.get("cluster")) or sample_id,
        labels=valid_labels(
            (
                (name, _grade(mapping(score, f"scores.{name}").get("value")))
                for name, score in mapping(sample.get("scores"), "scores").items()
            ),
            builder.tally,
        ),
        metadata={**metadata, **early_end, **builder.metadata()},
    )


def _early_end(sample: dict[str, Any]) -> dict[str, Any]:
    """Return the error or the limit that ended a sample early; of an error only its message."""
    early_end = {name: sample[name] for name in ("error", "limit") if sample.get(name)}
    if isinstance(early_end.get("error"), dict):
        early_end["error"] = as_text(early_end["error"].get("message"))
    return early_end


def _duration_ms(sample: dict[str, Any]) -> float | None:
    seconds = amount(sample.get("total_time"))
    if seconds is not None and 0 <= seconds * 1000 <= MOST_MS:
        return round(seconds * 1000, 3)
    return between_ms(moment(sample.get("started_at")), moment(sample.get("completed_at")))


def _with_attachments(value: Any, attachments: dict[str, Any]) -> Any:
    """Put attached texts back where inspect_ai left a reference: it moves long texts to the end."""
    if isinstance(value, str) and value.startswith(_ATTACHMENT_PREFIX):
        # A text that only looks like a reference, as a user may write it, stays as it is.
        return attachments.get(value.removeprefix(_ATTACHMENT_PREFIX), value)
    if isinstance(value, list):
        return [_with_attachments(item, attachments) for item in value]
    if isinstance(value, dict):
        skipped = ("attachments", "events")  # the texts themselves, and what is not read
        return {
            name: item if name in skipped else _with_attachments(item, attachments)
            for name, item in value.items()
        }
    return value


def _add_message(message: dict[str, Any], path: str, builder: ConversationBuilder) -> None:
    builder.tally.count_unread(message, _MESSAGE_FIELDS, "message")
    role, content = message.get("role"), message.get("content")
    if role == "system":
        builder.add_system(builder.text_of(content))
    elif role == "tool":
        error = message.get("error")
        failed = mapping(error, f"{path}.error").get("message") if error else None
        shown = content if content not in (None, "", []) else failed  # an error may be all there is
        builder.add_result(
            shown, message.get("tool_call_id"), message.get("function"), is_error=bool(error)
        )
    elif role in ("user", "assistant"):
        calls = objects(message.get("tool_calls"), f"{path}.tool_calls")
        builder.add_message(role, content, [_tool_call(call, path) for call in calls])
    else:
        raise DataError(
            "schema", f"{path}.role: found {str(role)[:40]!r}, expected one of four roles"
        )


def _tool_call(call_data: dict[str, Any], path: str) -> ToolCall:
    call = call_of(
        call_data.get("function"), call_data.get("arguments"), call_data.get("id"), path=path
    )
    if call_data.get("parse_error"):  # `arguments` is then what inspect_ai could make of the text
        return call.model_copy(update={"raw": as_text(call_data.get("arguments")), "arguments": {}})
    return call


def _with_agents(
    turns: Sequence[Turn], messages: Sequence[tuple[str, dict[str, Any]]], sample: dict[str, Any]
) -> Sequence[Turn]:
    """Name the agent of each answer where several agents speak, as after a handoff.

    A message does not name it: the model's call that made the message is an event within the span of
    an agent. Logs can be written without events.
    """
    agents = _agents_by_message(_dicts(sample.get("events")))
    of_turns = [agents.get(str(message.get("id"))) for _, message in messages if _is_turn(message)]
    names = [
        name if turn.role == "assistant" else None
        for turn, name in zip(turns, of_turns, strict=True)
    ]
    speakers = {name for turn, name in zip(turns, names, strict=True) if turn.role == "assistant"}
    if len(speakers) < 2:
        return turns
    return [
        turn.model_copy(update={"agent": name}) for turn, name in zip(turns, names, strict=True)
    ]


def _is_turn(message: dict[str, Any]) -> bool:
    return message.get("role") != "system"


def _agents_by_message(events: Sequence[dict[str, Any]]) -> dict[str, str]:
    """The name of the innermost agent around each model's call, by the id of the call's message."""
    spans = {str(each.get("id")): each for each in events if each.get("event") == "span_begin"}
    agents: dict[str, str] = {}
    for event in events:
        name = _agent_around(event, spans) if event.get("event") == "model" else None
        output = event.get("output")
        choices = _dicts(output.get("choices")) if isinstance(output, dict) and name else []
        for message in _dicts([choice.get("message") for choice in choices]):
            agents[str(message.get("id"))] = str(name)
    return agents


def _dicts(value: Any) -> list[dict[str, Any]]:
    """The objects of a list; events only add names, so an odd one is passed over."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _agent_around(event: dict[str, Any], spans: dict[str, dict[str, Any]]) -> str | None:
    """The name of the innermost span of an agent around an event."""
    place, seen = str(event.get("span_id")), set[str]()
    while place in spans and place not in seen:
        seen.add(place)
        span = spans[place]
        if span.get("type") == _AGENT_SPAN:
            return name_of(span.get("name"))
        place = str(span.get("parent_id"))
    return None


def _with_usage(turns: Sequence[Turn], sample: dict[str, Any]) -> tuple[Turn, ...]:
    """Put the tokens of a sample into its last answer: a log has them for all calls together."""
    used = [_usage(model) for model in mapping(sample.get("model_usage"), "model_usage").values()]
    known = [usage for usage in used if usage is not None]
    if not known:
        return tuple(turns)
    # A copy is not validated: many calls together may exceed what one call can use.
    total = known[0].model_copy(
        update={
            "input_tokens": sum(usage.input_tokens for usage in known),
            "output_tokens": sum(usage.output_tokens for usage in known),
        }
    )
    return with_last_answer(turns, total)


def _usage(model: Any) -> Usage | None:
    """Return the tokens of one model, with the input that it read from its cache or wrote to it.

    inspect_ai counts that input beside `input_tokens`. Older logs of OpenAI's models have it in
    `input_tokens` as well: then the total is less than the sum of the parts.
    """
    if not isinstance(model, dict):
        return None
    cached = [model.get(f"input_tokens_cache_{name}") for name in ("read", "write")]
    total = tokens(model.get("total_tokens"))
    if total and tokens(model.get("input_tokens"), model.get("output_tokens"), *cached) > total:
        return usage_of(model)
    return usage_of({**model, "input_tokens": tokens(model.get("input_tokens"), *cached)})


def _expected_values(target: Any) -> Expected:
    # Several targets: any of them will do.
    texts = target if isinstance(target, list) else [target if isinstance(target, str) else None]
    return Expected(response=" or ".join(filter(None, map(as_text, texts))) or None)


def _grade(value: Any) -> float | None:
    if isinstance(value, str) and value in _GRADES:
        return _GRADES[value]
    return value if isinstance(value, bool | int | float) else None


def _is_log(value: dict[str, Any]) -> bool:
    """Whether an object is a log of many samples, as `jq -c` writes one on a single line."""
    return _fits(value) and "sample" not in value


INSPECT_AI: Final = Layout("inspect_ai", frozenset({"eval"}), _fits, _read, _split_log, _is_log)
"""The layout of an inspect_ai log: each sample beside the facts that all samples share."""
