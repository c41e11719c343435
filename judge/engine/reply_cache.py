"""The cache of paid replies, so that no reply is paid for twice."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from assizes.judge.models.model import Completion


@dataclass(frozen=True, slots=True)
class CachedReply:
    """A cached reply that fits its ask.

    Attributes:
        completion: the text of the reply and its usage.
        attempts: the number of calls that the reply took.
        paid_by: id of the run that paid for the reply; empty where no run did.
    """

    completion: Completion
    attempts: int = 1
    paid_by: str = ""


class ReplyCache(Protocol):
    """Stores paid replies; only replies that fit their ask are stored."""

    async def get(self, key: str) -> CachedReply | None:
        """The reply under a key; `None` where there is none that can be read."""

    async def store(self, key: str, reply: CachedReply) -> None:
        """Store a reply; a reply that is there already is overwritten."""


class RequestLocks(Protocol):
    """Keeps processes that share a reply cache from asking for the same reply at once."""

    def lock(self, key: str) -> AbstractAsyncContextManager[None]:
        """A lock that only one process holds at a time while it asks for the reply of this key.

        A process that had to wait for the lock must look into the cache first.
        """
