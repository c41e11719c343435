"""A process with a batch client at a provider with a protocol of its own."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from assizes.judge.config.bedrock import BedrockConfig
from assizes.judge.config.judging import JudgeConfig, LimitsConfig, Price
from assizes.judge.config.vertex import VertexConfig
from assizes.judge.engine.batching import batches_of, model_mark
from assizes.judge.model_factory import model_for
from assizes.judge.protocol import Ask, Prompt
from assizes.tasks.batch.batch_client import BatchClient, BatchDependencies
from assizes.tasks.batch.batch_log import BatchLog
from assizes.tasks.batch.batch_requests import BatchLimits, Drafts, PollInterval
from assizes.tasks.spending.ledger import SqliteLedger
from tests.doubles.batch_providers.running import BatchProvider

MODELS = {
    "anthropic": "anthropic/claude-sonnet-4-5",
    "gemini": "gemini/gemini-2.5-flash",
    "bedrock": "bedrock/anthropic.claude-sonnet-4-5-20250929-v1:0",
    "vertex": "vertex_ai/gemini-2.5-flash",
}
KEYS = {
    "anthropic": "ANTHROPIC_API_KEY",
    "gemini": "GEMINI_API_KEY",
    "bedrock": "AWS_ACCESS_KEY_ID",
    "vertex": "VERTEXAI_CREDENTIALS",
}
PRICE = Price(
    input_usd_per_million=3.0, output_usd_per_million=15.0, cached_input_usd_per_million=0.3
)


class Reply(BaseModel):
    justification: str
    score: int


def key_of(number: int) -> str:
    return f"{number:064x}"


def ask_of(number: int, system: str = "You judge.") -> Ask[Reply]:
    return Ask(Prompt(system, f"Was {number} good?"), Reply)


class ProviderProcess:
    """One process of a run; all processes of a folder share the log and the ledger."""

    def __init__(
        self,
        folder: Path,
        name: str,
        server: BatchProvider,
        place: BedrockConfig | VertexConfig | None = None,
        **judge: Any,
    ) -> None:
        config = JudgeConfig(model=name, api_base=server.url, **judge)
        self.model = model_for(config, LimitsConfig(timeout_s=5, prices={name: PRICE}))
        self.ledger = SqliteLedger(str(folder / "ledger.db"), "run-1", LimitsConfig())
        self.log = BatchLog(str(folder / "replies"), {}, "run-1")
        self.own = folder / f"process-{len(list(folder.glob('process-*')))}"
        self.own.mkdir()
        bedrock = place if isinstance(place, BedrockConfig) else None
        vertex = place if isinstance(place, VertexConfig) else None
        endpoint = batches_of(self.model, bedrock, vertex)
        assert endpoint is not None
        self.endpoint = endpoint
        self.client = BatchClient(
            BatchDependencies(
                *(self.log, {model_mark(self.model): endpoint}, self.ledger),
                PollInterval(0.02, 0.1),
                ledger_file=self.ledger.path,
            ),
            self.own,
        )

    async def submit(self, numbers: Iterable[int], system: str = "You judge.") -> None:
        folder = self.own / f"round-{len(list(self.own.glob('round-*')))}"
        folder.mkdir()
        with Drafts(folder, BatchLimits(asks=3)) as drafts:
            for number in numbers:
                ask, key = ask_of(number, system), key_of(number)
                line = self.endpoint.line(key, self.endpoint.body(ask))
                drafts.add(self.model, line, ask, key)
        await self.client.submit(drafts.close())

    async def taken(self, numbers: Iterable[int]) -> list[bool]:
        return [await self.client.take(key_of(number)) is not None for number in numbers]

    @property
    def states(self) -> list[str]:
        return [record.state for record in self.log.records()]
