"""Replies that were paid for, kept so that nobody pays for them twice."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from assizes.judge.models.model import Completion


@dataclass(frozen=True, slots=True)
class CachedReply:
    """A reply that fitted, what it took, and the run that paid for it."""

    completion: Completion
    attempts: int = 1
    paid_by: str = ""


class ReplyCache(Protocol):
    """Keeps what was paid for; only replies that fitted are put in."""

    async def get(self, key: str) -> CachedReply | None:
        """What is kept under a key; null where there is nothing that can be read."""

    async def store(self, key: str, reply: CachedReply) -> None:
        """Keep a reply; one that is there already is overwritten."""


class RequestLocks(Protocol):
    """Keeps processes that share a reply cache from asking for the same reply at once."""

    def lock(self, key: str) -> AbstractAsyncContextManager[None]:
        """Be the only one that asks for the reply of this key; whoever had to wait for it looks
        into the cache first.
        """
