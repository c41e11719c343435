"""Files and batches of the judge model, as the OpenAI protocol has them.

A batch moves from `validating` to `in_progress` to its end as time goes by; the lines are answered
by the behaviours of live calls. `batch-partial` fails every tenth line, `batch-expired` answers
half of them, `batch-failed` does not get past the validation.
"""

from __future__ import annotations

import math
import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import orjson

from tests.doubles.openai_answer import Answer, error
from tests.doubles.openai_filler import Json
from tests.doubles.openai_question import Question
from tests.doubles.openai_tally import Tally

ENDPOINT = "/v1/chat/completions"
DAY_S = 86_400
VALIDATING = 0.25
"""Share of a batch's time that its validation takes."""
ENDED = {"failed": "failed_at", "completed": "completed_at", "expired": "expired_at"}

Respond = Callable[[Question, Tally], Answer]


@dataclass
class File:
    """An uploaded file, or one a batch wrote."""

    name: str
    content: bytes
    purpose: str
    id: str = field(default_factory=lambda: f"file-{secrets.token_hex(12)}")
    created_at: int = field(default_factory=lambda: int(time.time()))

    def public(self) -> Json:
        return {
            "id": self.id,
            "object": "file",
            "bytes": len(self.content),
            "created_at": self.created_at,
            "filename": self.name,
            "purpose": self.purpose,
            "status": "processed",
        }


@dataclass(frozen=True)
class Line:
    """One request of a batch."""

    custom_id: str
    question: Question


@dataclass
class Batch:
    """What the protocol shows of a batch, and its lines."""

    shown: Json
    lines: list[Line]
    errors: list[Json]
    begun: float

    @property
    def model(self) -> str:
        return self.lines[0].question.model if self.lines else ""

    @property
    def open(self) -> bool:
        return self.shown["status"] in ("validating", "in_progress")


def problem(code: str, message: str, line: int | None = None) -> Json:
    return {"code": code, "message": message, "param": None, "line": line}


def read_lines(content: bytes, *, echo: bool) -> tuple[list[Line], list[Json]]:
    """The requests in an uploaded file, and what is wrong with it."""
    lines: list[Line] = []
    problems: list[Json] = []
    for number, text in enumerate(content.splitlines(), 1):
        try:
            record = orjson.loads(text)
            question = Question.read(record["body"], echo=echo)
            lines.append(Line(record["custom_id"], question))
        except (ValueError, KeyError, TypeError):
            problems.append(problem("invalid_json_line", "This line is no request.", number))
    return lines, problems + list(_shared_problems(lines, problems))


def _shared_problems(lines: list[Line], problems: list[Json]) -> Iterable[Json]:
    if not lines and not problems:
        yield problem("empty_file", "The batch input file is empty.")
    times = Counter(line.custom_id for line in lines)
    for twice in [custom_id for custom_id, count in times.items() if count > 1]:
        yield problem("duplicate_custom_id", f"The custom_id {twice!r} appears twice.")
    if len({line.question.model for line in lines}) > 1:
        yield problem("mismatched_model", "The batch asks more than one model.")
    if any(line.question.model.endswith("batch-failed") for line in lines):
        yield problem("model_not_found", "The provided model is not supported by the Batch API.", 1)


class Batches:
    """The files and batches of one server."""

    def __init__(self, respond: Respond, delay_s: float, *, echo: bool = True) -> None:
        self.respond = respond
        self.delay_s = delay_s
        self.echo = echo
        self.files: dict[str, File] = {}
        self.batches: dict[str, Batch] = {}
        self.submitted: set[str] = set()

    def upload(self, name: str, content: bytes, purpose: str) -> Json:
        file = File(name, content, purpose)
        self.files[file.id] = file
        return file.public()

    def create(self, asked: Any, tally: Tally) -> Json:
        """A new batch.

        Raises:
            ValueError: the file, the endpoint or the completion window is not one that is known.
        """
        if not isinstance(asked, dict) or asked.get("input_file_id") not in self.files:
            raise ValueError("input_file_id: no such file")
        if asked.get("endpoint") != ENDPOINT:
            raise ValueError(f"endpoint: only {ENDPOINT} is known")
        if asked.get("completion_window") != "24h":
            raise ValueError("completion_window: only 24h is known")
        content = self.files[asked["input_file_id"]].content
        lines, problems = read_lines(content, echo=self.echo)
        batch = Batch(_new(asked), lines, problems, time.monotonic())
        self.batches[batch.shown["id"]] = batch
        tally.counts["batches"] += 1
        if not problems:
            self._count(batch, tally)
        return batch.shown

    def _count(self, batch: Batch, tally: Tally) -> None:
        tally.counts["batch_lines"] += len(batch.lines)
        for line in batch.lines:
            tally.note_prompt(line.question)
            tally.counts["batch_repeats"] += line.custom_id in self.submitted
            self.submitted.add(line.custom_id)

    def current(self, batch_id: str, tally: Tally) -> Json:
        """A batch as it stands now.

        Raises:
            KeyError: there is none of this id.
        """
        batch = self.batches[batch_id]
        if batch.open:
            self._advance(batch, tally)
        return batch.shown

    def listed(self, after: str | None, limit: int, tally: Tally) -> Json:
        """Batches, the newest first, beginning behind the one named."""
        ids = list(reversed(self.batches))
        ids = ids[ids.index(after) + 1 :] if after in self.batches else ids
        data = [self.current(one, tally) for one in ids[:limit]]
        return {
            "object": "list",
            "data": data,
            "first_id": data[0]["id"] if data else None,
            "last_id": data[-1]["id"] if data else None,
            "has_more": len(ids) > limit,
        }

    def cancel(self, batch_id: str, tally: Tally) -> Json:
        """End a batch: what began to run is half answered, and paid for.

        Raises:
            KeyError: there is none of this id.
            ValueError: it has ended already.
        """
        self.current(batch_id, tally)
        batch = self.batches[batch_id]
        if not batch.open:
            raise ValueError(f"Cannot cancel a batch with status '{batch.shown['status']}'.")
        running = batch.shown["status"] == "in_progress"
        now = int(time.time())
        self._answer(batch, batch.lines[: len(batch.lines) // 2] if running else [], tally)
        batch.shown.update(status="cancelled", cancelled_at=now, cancelling_at=now)
        # The protocol says `cancelling` here; the next look finds it cancelled.
        return {**batch.shown, "status": "cancelling", "cancelled_at": None}

    def _advance(self, batch: Batch, tally: Tally) -> None:
        done = (time.monotonic() - batch.begun) / self.delay_s if self.delay_s else math.inf
        if done < VALIDATING:
            return
        if batch.errors:
            batch.shown["errors"] = {"object": "list", "data": batch.errors}
            self._end(batch, "failed")
            return
        shown = batch.shown
        shown["status"] = "in_progress"
        shown["in_progress_at"] = shown["in_progress_at"] or int(time.time())
        shown["request_counts"]["total"] = len(batch.lines)
        if done < 1:
            return
        expired = batch.model.endswith("batch-expired")
        answered = batch.lines[: len(batch.lines) // 2] if expired else batch.lines
        self._answer(batch, answered, tally)
        shown["finalizing_at"] = int(time.time())
        self._end(batch, "expired" if expired else "completed")

    def _end(self, batch: Batch, status: str) -> None:
        batch.shown.update({"status": status, ENDED[status]: int(time.time())})

    def _answer(self, batch: Batch, lines: list[Line], tally: Tally) -> None:
        """Write the output and the error file; lines beyond those given are left unanswered."""
        out: list[Json] = []
        failed: list[Json] = []
        for number, line in enumerate(lines, 1):
            answer = self._response(batch, number, line, tally)
            tally.bill(line.question, answer, "batch_answered")
            good = answer.status == 200 and answer.output_tokens is not None
            (out if good else failed).append(_result(line, answer))
        if batch.model.endswith("batch-expired"):
            failed += [_expired(line) for line in batch.lines[len(lines) :]]
        batch.shown["request_counts"] |= {"completed": len(out), "failed": len(failed)}
        for name, results in (("output", out), ("error", failed)):
            if results:
                content = b"".join(orjson.dumps(one) + b"\n" for one in results)
                file = File(f"{batch.shown['id']}_{name}.jsonl", content, "batch_output")
                self.files[file.id] = file
                batch.shown[f"{name}_file_id"] = file.id

    def _response(self, batch: Batch, number: int, line: Line, tally: Tally) -> Answer:
        """What a line is answered with; a broken connection is a failure of the server's own."""
        if batch.model.endswith("batch-partial") and number % 10 == 0:
            return error(500, "The server had an error.", "server_error")
        answer = self.respond(line.question, tally)
        if answer.delivery in ("whole", "drip") and answer.content_type == "application/json":
            return answer
        return error(500, "The server had an error.", "server_error")


def _new(asked: Json) -> Json:
    """A batch as it begins."""
    now = int(time.time())
    times = ("in_progress", "finalizing", "completed", "failed", "expired")
    return {
        "id": f"batch_{secrets.token_hex(12)}",
        "object": "batch",
        "endpoint": asked["endpoint"],
        "errors": None,
        "input_file_id": asked["input_file_id"],
        "completion_window": asked["completion_window"],
        "status": "validating",
        "output_file_id": None,
        "error_file_id": None,
        "created_at": now,
        "expires_at": now + DAY_S,
        **{f"{name}_at": None for name in (*times, "cancelling", "cancelled")},
        "request_counts": {"total": 0, "completed": 0, "failed": 0},
        "metadata": asked.get("metadata"),
    }


def _result(line: Line, answer: Answer) -> Json:
    return {
        "id": f"batch_req_{secrets.token_hex(12)}",
        "custom_id": line.custom_id,
        "response": {
            "status_code": answer.status,
            "request_id": secrets.token_hex(16),
            "body": orjson.loads(answer.body),
        },
        "error": None,
    }


def _expired(line: Line) -> Json:
    message = "This request could not be executed before the completion window expired."
    return {
        "id": f"batch_req_{secrets.token_hex(12)}",
        "custom_id": line.custom_id,
        "response": None,
        "error": {"code": "batch_expired", "message": message},
    }
