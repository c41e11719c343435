"""Batches of the Gemini API, by the documented HTTP interface; litellm has them for Vertex AI only.

The requests are uploaded as a file; the batch over the file has a display name, by which it is found
again.
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Mapping
from typing import Any, BinaryIO, Final

from assizes.judge.errors import ConfigurationError, ModelError
from assizes.judge.models.batch_lines import (
    BatchStatus,
    FilesAtProvider,
    LineFailure,
    Submission,
    known_lines,
)
from assizes.judge.models.model import Completion
from assizes.judge.models.provider_calls import model_error, readable
from assizes.judge.models.provider_format import (
    CallArguments,
    LiteLLMParts,
    ProviderFormat,
    gemini_format,
)
from assizes.judge.models.provider_http import (
    FILE_TIMEOUT_S,
    ProviderHttp,
    checked_id,
    count,
    file_chunks,
)
from assizes.judge.protocol import Ask

ADDRESS: Final = "https://generativelanguage.googleapis.com"
VERSION: Final = "/v1beta"

PAGE: Final = 100
"""Batches on a page of the list."""

_END_STATES: Final = frozenset({"SUCCEEDED", "FAILED", "CANCELLED", "EXPIRED"})

_STATUSES: Final[Mapping[int, int]] = {  # code of a failed request -> HTTP status of the same fault
    **{3: 400, 4: 504, 5: 404, 7: 403},
    **{8: 429, 13: 500, 14: 503, 16: 401},
}


def gemini_batches(model: CallArguments, parts: LiteLLMParts) -> GeminiBatches:
    """The batch endpoint of a model of the Gemini API, with the key of the environment.

    Raises:
        ConfigurationError: there is no key.
    """
    key = os.environ.get("GEMINI_API_KEY") or os.environ.get("GOOGLE_API_KEY")
    if not key:
        raise ConfigurationError(
            f"[judge] model {model.name!r}: set GEMINI_API_KEY in the environment"
        )
    base = (model.api_base or ADDRESS).rstrip("/").removesuffix(VERSION)
    http = ProviderHttp(base, {"x-goog-api-key": key})
    return GeminiBatches(gemini_format(model, parts), http)


class GeminiBatches(FilesAtProvider):
    """The batch endpoint of one model; implements `assizes.judge.engine.batching.Batches`."""

    def __init__(self, provider_format: ProviderFormat, http: ProviderHttp) -> None:
        self._format = provider_format
        self._http = http

    def body(self, ask: Ask[Any]) -> dict[str, Any]:
        """Return the body of the request that a live call would send."""
        return self._format.body(ask)

    def line(self, key: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return the line of a file of requests for an ask with this key."""
        return {"key": key, "request": body}

    async def latest(self) -> str | None:
        """Return None: `find` goes by the display name."""
        return None

    async def submit(self, lines: BinaryIO, submission: Submission) -> str:
        """Upload the requests, which are read while they are sent, and begin a batch over them."""
        name = display_name(submission.tag)
        file_id = await self._upload(lines, name)
        batch = {"display_name": name, "input_config": {"file_name": file_id}}
        path = f"{VERSION}/models/{checked_id(self._format.name)}:batchGenerateContent"
        operation, _ = await self._http.json("POST", path, json={"batch": batch})
        return checked_id(operation.get("name"))

    async def find(self, submission: Submission) -> str | None:
        """Return the id of the newest batch that has the display name; None when no batch has."""
        wanted, token = display_name(submission.tag), ""
        while True:
            params = {"pageSize": str(PAGE)} | ({"pageToken": token} if token else {})
            page, _ = await self._http.json("GET", f"{VERSION}/batches", params=params)
            for operation in _objects(page.get("operations")):
                if _metadata(operation).get("displayName") == wanted:
                    return checked_id(operation.get("name"))
            before, token = token, str(page.get("nextPageToken") or "")
            # A server that ignores the token gives the same page again: without an end.
            if token in ("", before):
                return None

    async def status(self, batch_id: str) -> BatchStatus:
        """Return the present status of a batch."""
        operation = await self._operation(batch_id)
        metadata = _metadata(operation)
        name = str(metadata.get("state")).removeprefix("BATCH_STATE_").removeprefix("JOB_STATE_")
        stats = metadata.get("batchStats")
        stats = stats if isinstance(stats, dict) else {}
        done = sum(count(stats.get(f"{how}RequestCount")) for how in ("successful", "failed"))
        error = operation.get("error")
        why = readable(json.dumps({"error": error})) if error else ""
        return BatchStatus(name[:40].lower(), name in _END_STATES, done, why)

    async def results(self, batch_id: str) -> AsyncIterator[tuple[str, Completion | ModelError]]:
        """Yield key and outcome of each ask; nothing for a batch that left no file of results.

        Raises:
            ModelError: a request failed, or no line can be read.
        """
        operation = await self._operation(batch_id)
        places = (operation.get("response"), _metadata(operation).get("output"))
        named = (place.get("responsesFile") for place in places if isinstance(place, dict))
        file_id = next(filter(None, named), None)
        if file_id is None:
            return
        content = self._http.content(f"/download{VERSION}/{checked_id(file_id)}:download?alt=media")
        where = (f"batch {batch_id}", f"file {file_id}")
        async for line in known_lines(content, where, "key"):
            yield line["key"], self._outcome(line)

    def _outcome(self, line: Mapping[str, Any]) -> Completion | ModelError:
        if isinstance(line.get("response"), dict):
            return self._format.outcome(line["response"])
        error = line.get("error") or line.get("status")
        error = error if isinstance(error, dict) else {}
        code = error.get("code")
        status = code if isinstance(code, int) and code >= 400 else _STATUSES.get(count(code))
        return model_error(LineFailure(status, json.dumps({"error": error})))

    async def _operation(self, batch_id: str) -> dict[str, Any]:
        operation, _ = await self._http.json("GET", f"{VERSION}/{checked_id(batch_id)}")
        return operation

    async def _upload(self, lines: BinaryIO, name: str) -> str:
        """Upload a file of requests; return its id."""
        size = str(lines.seek(0, 2))
        lines.seek(0)
        start = {
            "x-goog-upload-protocol": "resumable",
            "x-goog-upload-command": "start",
            "x-goog-upload-header-content-length": size,
            "x-goog-upload-header-content-type": "application/jsonl",
        }
        file = {"file": {"display_name": name}}
        path = f"/upload{VERSION}/files"
        _, answered = await self._http.json("POST", path, headers=start, json=file)
        address = answered.get("x-goog-upload-url", "")
        if not address.startswith(f"{self._http.base}/"):  # the key goes to no other place
            raise ModelError("unavailable", f"{path}: the answer names no address for the upload")
        send = {
            "content-length": size,
            "x-goog-upload-offset": "0",
            "x-goog-upload-command": "upload, finalize",
        }
        uploaded, _ = await self._http.json(
            "POST", address, headers=send, content=file_chunks(lines), timeout_s=FILE_TIMEOUT_S
        )
        entry = uploaded.get("file")
        return checked_id(entry.get("name") if isinstance(entry, dict) else None)


def display_name(tag: Mapping[str, str]) -> str:
    """The tag of a part of a run as one text."""
    return " ".join(tag[name] for name in sorted(tag))


def _metadata(operation: Mapping[str, Any]) -> Mapping[str, Any]:
    metadata = operation.get("metadata")
    return metadata if isinstance(metadata, dict) else {}


def _objects(values: object) -> list[dict[str, Any]]:
    return (
        [value for value in values if isinstance(value, dict)] if isinstance(values, list) else []
    )
