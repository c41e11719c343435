"""Batches of Amazon Bedrock: jobs over a file of requests in a bucket (`CreateModelInvocationJob`).

Each part gets a token before it is submitted. The token is in the name of the job and of its objects,
and it is the job's `clientRequestToken`, with which Bedrock creates a job at most once.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import AsyncIterator, Mapping
from typing import Any, BinaryIO, Final

from assizes.judge.config.bedrock import BedrockConfig
from assizes.judge.errors import ConfigurationError, ModelError
from assizes.judge.models.batch_lines import BatchStatus, LineFailure, Submission, known_lines
from assizes.judge.models.bedrock_format import BedrockFormat, PartsOf, bedrock_format
from assizes.judge.models.bedrock_jobs import AwsClients, region_for
from assizes.judge.models.model import Completion
from assizes.judge.models.provider_calls import model_error, readable
from assizes.judge.models.provider_format import CallArguments
from assizes.judge.models.provider_http import checked_id, count
from assizes.judge.protocol import Ask

FILE: Final = "asks.jsonl"
"""The name of the object with the requests of a part."""

_PREFIX: Final = "assizes-"  # of the name of a job
_NAME: Final = re.compile(rf"{_PREFIX}[0-9a-f]{{32}}")
_WITH_RESULTS: Final = frozenset({"Completed", "PartiallyCompleted"})
_END_STATES: Final = _WITH_RESULTS | {"Failed", "Stopped", "Expired"}


def bedrock_batches(
    model: CallArguments, parts_of: PartsOf, config: BedrockConfig
) -> BedrockBatches:
    """The batch endpoint of a model of Amazon Bedrock, with the credentials of the environment.

    Raises:
        ConfigurationError: as `format_for`, or no region is known.
    """
    described = format_for(model, parts_of, config)
    region = region_for(described.model_id)
    if region is None:
        raise ConfigurationError(
            f"[runner] batch: no AWS region is known for {model.name!r}: set AWS_REGION in the "
            "environment"
        )
    return BedrockBatches(described, config, AwsClients(region, model.api_base))


def format_for(model: CallArguments, parts_of: PartsOf, config: BedrockConfig) -> BedrockFormat:
    """The format of a model's batches, by the settings alone: the environment is not looked at.

    Raises:
        ConfigurationError: a setting is missing, or batches cannot ask the model as it is configured.
    """
    settings = {"uri": config.uri, "role_arn": config.role_arn}
    if missing := [name for name, value in settings.items() if value is None]:
        raise ConfigurationError(
            f"[runner] batch: batches for {model.name!r} need a bucket and a role: set "
            f"{' and '.join(missing)} in [runner.bedrock], or run with --no-batch"
        )
    return bedrock_format(model, parts_of)


class BedrockBatches:
    """The batch endpoint of one model; implements `assizes.judge.engine.batching.Batches`."""

    def __init__(
        self, described: BedrockFormat, config: BedrockConfig, clients: AwsClients
    ) -> None:
        self.min_asks = config.min_records
        self._format = described
        self._config = config
        self._aws = clients

    def body(self, ask: Ask[Any]) -> dict[str, Any]:
        """Return the body of the request that a live call would send."""
        return self._format.bodies.body(ask)

    def line(self, key: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return the record of an ask; a key consists of letters and digits, as a `recordId` must."""
        return {"recordId": key, "modelInput": body}

    async def latest(self) -> str | None:
        """Return a new token, by which the job and its objects are found again."""
        return uuid.uuid4().hex

    async def submit(self, lines: BinaryIO, submission: Submission) -> str:
        """Put the requests into the bucket and create a job over them; return its ARN."""
        token = submission.after or ""
        await self._aws.put(f"{self._folder(token)}/{FILE}", lines)
        return await self._create(token)

    async def find(self, submission: Submission) -> str | None:
        """Return the ARN of the job of a part; None where its requests are not in the bucket.

        Where the requests are there and no job is listed, the job is created: with the same token,
        Bedrock returns a job that exists, even if the list does not show it yet.
        """
        if not (token := submission.after):  # it is noted before anything is sent
            return None
        if (job_id := await self._aws.job_named(f"{_PREFIX}{token}")) is not None:
            return checked_id(job_id)
        if not await self._aws.exists(f"{self._folder(token)}/{FILE}"):
            return None
        return await self._create(token)

    async def status(self, batch_id: str) -> BatchStatus:
        """Return the present status of a job."""
        job = await self._aws.job(checked_id(batch_id))
        name = str(job.get("status"))[:40]
        why = readable(str(job.get("message") or ""))
        if failed := count(job.get("errorRecordCount")):
            why = f"{why}; {failed} failed" if why else f"{failed} failed"
        return BatchStatus(name, name in _END_STATES, count(job.get("processedRecordCount")), why)

    async def results(self, batch_id: str) -> AsyncIterator[tuple[str, Completion | ModelError]]:
        """Yield key and outcome of each ask; nothing for a job that left no file of results.

        Raises:
            ModelError: a request failed, or no line can be read.
        """
        job = await self._aws.job(checked_id(batch_id))
        content = self._aws.content(_output(job, batch_id))
        try:
            async for line in known_lines(
                content, (f"batch {batch_id}", f"the results of batch {batch_id}"), "recordId"
            ):
                yield line["recordId"], self._outcome(line)
        except ModelError as error:
            # A job that failed, was stopped or never began may have left nothing.
            if error.code != "not_found" or job.get("status") in _WITH_RESULTS:
                raise

    async def discard(self, submission: Submission) -> None:
        """Delete the objects of a part: its requests and its results."""
        if submission.after:
            await self._aws.delete_below(self._folder(submission.after))

    def _outcome(self, line: Mapping[str, Any]) -> Completion | ModelError:
        if isinstance(line.get("modelOutput"), dict):
            return self._format.bodies.outcome(line["modelOutput"])
        error = line.get("error")
        error = error if isinstance(error, dict) else {}
        code, message = error.get("errorCode"), error.get("errorMessage")
        told = json.dumps({"error": {"message": str(message or "no answer")}})
        return model_error(LineFailure(code if isinstance(code, int) else None, told))

    async def _create(self, token: str) -> str:
        folder = self._folder(token)
        data = {"s3Uri": f"{folder}/{FILE}", "s3InputFormat": "JSONL"}
        job_id = await self._aws.create(
            jobName=f"{_PREFIX}{token}",
            clientRequestToken=token,
            roleArn=self._config.role_arn,
            modelId=self._format.model_id,
            modelInvocationType=self._format.invocation,
            inputDataConfig={"s3InputDataConfig": data},
            outputDataConfig={"s3OutputDataConfig": {"s3Uri": f"{folder}/"}},
            timeoutDurationInHours=self._config.timeout_hours,
        )
        return checked_id(job_id)

    def _folder(self, token: str) -> str:
        return f"{(self._config.uri or '').rstrip('/')}/{_PREFIX}{token}"


def _output(job: Mapping[str, Any], batch_id: str) -> str:
    """The URI of the results of a job, which must be in the folder of the job's part.

    Raises:
        ModelError: the job is none of ours.
    """
    name = str(job.get("jobName"))
    data = job.get("outputDataConfig", {}).get("s3OutputDataConfig", {})
    folder = str(data.get("s3Uri")).rstrip("/")
    if not _NAME.fullmatch(name) or not (
        folder.startswith("s3://") and folder.endswith(f"/{name}")
    ):
        raise ModelError("bad_request", f"job {name[:60]!r} was not made by assizes")
    return f"{folder}/{batch_id.rpartition('/')[2]}/{FILE}.out"
