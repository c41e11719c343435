"""Rate limits that many runs share: Prefect global concurrency limits, leased in blocks.

A limit of so many requests a minute is a Prefect limit whose slots decay at that rate. The slots are
a queue, never a gate: taking slots always succeeds, and the number of slots still occupied says when
the new ones become due. When Prefect refuses slots, it forgets the time that has passed; so a limit
that refused slots would let less through the more often it is asked.

Prefect says how many slots are occupied, but not by whom, and its answer to taking slots does not
say where in the queue they stand. So the limit is read before and after, which gives the place to
within the time that the server took to answer. If other processes took slots in between, nobody
knows who came first. Then the slots of this process are spread over all the time that was given away
in between, which has room for the slots of all. Times are seconds on the clock of the event loop.
"""

from __future__ import annotations

import asyncio
import logging
import math
import re
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar

import httpx
from prefect.client.orchestration import PrefectClient, get_client
from prefect.exceptions import ObjectAlreadyExists, ObjectNotFound
from prefect.settings import PREFECT_CLIENT_MAX_RETRIES, temporary_settings
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception
from tenacity.wait import wait_random_exponential

from assizes.judge.config.judging import LimitsConfig
from assizes.judge.engine.limits.rate_limiter import MINUTE_S, LeaseBlock, LeasedRate, RateLimit
from assizes.judge.errors import AssizesError, ConfigurationError

log = logging.getLogger(__name__)

LEASED_SHARE: Final = 0.98
"""Share (0..1) of a limit that is leased. The rest is a margin: a unit may be used a little late,
and requests that are evenly spaced when sent do not arrive so."""

BLOCK_S: Final = 0.3
"""The smallest block that is leased at once, in seconds of the limit: 1/200 of a minute."""

LONGEST_BLOCK_S: Final = 3.0  # the smallest block when the server is slow, in seconds of the limit

SLOTS_PER_REQUEST: Final = 100
SLOTS_PER_TOKEN: Final = 10
"""Slots for a unit: many, since Prefect drops fractions of slots whenever some are taken."""

FIRST_PAUSE_S: Final = 0.2
LONGEST_PAUSE_S: Final = 5.0
"""Seconds (at most) before the first retry of a server that does not answer or is busy, and later."""

GIVE_UP_AFTER_S: Final = 120.0
"""Seconds without an answer of the server after which the run gives up."""

QUIET_OUTAGE_S: Final = 3.0
"""Seconds without an answer before a warning is logged: units are leased ahead of their use."""

_TOO_MANY_SLOTS: Final = 422  # the HTTP status when more slots are asked for than the limit has

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SharedLimit:
    """A limit of the Prefect server, as every process sets it up."""

    name: str
    per_minute: int  # units (requests or tokens) that it lets through
    slots_each: int  # slots that a unit takes

    @property
    def slots(self) -> int:
        """All slots of the limit: those of a minute."""
        return self.per_minute * self.slots_each

    @property
    def decay(self) -> float:
        """Slots that become free in a second."""
        return LEASED_SHARE * self.slots / MINUTE_S


def shared_limits(
    limits: LimitsConfig, model: str
) -> tuple[SharedLimit | None, SharedLimit | None]:
    """The limits on a model's requests and on its tokens that runs share; None for no limit."""
    stem = f"{limits.shared}-{re.sub(r'[^a-z0-9._-]+', '-', model.lower())}"

    def shared_limit(what: str, per_minute: int | None, slots: int) -> SharedLimit | None:
        shares = limits.shared is not None and per_minute is not None
        return SharedLimit(f"{stem}-{what}", per_minute or 0, slots) if shares else None

    return (
        shared_limit("requests", limits.requests_per_minute, SLOTS_PER_REQUEST),
        shared_limit("tokens", limits.tokens_per_minute, SLOTS_PER_TOKEN),
    )


@dataclass(frozen=True, slots=True)
class LimitSnapshot:
    """The slots of a limit that were occupied at some time between question and answer."""

    asked_at: float
    answered_at: float
    occupied: float  # slots
    decay: float  # slots that become free in a second

    @property
    def all_free_at(self) -> tuple[float, float]:
        """The earliest and the latest time at which all slots will have become free."""
        queue_s = self.occupied / self.decay
        return self.asked_at + queue_s, self.answered_at + queue_s


@dataclass(frozen=True, slots=True)
class SlotLease:
    """Slots that this process took: asked for at `asked_at`, and confirmed by `taken_at`."""

    queue_before: LimitSnapshot  # read before the slots were asked for
    asked_at: float
    taken_at: float
    slots: int


def slot_times(lease: SlotLease, queue_after: LimitSnapshot) -> tuple[float, float]:
    """The start and end of the time in which the slots of a lease become due, evenly spread."""
    lasts_s = lease.slots / queue_after.decay  # no faster than the limit of now frees slots
    earliest, latest = lease.queue_before.all_free_at
    earliest, latest = max(earliest, lease.asked_at), max(latest, lease.taken_at)
    ends_earliest, ends_latest = queue_after.all_free_at
    if latest + lasts_s < ends_earliest:  # other processes took slots in between
        return (earliest + latest) / 2, (ends_earliest + ends_latest) / 2
    # Else both looks bound the same end; the middle of what they leave open is taken.
    end = (max(earliest + lasts_s, ends_earliest) + min(latest + lasts_s, ends_latest)) / 2
    return end - lasts_s, end


async def _raise_when_busy(response: httpx.Response) -> None:
    """Raise at once for HTTP 503 without a `Retry-After` header."""
    # Prefect's client would wait two seconds; database conflicts are over in milliseconds.
    if response.status_code == 503 and "Retry-After" not in response.headers:
        response.raise_for_status()


_NO_WAIT_SETTINGS: Final = {"event_hooks": {"response": [_raise_when_busy]}}


class PrefectLeases:
    """Shares the rate limits of each model among all runs with the same `[limits] shared`.

    The limits `<shared>-<model>-requests` and `<shared>-<model>-tokens` are made on the Prefect
    server, or set to the configured values, before the first call. If somebody deletes one or
    switches it off later, the run stops asking: a missing limit does not lift the limit.
    """

    def __init__(self, limits: LimitsConfig) -> None:
        self._limits = limits
        self._leasers: list[_LimitLeaser] = []

    def rate_limits(
        self, model: str, wake: Callable[[], None]
    ) -> tuple[RateLimit | None, RateLimit | None]:
        """The shared limits on a model's requests and on its tokens; None for no limit.

        `wake` is called when units have been leased, or will never be.
        """

        def leased_rate(limit: SharedLimit | None) -> RateLimit | None:
            if limit is None:
                return None
            self._leasers.append(leaser := _LimitLeaser(limit, wake))
            return leaser.rate

        requests, tokens = shared_limits(self._limits, model)
        return leased_rate(requests), leased_rate(tokens)

    async def aclose(self) -> None:
        """Stop leasing; units leased and not used are lost to the other runs for about a second."""
        for leaser in self._leasers:
            await leaser.aclose()


class _LimitLeaser:
    """Leases units of one limit ahead of their use, as long as calls wait for units."""

    def __init__(self, limit: SharedLimit, wake: Callable[[], None]) -> None:
        self.rate = LeasedRate(limit.per_minute, self._request_units)
        self._limit = limit
        self._per_minute: float = limit.per_minute  # less where another run has set it lower
        self._wake = wake
        self._units_wanted = asyncio.Event()  # set while calls wait for units
        self._task: asyncio.Task[None] | None = None
        self._client: PrefectClient
        self._round_trip_s = 0.0  # seconds that the latest lease took, with both looks
        self._unreachable = False
        self._unreachable_since: float | None = None  # by time.monotonic

    async def aclose(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    def _request_units(self) -> None:
        self._units_wanted.set()
        if self._task is None:
            self._task = asyncio.create_task(self._lease_ahead())
            self._task.add_done_callback(self._report_end)

    async def _lease_ahead(self) -> None:
        limit = self._limit
        # One layer of retries is enough: ours retries more often and gives up later.
        with temporary_settings({PREFECT_CLIENT_MAX_RETRIES: 0}):
            async with get_client(httpx_settings=_NO_WAIT_SETTINGS) as self._client:
                upsert = self._client.upsert_global_concurrency_limit_by_name
                await self._call_server(partial(upsert, limit.name, limit.slots, limit.decay))
                while True:
                    await self._units_wanted.wait()
                    self._units_wanted.clear()
                    if (missing := self.rate.missing_units(_now())) >= 0:
                        self.rate.add(await self._lease(missing))
                        self.rate.counts_at_most(self._per_minute)
                        self._wake()  # a waiting call asks for more if these units are too few

    def _report_end(self, task: asyncio.Task[None]) -> None:
        """Fail the waiting calls with the error that ended the leasing."""
        if task.cancelled() or (error := task.exception()) is None:
            return
        if not isinstance(error, AssizesError):
            log.error("the limit %s cannot be kept", self._limit.name, exc_info=error)
            what = f"{type(error).__name__}: {error}"
            error = AssizesError(f"[limits] shared: {self._limit.name} cannot be kept: {what}")
        self.rate.fail(error)
        self._wake()

    async def _lease(self, units: float) -> LeaseBlock:
        """Lease a block of at least `units`, of more from a slow server."""
        least_s = max(BLOCK_S, min(2 * self._round_trip_s, LONGEST_BLOCK_S))
        units = max(1.0, units, self._per_minute * least_s / MINUTE_S)
        slot_lease = await self._call_server(partial(self._take_units, units))
        after = await self._call_server(self._read_limit)
        self._round_trip_s = after.answered_at - slot_lease.queue_before.asked_at
        start, end = slot_times(slot_lease, after)
        units = slot_lease.slots / self._limit.slots_each
        return LeaseBlock(at=start, units=units, rate=units / (end - start))

    async def _take_units(self, units: float) -> SlotLease:
        try:
            return await self._take_slots(units)
        except httpx.HTTPStatusError as error:
            if error.response.status_code != _TOO_MANY_SLOTS:
                raise
        return await self._take_slots(units)  # another run has just set it lower

    async def _take_slots(self, units: float) -> SlotLease:
        """Take the slots of some units, or of the whole limit where that is less."""
        before = await self._read_limit()
        # Rounded first: a float error of 1e-12 would take one slot more.
        slots = math.ceil(round(min(units, self._per_minute) * self._limit.slots_each, 6))
        since = _now()
        response = await self._client.increment_concurrency_slots(
            [self._limit.name], slots, "rate_limit"
        )
        if not response.json():
            raise self._missing_limit("is not there any more")
        return SlotLease(before, since, _now(), slots)

    async def _read_limit(self) -> LimitSnapshot:
        since = _now()
        try:
            limit = await self._client.read_global_concurrency_limit_by_name(self._limit.name)
        except ObjectNotFound:
            raise self._missing_limit("is not there any more") from None
        if not limit.active or not limit.limit:
            raise self._missing_limit("is switched off")
        self._per_minute = min(self._limit.per_minute, limit.limit / self._limit.slots_each)
        decay = limit.slot_decay_per_second or 1.0  # a divisor: never 0
        return LimitSnapshot(since, _now(), limit.active_slots or 0, decay)

    def _missing_limit(self, what: str) -> ConfigurationError:
        return ConfigurationError(
            f"[limits] shared: the limit {self._limit.name!r} {what} on the Prefect server; "
            "a new run sets it up, or leave `shared` out"
        )

    async def _call_server(self, request: Callable[[], Awaitable[T]]) -> T:
        """The answer of the server, retried while errors are transient; else an `AssizesError`."""
        self._unreachable_since = None
        try:
            async for attempt in AsyncRetrying(
                retry=retry_if_exception(_is_transient),
                wait=wait_random_exponential(FIRST_PAUSE_S, LONGEST_PAUSE_S),
                stop=self._is_lost,
                before_sleep=self._warn_once,
                reraise=True,
            ):
                with attempt:
                    answer = await request()
        except (httpx.HTTPStatusError, httpx.TransportError, ObjectAlreadyExists) as error:
            what, waited = "refuses", ""
            if _is_transient(error):
                what, waited = "does not lease", f" for {GIVE_UP_AFTER_S:g} s"
            raise AssizesError(
                f"[limits] shared: the Prefect server {what} the limit {self._limit.name!r}{waited} "
                f"({_reason(error)})"
            ) from error
        if self._unreachable:
            log.warning("the Prefect server leases %s again", self._limit.name)
            self._unreachable = False
        return answer

    def _is_lost(self, state: RetryCallState) -> bool:
        """Whether the server has not answered for too long; HTTP 423 (no slots) is an answer."""
        error = state.outcome.exception() if state.outcome is not None else None
        if isinstance(error, httpx.HTTPStatusError) and error.response.status_code == 423:
            self._unreachable_since = None
            return False
        now = time.monotonic()
        if self._unreachable_since is None:
            self._unreachable_since = now
        return now - self._unreachable_since >= GIVE_UP_AFTER_S

    def _warn_once(self, state: RetryCallState) -> None:
        """Log one warning for an outage, however many retries it takes."""
        lasts_s = state.seconds_since_start or 0.0
        if self._unreachable or lasts_s < QUIET_OUTAGE_S or state.outcome is None:
            return
        self._unreachable = True
        log.warning(
            "the Prefect server does not lease %s (%s); calls wait until it does",
            self._limit.name,
            _reason(state.outcome.exception()),
        )


def _now() -> float:
    return asyncio.get_running_loop().time()


def _reason(error: BaseException | None) -> str:
    if isinstance(error, httpx.HTTPStatusError):
        return f"HTTP {error.response.status_code}"
    return str(error) or type(error).__name__


def _is_transient(error: BaseException) -> bool:
    """Whether a retry may succeed; HTTP 423 means that the limit is leased a minute ahead."""
    if isinstance(error, httpx.HTTPStatusError):
        status = error.response.status_code
        return status in (408, 409, 423, 429) or status >= 500  # 409: a conflict in the database
    return isinstance(error, httpx.TransportError | ObjectAlreadyExists)
