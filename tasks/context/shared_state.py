"""Seals: how a process sees that it stands where the run it helps with has its replies and its ledger.

The reply cache keeps money from being spent twice, the ledger from being spent at all. A process
that finds neither under the names it was given must not begin: it would look like an empty cache.
"""

from __future__ import annotations

from uuid import uuid4

from assizes.judge.config.run import CacheConfig
from assizes.judge.errors import ConfigurationError
from assizes.tasks.context.run_context import RunContext
from assizes.tasks.distribute.partitions import has_spending_limit
from assizes.tasks.spending.ledger_file import has_claim
from assizes.tasks.store.objects.opening import objects_at
from assizes.tasks.store.objects.protocol import Objects


def create_shared_state_check(context: RunContext, run_id: str) -> str | None:
    """Leave a mark beside the kept replies; what the partitions of a run must find.

    Null where no model costs anything. With a limit of money or calls the ledger is part of it.

    Raises:
        StoreError: when the cache or the ledger cannot be written.
    """
    if not context.assignment.has_paid_calls:
        return None
    token = uuid4().hex
    cache = context.config.cache
    name = _token_name(run_id)
    objects = _cache_objects(cache)
    if not objects.create(name, token.encode()):
        token = objects.read([name])[name].decode()
    if (
        has_spending_limit(context.config.limits)
        and (ledger := context.ledger_for(run_id)) is not None
    ):
        ledger.claims(_token_claim(token), "")
    return token


def verify_shared_state(context: RunContext, run_id: str, token: str | None) -> None:
    """See that this process reaches the replies, and where money is limited the ledger, of a run.

    Raises:
        ConfigurationError: when it does not; nothing has been asked.
        StoreError: when the cache or the ledger cannot be read.
    """
    if token is None:
        return
    cache, limits = context.config.cache, context.config.limits
    name = _token_name(run_id)
    if _cache_objects(cache).read([name]).get(name) != token.encode():
        raise ConfigurationError(
            f"[cache] uri {cache.uri!r} is not there for every worker: replies paid for by one would "
            "be paid for again by another; give a folder all of them reach, or s3://bucket/prefix"
        )
    if has_spending_limit(limits) and not has_claim(limits.ledger, run_id, _token_claim(token)):
        raise ConfigurationError(
            f"[limits] ledger {limits.ledger!r} is not the same file for every worker: each would "
            "spend the whole budget; keep workers with a budget on one machine, or leave out "
            "budget_usd, budget_usd_per_day, max_asks and max_asks_per_day"
        )


def _token_claim(token: str) -> str:
    return f"seal:{token}"


def _token_name(run_id: str) -> str:
    return f"seals/{run_id}"


def _cache_objects(cache: CacheConfig) -> Objects:
    return objects_at(cache.uri, cache.storage_options)
