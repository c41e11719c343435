"""Writes the request files of a round, cut to the size that providers accept."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson

from assizes.judge.engine.batching import model_mark
from assizes.judge.models.model import Model
from assizes.judge.prompts.reply_request import worst_usd
from assizes.judge.protocol import Ask
from assizes.tasks.runtime.closing import Closing

ENDPOINT: Final = "/v1/chat/completions"


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """What fits into one batch: the smallest limits of all providers.

    Attributes:
        asks: the most requests.
        size: the most bytes.
    """

    asks: int = 50_000
    size: int = 200_000_000


@dataclass(slots=True)
class Draft:
    """One file of requests to one model, and a second file with key and worst case of each request.

    Attributes:
        model: the name of the model.
        mark: identifies the model with its parameters (`assizes.judge.engine.batching.model_mark`).
        path: the file of requests, a line of JSON each.
        asks: how many requests there are.
        size: bytes of the file.
        keys_hash: SHA-256 over the keys, in order; set when the file is closed.
    """

    model: str
    mark: str
    path: Path
    asks: int = 0
    size: int = 0
    keys_hash: str = ""

    def worst_cases(self) -> Iterator[tuple[str, float | None]]:
        """Key and worst-case cost in dollars of each ask, at the price of a batch.

        The cost is `None` where no price is known.
        """
        with self.path.with_suffix(".worst").open(encoding="ascii") as lines:
            for line in lines:
                key, _, usd = line.strip().partition(" ")
                yield key, float(usd) if usd else None

    def keys(self) -> Iterator[str]:
        """The keys of the asks, in order."""
        return (key for key, _ in self.worst_cases())


class _DraftWriter:
    """Writes the two files of a draft."""

    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        self._digest = hashlib.sha256()
        self._requests = draft.path.open("wb")
        self._worst = draft.path.with_suffix(".worst").open("w", encoding="ascii")

    def write(self, key: str, line: bytes, worst_usd: float | None) -> None:
        self._requests.write(line)
        self._worst.write(f"{key} {'' if worst_usd is None else repr(worst_usd)}\n")
        self._digest.update(key.encode() + b"\n")
        self.draft.asks += 1
        self.draft.size += len(line)

    def close(self) -> Draft:
        self._requests.close()
        self._worst.close()
        self.draft.keys_hash = self._digest.hexdigest()
        return self.draft


class Drafts(Closing):
    """Writes all drafts of one round into a folder; for each model one draft is open at a time."""

    def __init__(self, folder: Path, limits: BatchLimits) -> None:
        self._folder = folder
        self._limits = limits
        self._writers: dict[str, _DraftWriter] = {}
        self._closed: list[Draft] = []

    def add(self, model: Model, body: dict[str, Any], ask: Ask[Any], key: str) -> None:
        """Write one request; begins another draft where the open one is full.

        Args:
            model: the model that is asked.
            body: the request, as a live call would send it.
            ask: the ask, for its worst-case cost.
            key: the key of the ask in the reply cache.
        """
        line = _request_line(key, body)
        mark = model_mark(model)
        writer = self._writers.get(mark)
        if writer is None or not self._fits(writer.draft, len(line)):
            writer = self._begin(model.name, mark)
        writer.write(key, line, worst_usd(model.price, ask, model.tokens(ask), batch=True))

    def close(self) -> Sequence[Draft]:
        """Close all files; the drafts, in the order in which they were begun."""
        for mark in list(self._writers):
            self._end(mark)
        return sorted(self._closed, key=lambda draft: draft.path.name)

    def _fits(self, draft: Draft, size: int) -> bool:
        return draft.asks < self._limits.asks and draft.size + size <= self._limits.size

    def _begin(self, model: str, mark: str) -> _DraftWriter:
        self._end(mark)
        number = len(self._closed) + len(self._writers) + 1
        writer = self._writers[mark] = _DraftWriter(
            Draft(model, mark, self._folder / f"{number:06d}.jsonl")
        )
        return writer

    def _end(self, mark: str) -> None:
        writer = self._writers.pop(mark, None)
        if writer is not None:
            self._closed.append(writer.close())


def _request_line(key: str, body: dict[str, Any]) -> bytes:
    request = {"custom_id": key, "method": "POST", "url": ENDPOINT, "body": body}
    try:
        return orjson.dumps(request) + b"\n"
    except TypeError:  # a lone surrogate; live calls send it as an escape
        return json.dumps(request).encode() + b"\n"
