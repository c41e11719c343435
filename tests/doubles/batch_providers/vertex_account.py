"""The service account and the buckets of the server of Vertex AI, as tests need them."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

import pytest

from tests.doubles.batch_providers.running import BatchProvider
from tests.doubles.batch_providers.vertex import LOCATION, PROJECT


def sign_in(server: BatchProvider, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the environment of a user of this server, with the key of its service account."""
    key = folder / "service-account.json"
    key.write_text(json.dumps(server.asked("service-account")))
    for name, value in environment(server, key).items():
        monkeypatch.setenv(name, value)


def environment(server: BatchProvider, key: Path) -> dict[str, str]:
    """The variables of a user of this server."""
    return {
        "VERTEXAI_PROJECT": PROJECT,
        "VERTEXAI_LOCATION": LOCATION,
        "VERTEXAI_CREDENTIALS": str(key),
        "STORAGE_EMULATOR_HOST": server.url,
    }


def new_bucket(server: BatchProvider) -> str:
    """The name of a new bucket."""
    name = f"bucket-{uuid.uuid4().hex[:8]}"
    server.asked(f"buckets/{name}/make")
    return name


def objects(server: BatchProvider, bucket: str) -> list[str]:
    """The names of the objects of a bucket, without their folders."""
    return [str(name).rpartition("/")[2] for name in server.asked(f"buckets/{bucket}/objects")]
