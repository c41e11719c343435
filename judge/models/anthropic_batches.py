"""Message batches of Anthropic, by the documented HTTP interface; litellm cannot create any.

Anthropic keeps neither a tag nor an idempotency key with a batch. A batch that may have been
submitted is therefore looked for among those that are newer than the newest one before: by its
number of requests, and, once it has ended, by the keys of its results.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from typing import Any, BinaryIO, Final

from assizes.judge.errors import ConfigurationError, ModelError
from assizes.judge.models.batch_lines import (
    BatchStatus,
    FilesAtProvider,
    LineFailure,
    Submission,
    Undecided,
    known_lines,
)
from assizes.judge.models.model import Completion
from assizes.judge.models.provider_calls import model_error
from assizes.judge.models.provider_format import (
    CallArguments,
    LiteLLMParts,
    ProviderFormat,
    anthropic_format,
)
from assizes.judge.models.provider_http import FILE_TIMEOUT_S, ProviderHttp, checked_id, count
from assizes.judge.protocol import Ask

PATH: Final = "/v1/messages/batches"
VERSION: Final = "2023-06-01"  # of the interface; live calls name the same

PAGE: Final = 100
"""Batches on a page of the list; 1,000 are allowed."""

_HEAD: Final = b'{"requests":['
_TAIL: Final = b"]}"

_STATUSES: Final[Mapping[str, int]] = {  # type of an error -> HTTP status of the same live error
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
_COUNTS: Final = ("processing", "succeeded", "errored", "canceled", "expired")


def anthropic_batches(model: CallArguments, parts: LiteLLMParts) -> AnthropicBatches:
    """The batch endpoint of a model of Anthropic, with the key of the environment.

    Raises:
        ConfigurationError: there is no key.
    """
    auth = parts.chat.get_auth_header(None, model.api_base)
    if auth is None:
        raise ConfigurationError(
            f"[judge] model {model.name!r}: set ANTHROPIC_API_KEY in the environment"
        )
    base = parts.chat.get_api_base(model.api_base).rstrip("/")
    http = ProviderHttp(
        base.removesuffix("/v1/messages").removesuffix("/v1"),
        {**auth, "anthropic-version": VERSION},
    )
    return AnthropicBatches(anthropic_format(model, parts), http)


class AnthropicBatches(FilesAtProvider):
    """The batch endpoint of one model; implements `assizes.judge.engine.batching.Batches`."""

    def __init__(self, provider_format: ProviderFormat, http: ProviderHttp) -> None:
        self._format = provider_format
        self._http = http

    def body(self, ask: Ask[Any]) -> dict[str, Any]:
        """Return the body of the request that a live call would send."""
        return self._format.body(ask)

    def line(self, key: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return the request of an ask; a key of 64 hex digits is as long as a `custom_id` may be."""
        return {"custom_id": key, "params": body}

    async def latest(self) -> str | None:
        """Return the id of the newest batch; an empty text without one."""
        batches = (await self._page(None, 1))["data"]
        return checked_id(batches[0].get("id")) if batches else ""

    async def submit(self, lines: BinaryIO, submission: Submission) -> str:
        """Create a batch of the requests, which are read while they are sent; return its id."""
        size = lines.seek(0, 2)
        lines.seek(0)
        headers = {
            **self._format.headers,
            "content-type": "application/json",
            # Each line ends with a line feed; all but the last become commas.
            "content-length": str(len(_HEAD) + max(0, size - 1) + len(_TAIL)),
        }
        content = _joined(lines)
        answer, _ = await self._http.json(
            "POST", PATH, headers=headers, content=content, timeout_s=FILE_TIMEOUT_S
        )
        return checked_id(answer.get("id"))

    async def find(self, submission: Submission) -> str | None:
        """Return the id of the batch whose results have the keys of the submission, else None.

        Raises:
            Undecided: a batch with as many requests has not ended, so that it has no results.
        """
        if submission.after is None:  # it is noted before every submission
            return None
        undecided = ""
        async for batch in self._since(submission.after):
            batch_id = checked_id(batch.get("id"))
            is_other = batch_id in submission.known or batch.get("archived_at") is not None
            if is_other or _requests(batch) != len(submission.keys):
                continue
            if batch.get("processing_status") != "ended":
                undecided = batch_id
            elif await self._keys(batch_id) == set(submission.keys):
                return batch_id
        if undecided:
            raise Undecided(f"batch {undecided} may be it; its results will tell")
        return None

    async def status(self, batch_id: str) -> BatchStatus:
        """Return the present status of a batch."""
        batch, _ = await self._http.json("GET", f"{PATH}/{checked_id(batch_id)}")
        counts = _counts(batch)
        name = str(batch.get("processing_status"))[:40]
        lost = [f"{counts[word]} {word}" for word in _COUNTS[2:] if counts[word]]
        done = sum(counts.values()) - counts["processing"]
        return BatchStatus(name, name == "ended", done, ", ".join(lost))

    async def results(self, batch_id: str) -> AsyncIterator[tuple[str, Completion | ModelError]]:
        """Yield key and outcome of each ask.

        Raises:
            ModelError: a request failed, or no line can be read.
        """
        async for line in self._lines(batch_id):
            yield line["custom_id"], self._outcome(line.get("result"))

    def _outcome(self, result: object) -> Completion | ModelError:
        """Return the outcome of an ask; only a request that succeeded is charged."""
        result = result if isinstance(result, dict) else {}
        kind = result.get("type")
        if kind == "succeeded":
            return self._format.outcome(result.get("message"))
        if kind in ("canceled", "expired"):
            return ModelError("unavailable", f"the request {kind} in its batch")
        error = result.get("error")  # {"type": "error", "error": {"type": ..., "message": ...}}
        inner = error.get("error", error) if isinstance(error, dict) else {}
        name = inner.get("type") if isinstance(inner, dict) else None
        return model_error(LineFailure(_STATUSES.get(str(name)), json.dumps({"error": inner})))

    async def _keys(self, batch_id: str) -> set[str]:
        return {line["custom_id"] async for line in self._lines(batch_id)}

    def _lines(self, batch_id: str) -> AsyncIterator[dict[str, Any]]:
        # By its own address, not by `results_url`: the key goes to no other place.
        content = self._http.content(f"{PATH}/{checked_id(batch_id)}/results")
        return known_lines(content, (f"batch {batch_id}", f"the results of batch {batch_id}"))

    async def _since(self, newest: str) -> AsyncIterator[dict[str, Any]]:
        """Yield the batches that are newer than this one, the newest first."""
        after: str | None = None
        while True:
            page = await self._page(after, PAGE)
            for batch in page["data"]:
                if batch.get("id") == newest:
                    return
                yield batch
            before, after = after, page.get("last_id")
            # A server that ignores `after_id` gives the same page again: without an end.
            if not page.get("has_more") or after in (None, before):
                return

    async def _page(self, after: str | None, limit: int) -> dict[str, Any]:
        """Return a page of batches, newest first."""
        params = {"limit": str(limit)} | ({"after_id": after} if after else {})
        page, _ = await self._http.json("GET", PATH, params=params)
        data = page.get("data")
        batches = (
            [batch for batch in data if isinstance(batch, dict)] if isinstance(data, list) else []
        )
        return {**page, "data": batches}


def _counts(batch: Mapping[str, Any]) -> dict[str, int]:
    counts = batch.get("request_counts")
    counts = counts if isinstance(counts, dict) else {}
    return {word: count(counts.get(word)) for word in _COUNTS}


def _requests(batch: Mapping[str, Any]) -> int:
    return sum(_counts(batch).values())


async def _joined(lines: BinaryIO) -> AsyncIterator[bytes]:
    """Yield the lines as the items of the JSON list of a batch."""
    yield _HEAD
    before = b""
    for line in lines:
        yield before + line.rstrip(b"\n")
        before = b","
    yield _TAIL
