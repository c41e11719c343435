"""Provider batches over the files and batches of the OpenAI protocol; `BatchCalls` does the HTTP."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO, Final, Protocol

from assizes.judge.config.judging import Price
from assizes.judge.errors import ModelError
from assizes.judge.models.model import Completion
from assizes.judge.models.provider_calls import (
    completion_of,
    model_error,
    readable,
    unusable_reason,
)
from assizes.judge.models.provider_format import MALFORMED, batch_outcome
from assizes.judge.protocol import Ask

log = logging.getLogger(__name__)

BATCH_PROVIDERS: Final = (
    *(
        "anthropic",
        "azure",
        "bedrock",
        "gemini",
        "hosted_vllm",
        "litellm_proxy",
        "openai",
        "vertex_ai",
    ),
)
"""Providers at which a batch that was submitted just before a crash is found again.

Elsewhere, such a batch would be submitted, and paid for, a second time.
"""

KeyOf = Callable[[Mapping[str, Any]], str | None]
"""Reads the key of an ask from a line of results."""

ENDPOINT: Final = "/v1/chat/completions"  # in each line, as OpenAI's batch files have it

_END_STATES: Final = frozenset({"completed", "failed", "expired", "cancelled"})  # OpenAI's words


@dataclass(frozen=True, slots=True)
class BatchStatus:
    """The status of a batch."""

    name: str  # the provider's word: `in_progress`, `completed`, ...
    ended: bool  # whether the status is final
    done: int = 0  # asks that were answered or failed so far
    why: str = ""  # the fault of the batch in the provider's words; empty without one


@dataclass(frozen=True, slots=True)
class Submission:
    """What is known of a batch that may have been submitted."""

    tag: Mapping[str, str]  # of the part of the run, for providers that keep a tag with a batch
    keys: Collection[str] = ()  # of the asks of the part
    after: str | None = None  # what `Batches.latest` gave before the part was submitted
    known: Collection[str] = ()  # ids of batches that belong to other parts of the run


class Undecided(ModelError):
    """Only time can tell whether a batch was submitted: a batch that may be it has not ended."""

    def __init__(self, detail: str) -> None:
        super().__init__("undecided", detail)


class FilesAtProvider:
    """The part of a batch endpoint that concerns files, where the provider keeps them for a time."""

    min_asks = 1

    async def discard(self, submission: Submission) -> None:
        """Delete nothing: the provider deletes its files itself."""


class BatchCalls(Protocol):
    """The HTTP requests to one model's provider; a failed request is not repeated.

    Raises:
        ModelError: raised by every method that makes a request, when it fails.
    """

    model: str
    price: Price | None  # of live calls; a batch costs the price's share for batches

    def body(self, ask: Ask[Any]) -> dict[str, Any]:
        """Return the body of the request that a live call would send."""

    def response(self, body: dict[str, Any]) -> Any:
        """Return the response object that a live call would return for a response's body."""

    async def upload(self, lines: BinaryIO) -> str:
        """Upload a file of requests; return its id."""

    async def begin(self, file_id: str, tag: Mapping[str, str]) -> Any:
        """Begin a batch over an uploaded file; return the batch."""

    async def batch(self, batch_id: str) -> Any:
        """Return a batch with its present status."""

    async def page(self, after: str | None) -> Any:
        """Return a page of batches, newest first; `after` is the last batch id of the page before."""

    def content(self, file_id: str) -> AsyncIterator[bytes]:
        """Yield the bytes of a file in chunks."""


class ProviderBatches(FilesAtProvider):
    """The batch endpoint of one model's provider; implements `assizes.judge.engine.batching.Batches`."""

    def __init__(self, calls: BatchCalls) -> None:
        self._calls = calls

    def body(self, ask: Ask[Any]) -> dict[str, Any]:
        """Return the body of the request that a live call would send."""
        return self._calls.body(ask)

    def line(self, key: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return the line of a file of requests for an ask with this key."""
        return {"custom_id": key, "method": "POST", "url": ENDPOINT, "body": body}

    async def latest(self) -> str | None:
        """Return None: `find` goes by the tag."""
        return None

    async def submit(self, lines: BinaryIO, submission: Submission) -> str:
        """Upload the requests and begin a batch over them; return the batch id."""
        return str((await self._calls.begin(await self._calls.upload(lines), submission.tag)).id)

    async def find(self, submission: Submission) -> str | None:
        """Return the id of the newest batch that has the tag; None when no batch has."""
        tag = submission.tag
        after: str | None = None
        while True:
            page = await self._calls.page(after)
            for batch in page.data:  # other users of the key may have batches of their own
                if tag.items() <= (batch.metadata or {}).items():
                    return str(batch.id)
            before, after = after, page.data[-1].id if page.data else None
            # A server that ignores `after` gives the same page again: without an end.
            if after in (None, before) or not getattr(page, "has_more", False):
                return None

    async def status(self, batch_id: str) -> BatchStatus:
        """Return the present status of a batch."""
        batch = await self._calls.batch(batch_id)
        counts = batch.request_counts
        done = counts.completed + counts.failed if counts else 0  # optional in the protocol
        # A batch that has just been completed does not name its files yet: it counts as running.
        has_files = bool(batch.output_file_id or batch.error_file_id)
        is_whole = batch.status != "completed" or has_files or not done
        problems = (batch.errors.data if batch.errors else None) or []
        why = readable(f"{problems[0].code}: {problems[0].message}") if problems else ""
        return BatchStatus(str(batch.status), batch.status in _END_STATES and is_whole, done, why)

    async def results(self, batch_id: str) -> AsyncIterator[tuple[str, Completion | ModelError]]:
        """Yield key and outcome of each ask, the answers before the failures.

        A line that is no line of a batch is skipped, with a warning in the log.

        Raises:
            ModelError: a request failed, or no line of the file of answers can be read. Such a file
                is not what was paid for; a later download may give the right one.
        """
        batch = await self._calls.batch(batch_id)  # an expired batch has the files of its answers
        for file_id in filter(None, (batch.output_file_id, batch.error_file_id)):
            where = f"batch {batch_id}", f"file {file_id}"
            is_required = file_id == batch.output_file_id
            async for line in known_lines(
                self._calls.content(file_id), where, required=is_required
            ):
                yield line["custom_id"], self._outcome(line)

    def _outcome(self, line: dict[str, Any]) -> Completion | ModelError:
        """Return the outcome of one ask as a live call would; tokens are None when not metered."""
        answer = line.get("response")  # null where the request failed: the fault is in `error`
        answer = answer if isinstance(answer, dict) else {}
        status, body = answer.get("status_code"), answer.get("body") or {}
        if status != 200:
            failure = json.dumps(body or {"error": line.get("error")})
            return model_error(LineFailure(status if isinstance(status, int) else None, failure))
        if not isinstance(body, dict):
            return ModelError("unavailable", "no answer: the body of the line is no object")
        try:  # a malformed line fails its own ask, not the batch
            response = self._calls.response(body)
            completion = completion_of(response, self._calls.model, self._calls.price, batch=True)
            why = unusable_reason(response)
        except MALFORMED as error:
            return ModelError("unavailable", readable(f"no answer: {error}"))
        return batch_outcome(completion, why)


class LineFailure(Exception):
    """A failed line of a batch as an exception with an HTTP status, as `model_error` reads it."""

    def __init__(self, status_code: int | None, message: str) -> None:
        super().__init__(message)
        self.status_code = status_code


def parse_line(raw: bytes, key: str | KeyOf = "custom_id") -> dict[str, Any] | None:
    """Return a line that has the key of its ask under this name or place; None for anything else."""
    try:
        line = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    if not isinstance(line, dict):
        return None
    value = line.get(key) if isinstance(key, str) else key(line)
    return line if isinstance(value, str) else None


async def read_lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield the lines of a file, without empty ones."""
    rest = b""  # the beginning of a line whose end is in a later chunk
    async for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        for line in filter(bytes.strip, lines):
            yield line
    if rest.strip():
        yield rest


async def known_lines(
    content: AsyncIterator[bytes],
    where: tuple[str, str],
    key: str | KeyOf = "custom_id",
    *,
    required: bool = True,
) -> AsyncIterator[dict[str, Any]]:
    """Yield the lines of a file of results that have the key of an ask; the others are skipped.

    `where` names the batch and the file in messages.

    Raises:
        ModelError: no line of a `required` file can be read. Such a file is not what was paid for; a
            later download may give the right one.
    """
    lines = known = 0
    async for raw in read_lines(content):
        lines += 1
        if (line := parse_line(raw, key)) is None:  # e.g. a download that was cut
            excerpt = readable(raw[:200].decode(errors="replace"))
            log.warning("%s: skipped what is no line of a batch: %s", where[0], excerpt)
            continue
        known += 1
        yield line
    if required and lines and not known:
        raise ModelError("unavailable", f"no line of {where[1]} can be read")
