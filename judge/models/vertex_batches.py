"""Batches of Vertex AI: batch prediction jobs over a file of requests in a bucket of Cloud Storage.

Each part gets a token before it is submitted. The token is in the display name of the job and in the
names of its objects, and the job is found again by it.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import AsyncIterator, Mapping
from typing import Any, BinaryIO, Final

from assizes.judge.config.vertex import VertexConfig
from assizes.judge.errors import ConfigurationError, ModelError
from assizes.judge.models.batch_lines import BatchStatus, LineFailure, Submission, known_lines
from assizes.judge.models.model import Completion
from assizes.judge.models.provider_calls import model_error, readable
from assizes.judge.models.provider_format import CallArguments
from assizes.judge.models.provider_http import checked_id, count
from assizes.judge.models.vertex_format import PartsOf, VertexFormat, vertex_format
from assizes.judge.models.vertex_jobs import GoogleClients, vertex_place
from assizes.judge.protocol import Ask

FILE: Final = "asks.jsonl"
"""The name of the object with the requests of a part."""

_PREFIX: Final = "assizes-"  # of the display name of a job
_NAME: Final = re.compile(rf"{_PREFIX}[0-9a-f]{{32}}")
_REPLIES: Final = "replies"  # the folder of a part in which a job leaves its results
_STATE: Final = "JOB_STATE_"
_WITH_RESULTS: Final = frozenset({"SUCCEEDED", "PARTIALLY_SUCCEEDED"})
_END_STATES: Final = _WITH_RESULTS | {"FAILED", "CANCELLED", "EXPIRED"}
_HTTP_STATUS: Final = re.compile(r'"code"\s*:\s*([45][0-9]{2})\b')


def vertex_batches(model: CallArguments, parts_of: PartsOf, config: VertexConfig) -> VertexBatches:
    """The batch endpoint of a model of Vertex AI, with the credentials of the environment.

    Raises:
        ConfigurationError: as `format_for`, or project, location or credentials cannot be used.
    """
    described = format_for(model, parts_of, config)
    access = parts_of(model.provider, described.name).google_access()
    place = vertex_place(model.name, described.name, model.api_base, access.get_vertex_region)
    return VertexBatches(described, config, GoogleClients(place, access))


def format_for(model: CallArguments, parts_of: PartsOf, config: VertexConfig) -> VertexFormat:
    """The format of a model's batches, by the settings alone: the environment is not looked at.

    Raises:
        ConfigurationError: the bucket is missing, or batches cannot ask the model.
    """
    if config.uri is None:
        raise ConfigurationError(
            f"[runner] batch: batches for {model.name!r} need a bucket: set uri in "
            "[runner.vertex], or run with --no-batch"
        )
    return vertex_format(model, parts_of)


class VertexBatches:
    """The batch endpoint of one model; implements `assizes.judge.engine.batching.Batches`."""

    min_asks = 1

    def __init__(
        self, described: VertexFormat, config: VertexConfig, clients: GoogleClients
    ) -> None:
        self._format = described
        self._uri = (config.uri or "").rstrip("/")
        self._google = clients

    def body(self, ask: Ask[Any]) -> dict[str, Any]:
        """Return the body of the request that a live call would send."""
        return self._format.bodies.body(ask)

    def line(self, key: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return the line of an ask; a key consists of digits and small letters, as labels must."""
        return self._format.line(key, body)

    async def latest(self) -> str | None:
        """Return a new token, by which the job and its objects are found again."""
        return uuid.uuid4().hex

    async def submit(self, lines: BinaryIO, submission: Submission) -> str:
        """Put the requests into the bucket and create a job over them; return its name."""
        token = submission.after or ""
        await self._google.put(f"{self._folder(token)}/{FILE}", lines)
        return await self._create(token)

    async def find(self, submission: Submission) -> str | None:
        """Return the name of the job of a part; None where its requests are not in the bucket.

        Where the requests are there and no job is listed, the process died between the two requests
        of a submission: the job is created.
        """
        if not (token := submission.after):  # it is noted before anything is sent
            return None
        if (job_id := await self._google.job_named(f"{_PREFIX}{token}")) is not None:
            return job_id
        if not await self._google.exists(f"{self._folder(token)}/{FILE}"):
            return None
        return await self._create(token)

    async def status(self, batch_id: str) -> BatchStatus:
        """Return the present status of a job."""
        job = await self._google.job(checked_id(batch_id))
        name = _state(job)
        stats = _object(job.get("completionStats"))
        failed = count(stats.get("failedCount"))
        why = readable(str(_object(job.get("error")).get("message") or ""))
        if failed:
            why = f"{why}; {failed} failed" if why else f"{failed} failed"
        done = count(stats.get("successfulCount")) + failed
        return BatchStatus(name[:40].lower(), name in _END_STATES, done, why)

    async def results(self, batch_id: str) -> AsyncIterator[tuple[str, Completion | ModelError]]:
        """Yield key and outcome of each ask; nothing for a job that left no file of results.

        Raises:
            ModelError: a request failed, or no line can be read.
        """
        job = await self._google.job(checked_id(batch_id))
        folder = f"{_folder_of(job)}/{_REPLIES}"
        files = sorted(each for each in await self._google.below(folder) if each.endswith(".jsonl"))
        if not files and _state(job) in _WITH_RESULTS:
            raise ModelError("unavailable", f"batch {batch_id} has left no file of results")
        yielded: set[str] = set()  # a job that was broken off may have written a line twice
        for uri in files:
            where = (f"batch {batch_id}", f"the results of batch {batch_id}")
            async for line in known_lines(self._google.content(uri), where, self._format.key):
                key = self._format.key(line) or ""
                if key not in yielded:
                    yielded.add(key)
                    yield key, self._outcome(line)

    async def discard(self, submission: Submission) -> None:
        """Delete the objects of a part: its requests and its results."""
        if submission.after:
            await self._google.delete_below(self._folder(submission.after))

    def _outcome(self, line: Mapping[str, Any]) -> Completion | ModelError:
        if response := _object(line.get("response")):
            return self._format.bodies.outcome(response)
        told = line.get("status") or line.get("error") or "no answer"
        text = told if isinstance(told, str) else json.dumps(told)
        named = _HTTP_STATUS.search(text)
        failure = json.dumps({"error": {"message": text[:2000]}})
        return model_error(LineFailure(int(named[1]) if named else None, failure))

    async def _create(self, token: str) -> str:
        folder = self._folder(token)
        source = {"gcsSource": {"uris": [f"{folder}/{FILE}"]}, "instancesFormat": "jsonl"}
        target = {"outputUriPrefix": f"{folder}/{_REPLIES}"}
        job = {
            "displayName": f"{_PREFIX}{token}",
            "model": self._format.resource,
            "inputConfig": source,
            "outputConfig": {"gcsDestination": target, "predictionsFormat": "jsonl"},
        }
        return await self._google.create(job)

    def _folder(self, token: str) -> str:
        return f"{self._uri}/{_PREFIX}{token}"


def _state(job: Mapping[str, Any]) -> str:
    return str(job.get("state")).removeprefix(_STATE)


def _folder_of(job: Mapping[str, Any]) -> str:
    """The URI of the folder of a job's part.

    Raises:
        ModelError: the job is none of ours.
    """
    name = str(job.get("displayName"))
    target = _object(_object(job.get("outputConfig")).get("gcsDestination"))
    folder = str(target.get("outputUriPrefix")).rstrip("/").removesuffix(f"/{_REPLIES}")
    if not (_NAME.fullmatch(name) and folder.startswith("gs://") and folder.endswith(f"/{name}")):
        raise ModelError("bad_request", f"job {name[:60]!r} was not made by assizes")
    return folder


def _object(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
