"""Lets a worker process check that it sees the same reply cache and ledger as the run it helps.

To a worker that cannot reach them under the configured names they would look like an empty cache
and an unspent budget. So the run writes a token into both, and every worker looks for it.
"""

from __future__ import annotations

from uuid import uuid4

from assizes.judge.errors import ConfigurationError
from assizes.tasks.context.run_context import RunContext
from assizes.tasks.distribute.partitions import has_spending_limit
from assizes.tasks.spending.ledger_file import has_claim
from assizes.tasks.store.bucket import objects_at


def create_shared_state_check(context: RunContext, run_id: str) -> str | None:
    """Write a token into the reply cache and, where calls or money are limited, into the ledger.

    Returns the token, which the partitions must find; `None` where no model costs anything.

    Raises:
        StoreError: the cache or the ledger cannot be written.
    """
    if not context.assignment.has_paid_calls:
        return None
    token = uuid4().hex  # random: no other cache or ledger can hold it
    cache = context.config.cache
    name, objects = _token_name(run_id), objects_at(cache.uri, cache.storage_options)
    if not objects.create(name, token.encode()):
        token = objects.read([name])[name].decode()  # a resumed run keeps its token
    ledger = context.ledger_for(run_id) if has_spending_limit(context.config.limits) else None
    if ledger is not None:
        ledger.claim(_token_claim(token), "")
    return token


def verify_shared_state(context: RunContext, run_id: str, token: str | None) -> None:
    """Check that this process reaches the reply cache of a run and, with a limit, its ledger.

    Raises:
        ConfigurationError: the cache or the ledger is another one; nothing has been asked.
        StoreError: the cache or the ledger cannot be read.
    """
    if token is None:
        return
    cache, limits = context.config.cache, context.config.limits
    name, objects = _token_name(run_id), objects_at(cache.uri, cache.storage_options)
    if objects.read([name]).get(name) != token.encode():
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


# The names below lie in caches and ledgers of users: they must not change.


def _token_claim(token: str) -> str:
    return f"seal:{token}"


def _token_name(run_id: str) -> str:
    return f"seals/{run_id}"
