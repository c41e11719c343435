"""Requests to Vertex AI and to Cloud Storage, by their documented HTTP interfaces.

Project, location and credentials come from where live calls take them: `VERTEXAI_PROJECT`,
`VERTEXAI_LOCATION`, and `VERTEXAI_CREDENTIALS` or Google's default credentials. The address of Vertex AI
is the `api_base` of the model, else that of the location; Cloud Storage has the address of
`STORAGE_EMULATOR_HOST`, else its own.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import re
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final
from urllib.parse import quote, urlsplit

from assizes.judge.errors import ConfigurationError, ModelError
from assizes.judge.models.model import ProviderUnreachable
from assizes.judge.models.provider_calls import readable
from assizes.judge.models.provider_http import FILE_TIMEOUT_S, ProviderHttp, checked_id, file_chunks

PAGE: Final = 100
"""Jobs or objects on a page of a list; 100 jobs and 1,000 objects are allowed."""

MOST_OBJECTS: Final = 10_000
"""The most objects of one part that are listed; a part has three or four."""

STORAGE: Final = "https://storage.googleapis.com"

_PROJECT: Final = re.compile(r"[a-z0-9][-.:a-z0-9]{0,99}")
_LOCATION: Final = re.compile(r"[a-z][-a-z0-9]{0,39}")
_VERSIONS: Final = ("", "/v1", "/v1beta1")  # paths of an `api_base` that live calls take alike


@dataclass(frozen=True, slots=True)
class VertexPlace:
    """The project and the location of a model's calls."""

    project: str
    location: str
    address: str  # of Vertex AI

    @property
    def parent(self) -> str:
        """The path of the jobs of project and location."""
        return f"/v1/projects/{self.project}/locations/{self.location}"


class GoogleClients:
    """Requests with the credentials of live calls.

    Raises:
        ModelError: every method that makes a request, when Google refuses or is away.
    """

    def __init__(self, place: VertexPlace, access: Any) -> None:
        self.place = place
        self._access = access  # litellm's, which keeps a token as long as it is good
        self._storage = storage_address()

    async def job(self, job_id: str) -> dict[str, Any]:
        """Return a job with its present status."""
        job, _ = await (await self._vertex()).json("GET", f"/v1/{checked_id(job_id)}")
        return job

    async def create(self, job: dict[str, Any]) -> str:
        """Create a job; return its name."""
        path = f"{self.place.parent}/batchPredictionJobs"
        created, _ = await (await self._vertex()).json("POST", path, json=job)
        return checked_id(created.get("name"))

    async def job_named(self, name: str) -> str | None:
        """Return the name of the job with this display name; None where there is none."""
        http, token = await self._vertex(), ""
        while True:
            params = {"filter": f'display_name="{name}"', "pageSize": str(PAGE)}
            params |= {"pageToken": token} if token else {}
            path = f"{self.place.parent}/batchPredictionJobs"
            page, _ = await http.json("GET", path, params=params)
            for job in page.get("batchPredictionJobs") or []:
                if isinstance(job, dict) and job.get("displayName") == name:
                    return checked_id(job.get("name"))
            before, token = token, str(page.get("nextPageToken") or "")
            # A server that ignores the token gives the same page again: without an end.
            if token in ("", before):
                return None

    async def put(self, uri: str, lines: BinaryIO) -> None:
        """Write an object from a file, which is read while it is sent."""
        bucket, name = _place(uri)
        size = lines.seek(0, 2)
        lines.seek(0)
        headers = {"content-length": str(size), "content-type": "application/jsonl"}
        await (await self._gcs()).json(
            "POST",
            f"/upload/storage/v1/b/{bucket}/o",
            params={"uploadType": "media", "name": name},
            headers=headers,
            content=file_chunks(lines),
            timeout_s=FILE_TIMEOUT_S,
        )

    async def exists(self, uri: str) -> bool:
        """Whether there is an object."""
        try:
            await (await self._gcs()).json("GET", _object(uri))
        except ModelError as error:
            if error.code == "not_found":
                return False
            raise
        return True

    async def content(self, uri: str) -> AsyncIterator[bytes]:
        """Yield the bytes of an object in chunks."""
        async for chunk in (await self._gcs()).content(f"{_object(uri)}?alt=media"):
            yield chunk

    async def below(self, uri: str) -> list[str]:
        """Return the URIs of the objects of a folder."""
        bucket, prefix = _place(f"{uri}/")
        http, token = await self._gcs(), ""
        uris: list[str] = []
        while len(uris) < MOST_OBJECTS:
            params = {
                "prefix": prefix,
                "maxResults": str(PAGE),
                "fields": "items/name,nextPageToken",
            }
            params |= {"pageToken": token} if token else {}
            page, _ = await http.json("GET", f"/storage/v1/b/{bucket}/o", params=params)
            for entry in page.get("items") or []:
                name = entry.get("name") if isinstance(entry, dict) else None
                if isinstance(name, str) and name.startswith(prefix):
                    uris.append(f"gs://{bucket}/{name}")
            before, token = token, str(page.get("nextPageToken") or "")
            if token in ("", before):
                break
        return uris

    async def delete_below(self, uri: str) -> None:
        """Delete the objects of a folder."""
        for each in await self.below(uri):
            await (await self._gcs()).json("DELETE", _object(each))

    async def _vertex(self) -> ProviderHttp:
        return ProviderHttp(self.place.address, await self._headers())

    async def _gcs(self) -> ProviderHttp:
        return ProviderHttp(self._storage, await self._headers())

    async def _headers(self) -> dict[str, str]:
        from google.auth.exceptions import GoogleAuthError  # of the extra `vertex`

        credentials = os.environ.get("VERTEXAI_CREDENTIALS") or None
        try:
            token, _ = await asyncio.to_thread(
                self._access.get_access_token, credentials, self.place.project
            )
        except GoogleAuthError as error:
            detail = readable(f"no access to Google Cloud: {error}")
            if getattr(error, "retryable", False):
                raise ProviderUnreachable(detail) from error
            raise ModelError("authentication", detail) from error
        except (OSError, ValueError, TypeError, LookupError) as error:
            detail = readable(f"no access to Google Cloud: {error}")
            raise ModelError("authentication", detail) from error
        return {"authorization": f"Bearer {token}"}


def vertex_place(
    name: str, model_id: str, api_base: str | None, location_of: Callable[[str | None, str], str]
) -> VertexPlace:
    """The project and location of a model's calls, by the environment, as live calls find them.

    Raises:
        ConfigurationError: google-auth is not installed, or a variable or an address cannot be used.
    """
    if (
        importlib.util.find_spec("google") is None
        or importlib.util.find_spec("google.auth") is None
    ):
        raise ConfigurationError(
            f"[runner] batch: batches for {name!r} need google-auth: install assizes[vertex]"
        )
    project = os.environ.get("VERTEXAI_PROJECT", "")
    if not _PROJECT.fullmatch(project):
        raise ConfigurationError(
            f"[runner] batch: no project is known for {name!r}: set VERTEXAI_PROJECT in the "
            f"environment, the id of a project of Google Cloud (now {project[:60]!r})"
        )
    asked = os.environ.get("VERTEXAI_LOCATION") or os.environ.get("VERTEX_LOCATION")
    location = location_of(asked, model_id)
    if not _LOCATION.fullmatch(location):
        raise ConfigurationError(
            f"[runner] batch: VERTEXAI_LOCATION {location[:60]!r}: accepted is global or a region, "
            "e.g. us-central1"
        )
    _check_credentials(os.environ.get("VERTEXAI_CREDENTIALS"))
    return VertexPlace(project, location, _address(location, name, api_base))


def storage_address() -> str:
    """The address of Cloud Storage; that of a server of the user's own in `STORAGE_EMULATOR_HOST`."""
    own = os.environ.get("STORAGE_EMULATOR_HOST", "")
    return (own if "://" in own else f"http://{own}").rstrip("/") if own else STORAGE


def _address(location: str, name: str, api_base: str | None) -> str:
    if api_base is not None:
        parts = urlsplit(api_base)
        if parts.path.rstrip("/") not in _VERSIONS or parts.scheme not in ("http", "https"):
            raise ConfigurationError(
                f"[runner] batch: no batches for {name!r} at the api_base {api_base!r}: accepted is "
                "an address without a path; or run with --no-batch"
            )
        return f"{parts.scheme}://{parts.netloc}"
    if location == "global":
        return "https://aiplatform.googleapis.com"
    if "-" not in location:  # several regions together: `us`, `eu`
        return f"https://aiplatform.{location}.rep.googleapis.com"
    return f"https://{location}-aiplatform.googleapis.com"


def _check_credentials(credentials: str | None) -> None:
    """Check that the variable holds credentials, or the path of a file with them.

    Raises:
        ConfigurationError: the variable holds neither.
    """
    if not credentials:  # Google's default credentials are looked for
        return
    try:
        text = credentials
        if not credentials.lstrip().startswith("{"):
            text = Path(credentials).read_text(encoding="utf-8")
        known = json.loads(text)
    except (OSError, ValueError, RecursionError):
        known = None
    if not isinstance(known, dict):
        raise ConfigurationError(
            "[runner] batch: VERTEXAI_CREDENTIALS: accepted is the path of a JSON file with "
            "credentials of Google Cloud, or its text"
        )


def _place(uri: str) -> tuple[str, str]:
    bucket, _, name = uri.removeprefix("gs://").partition("/")
    return bucket, name


def _object(uri: str) -> str:
    bucket, name = _place(uri)
    return f"/storage/v1/b/{bucket}/o/{quote(name, safe='')}"
