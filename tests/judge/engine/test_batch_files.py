"""The download of a batch's file of results: complete, or broken off."""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import asynccontextmanager

import pytest

from assizes.judge.config.judging import JudgeConfig, LimitsConfig
from assizes.judge.errors import ModelError
from assizes.judge.models import litellm_model
from assizes.judge.models.litellm_model import LiteLLM, LiteLLMBatchCalls

LINES = b'{"custom_id": "k0"}\n' * 1_000


@asynccontextmanager
async def file_server(promised: int):
    """Answer every request with the lines, whatever number of bytes the header promises."""

    async def answer(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\n")
        writer.write(b"Connection: close\r\nContent-Length: %d\r\n\r\n" % promised + LINES)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def content(model: str, api_base: str) -> bytes:
    config = JudgeConfig(model=model, api_base=api_base)
    calls = LiteLLMBatchCalls(LiteLLM(config, LimitsConfig(timeout_s=5)))
    return b"".join([chunk async for chunk in calls.content("file-1")])


@pytest.fixture(autouse=True)
def _keys(monkeypatch):
    for name in ("OPENAI_API_KEY", "AZURE_API_KEY"):
        monkeypatch.setenv(name, "stub-key-of-the-tests")
    monkeypatch.setenv("AZURE_API_VERSION", "2024-10-21")


@pytest.mark.parametrize("model", ["openai/stub", "azure/stub"])
async def test_a_file_comes_whole_whether_or_not_its_provider_streams(model: str):
    async with file_server(len(LINES)) as address:
        assert await content(model, address) == LINES


@pytest.mark.parametrize("model", ["openai/stub", "azure/stub"])
async def test_a_file_that_breaks_off_is_a_failure_that_may_pass(model: str):
    async with file_server(len(LINES) + 1) as address:
        with pytest.raises(ModelError) as failed:
            await content(model, address)
    assert failed.value.code == "unavailable"


def test_a_provider_that_somebody_plugged_into_litellm_goes_by_the_sdk(monkeypatch):
    monkeypatch.setenv(litellm_model.ROUTE, "true")
    sdk = sys.modules["litellm"]  # which must not be the first to import it
    monkeypatch.setattr(sdk, "provider_list", [*sdk.provider_list, "mine"])
    assert LiteLLM(JudgeConfig(model="mine/x"), LimitsConfig()).provider == "mine"
    assert os.environ[litellm_model.ROUTE] == "false"
