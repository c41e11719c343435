"""Requests to Amazon Bedrock and its bucket, by the AWS client that s3fs works with.

Credentials, region and addresses come from where every AWS client takes them; the address of
Bedrock is that of `AWS_ENDPOINT_URL_BEDROCK`, else the `api_base` of the model, else that of the region.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, BinaryIO, Final

from assizes.judge.errors import ModelError
from assizes.judge.models.batch_lines import LineFailure
from assizes.judge.models.provider_calls import model_error
from assizes.judge.models.provider_http import CALL_TIMEOUT_S, FILE_TIMEOUT_S

PAGE: Final = 100
"""Jobs on a page of the list; 1,000 are allowed."""

MOST_OBJECTS: Final = 1000
"""The most objects of one part that are deleted; a part has four."""

_CHUNK: Final = 1 << 20  # bytes of an object that are read at once
_REGION: Final = re.compile(r"arn:[a-z-]+:bedrock:([a-z0-9-]+):")
_ADDRESSES: Final = ("AWS_ENDPOINT_URL_BEDROCK", "AWS_ENDPOINT_URL")


@dataclass(frozen=True)
class AwsClients:
    """Clients of one region; every method raises `ModelError` where AWS refuses or is away."""

    region: str
    api_base: str | None = None  # of the model

    @cached_property
    def _session(self) -> Any:
        from aiobotocore.session import get_session  # comes with s3fs; not every run needs it

        return get_session()

    async def job(self, job_id: str) -> dict[str, Any]:
        """Return a job with its present status."""
        async with self._bedrock() as client:
            job: dict[str, Any] = await client.get_model_invocation_job(jobIdentifier=job_id)
            return job

    async def create(self, **request: Any) -> str:
        """Create a job, or find the job that has the same `clientRequestToken`; return its ARN."""
        async with self._bedrock() as client:
            return str((await client.create_model_invocation_job(**request))["jobArn"])

    async def job_named(self, name: str) -> str | None:
        """Return the ARN of the job with this name; None where there is none."""
        async with self._bedrock() as client:
            asked: dict[str, Any] = {"nameContains": name, "maxResults": PAGE}
            while True:
                page = await client.list_model_invocation_jobs(**asked)
                for job in page.get("invocationJobSummaries", []):
                    if job.get("jobName") == name:
                        return str(job["jobArn"])
                before, token = asked.get("nextToken"), page.get("nextToken")
                # A server that ignores the token gives the same page again: without an end.
                if token in (None, before):
                    return None
                asked["nextToken"] = token

    async def put(self, uri: str, lines: BinaryIO) -> None:
        """Write an object from a file."""
        async with self._s3() as client:
            await client.put_object(**_place(uri), Body=lines, ContentType="application/jsonl")

    async def exists(self, uri: str) -> bool:
        """Whether there is an object."""
        try:
            async with self._s3() as client:
                await client.head_object(**_place(uri))
        except ModelError as error:
            if error.code == "not_found":
                return False
            raise
        return True

    async def content(self, uri: str) -> AsyncIterator[bytes]:
        """Yield the bytes of an object in chunks."""
        async with self._s3() as client:
            answer = await client.get_object(**_place(uri))
            async with answer["Body"] as body:
                async for chunk in body.iter_chunks(_CHUNK):
                    yield chunk

    async def delete_below(self, uri: str) -> None:
        """Delete the objects of a folder."""
        place = _place(uri)
        async with self._s3() as client:
            below = {"Bucket": place["Bucket"], "Prefix": f"{place['Key']}/"}
            page = await client.list_objects_v2(**below, MaxKeys=MOST_OBJECTS)
            for entry in page.get("Contents", []):
                await client.delete_object(Bucket=place["Bucket"], Key=entry["Key"])

    def _bedrock(self) -> Any:
        is_set = any(os.environ.get(name) for name in _ADDRESSES)
        # With a bearer token alone the bucket could not be reached: both are signed alike.
        fixed = {"signature_version": "v4", "retries": {"total_max_attempts": 1}}
        address = {} if is_set or not self.api_base else {"endpoint_url": self.api_base}
        return self._client("bedrock", CALL_TIMEOUT_S, fixed, **address)

    def _s3(self) -> Any:
        return self._client("s3", FILE_TIMEOUT_S, {})

    @asynccontextmanager
    async def _client(
        self, service: str, timeout_s: float, fixed: dict[str, Any], **more: Any
    ) -> AsyncIterator[Any]:
        import aiohttp
        from aiobotocore.config import AioConfig
        from botocore.exceptions import BotoCoreError, ClientError

        config = AioConfig(read_timeout=timeout_s, connect_timeout=10, **fixed)
        try:
            async with self._session.create_client(
                service, region_name=self.region, config=config, **more
            ) as client:
                yield client
        except ClientError as error:
            raise _refusal(error.response) from error
        except (BotoCoreError, aiohttp.ClientError, OSError) as error:
            raise model_error(error) from error


def region_for(model_id: str) -> str | None:
    """The region of a model's calls, as litellm and AWS clients find it; None where none is set."""
    if arn := _REGION.match(model_id):
        return arn[1]
    from botocore.session import Session

    own = os.environ.get("AWS_REGION_NAME") or os.environ.get("AWS_REGION")
    return own or Session().get_config_variable("region")


def _refusal(answer: dict[str, Any]) -> ModelError:
    fault = answer.get("Error", {})
    message = f"{fault.get('Code')}: {fault.get('Message')}"
    status = answer.get("ResponseMetadata", {}).get("HTTPStatusCode")
    return model_error(LineFailure(status, json.dumps({"error": {"message": message}})))


def _place(uri: str) -> dict[str, str]:
    bucket, _, key = uri.removeprefix("s3://").partition("/")
    return {"Bucket": bucket, "Key": key}
