"""Batches over the files and batches of the OpenAI protocol, whoever makes the HTTP requests."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, BinaryIO, Final, Protocol

from assizes.judge.config.prices import Price
from assizes.judge.errors import ModelError
from assizes.judge.models.completions import completion_of, unusable_reason
from assizes.judge.models.model import Completion, UnusableReply
from assizes.judge.models.provider_errors import model_error, readable
from assizes.judge.protocol import Ask

log = logging.getLogger(__name__)

BATCH_FLAG: Final = "batch"
"""Marks completions that a batch brought, and the asks they answered."""

BATCH_PROVIDERS: Final = ("azure", "hosted_vllm", "litellm_proxy", "openai")
"""Providers that keep a tag with a batch and list it. Without that, a batch that was handed in just
before a crash would be handed in, and paid for, once more.
"""

FILE_TIMEOUT_S: Final = 600.0
"""A file of requests may have 200 MB."""

_ENDED: Final = frozenset({"completed", "failed", "expired", "cancelled"})


@dataclass(frozen=True, slots=True)
class BatchStatus:
    """Where a batch stands.

    Args:
        name: the provider's word for it: `in_progress`, `completed`, `expired`, ...
        ended: nothing more will come of it.
        done: asks answered or failed so far.
        why: what the provider says is wrong with it.
    """

    name: str
    ended: bool
    done: int = 0
    why: str = ""


class BatchCalls(Protocol):
    """The requests to one model's provider; each is made once, whatever comes of it.

    Raises:
        ModelError: by every method that makes one.
    """

    model: str
    price: Price | None

    def body(self, ask: Ask[Any]) -> dict[str, Any]:
        """The body of the request that a live call would make."""

    def response(self, body: dict[str, Any]) -> Any:
        """The response that a live call would make of such a body."""

    async def upload(self, lines: BinaryIO) -> str:
        """Upload a file of requests; its id."""

    async def begin(self, file_id: str, tag: Mapping[str, str]) -> Any:
        """Begin a batch over a file."""

    async def batch(self, batch_id: str) -> Any:
        """A batch as it stands."""

    async def page(self, after: str | None) -> Any:
        """Batches, the newest first, beginning behind the one named."""

    def content(self, file_id: str) -> AsyncIterator[bytes]:
        """The bytes of a file, as they come."""


class ProviderBatches:
    """The batch endpoint of one model's provider; implements `assizes.judge.engine.batching.Batches`."""

    def __init__(self, calls: BatchCalls) -> None:
        self._calls = calls

    def body(self, ask: Ask[Any]) -> dict[str, Any]:
        """The body of the request that a live call would make."""
        return self._calls.body(ask)

    async def submit(self, lines: BinaryIO, tag: Mapping[str, str]) -> str:
        """Upload the requests and begin a batch over them."""
        return str((await self._calls.begin(await self._calls.upload(lines), tag)).id)

    async def find(self, tag: Mapping[str, str]) -> str | None:
        """Page by page, the newest first."""
        after: str | None = None
        while True:
            page = await self._calls.page(after)
            for batch in page.data:
                if tag.items() <= (batch.metadata or {}).items():
                    return str(batch.id)
            before, after = after, page.data[-1].id if page.data else None
            if after in (None, before) or not getattr(page, "has_more", False):
                return None

    async def status(self, batch_id: str) -> BatchStatus:
        """As the provider tells it now."""
        return _status(await self._calls.batch(batch_id))

    async def results(self, batch_id: str) -> AsyncIterator[tuple[str, Completion | ModelError]]:
        """Line by line, the answers before the failures; what is no line of a batch is skipped.

        Raises:
            ModelError: also when none of the answers can be read: what was downloaded is not what
                was paid for, and may be there later.
        """
        batch = await self._calls.batch(batch_id)
        for file_id in filter(None, (batch.output_file_id, batch.error_file_id)):
            lines = known = 0
            async for raw in _lines(self._calls.content(file_id)):
                lines += 1
                line = _parse_line(raw)
                if line is None:
                    excerpt = readable(raw[:200].decode(errors="replace"))
                    log.warning(
                        "batch %s: skipped what is no line of a batch: %s", batch_id, excerpt
                    )
                    continue
                known += 1
                yield line["custom_id"], self._outcome(line)
            if lines and not known and file_id == batch.output_file_id:
                raise ModelError("unavailable", f"no line of file {file_id} can be read")

    def _outcome(self, line: dict[str, Any]) -> Completion | ModelError:
        """What came of one ask, as if it had been a call; tokens are null where none were metered."""
        answer = line.get("response")
        answer = answer if isinstance(answer, dict) else {}
        status, body = answer.get("status_code"), answer.get("body") or {}
        if status != 200:
            failure = json.dumps(body or {"error": line.get("error")})
            return model_error(_LineFailure(status if isinstance(status, int) else None, failure))
        if not isinstance(body, dict):
            return ModelError("unavailable", "no answer: the body of the line is no object")
        try:
            return self._answer(body)
        except _MALFORMED as error:
            return ModelError("unavailable", readable(f"no answer: {error}"))

    def _answer(self, body: dict[str, Any]) -> Completion | UnusableReply:
        response = self._calls.response(body)
        completion = completion_of(response, self._calls.model, self._calls.price, batch=True)
        completion = replace(completion, flags=(BATCH_FLAG,))
        why = unusable_reason(response)
        return UnusableReply(*why, completion) if why else completion


class _LineFailure(Exception):
    """A line of an error file as live calls fail: with the HTTP status, where there was one."""

    def __init__(self, status_code: int | None, message: str) -> None:
        super().__init__(message)
        self.status_code = status_code


def _status(batch: Any) -> BatchStatus:
    counts = batch.request_counts
    done = counts.completed + counts.failed if counts else 0
    # For a moment a completed batch does not name its files yet.
    has_files = bool(batch.output_file_id or batch.error_file_id)
    ended = batch.status in _ENDED and (batch.status != "completed" or has_files or not done)
    problems = (batch.errors.data if batch.errors else None) or []
    why = readable(f"{problems[0].code}: {problems[0].message}") if problems else ""
    return BatchStatus(str(batch.status), ended, done, why)


_MALFORMED: Final = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""What reading a body of another shape raises in the client library, or here."""


def _parse_line(raw: bytes) -> dict[str, Any] | None:
    """A line with the key of its ask; null for anything else."""
    try:
        line = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    return line if isinstance(line, dict) and isinstance(line.get("custom_id"), str) else None


async def _lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    rest = b""
    async for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        for line in filter(bytes.strip, lines):
            yield line
    if rest.strip():
        yield rest
