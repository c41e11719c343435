"""Every error the project raises on purpose.

AssizesError                     exit code of the command line
├── ConfigurationError           2   the run was never started; says what would be accepted
├── DataError                        one transcript cannot be read; carries a reason code
├── StoreError                   2   the store cannot be opened or does not hold what was asked for
│   ├── UnknownRun               2
│   ├── UnknownCase              2
│   ├── StoreBusy                2   another process writes to the store
│   └── SchemaVersion            2   the store was written by another version
├── ServerGone                   2   there is no Prefect server, or it does not answer
├── TakenKey                     2   an idempotency key was used for another request
├── LedgerBusy                       another process writes to the ledger; asked again, it may do
├── NotComparable                3   two runs cannot be compared
├── Inconclusive                 4   no data, or the judge could not be had
├── Unreconciled                 4   counts do not add up: the run is never called complete
├── OverBudget                   5   the money or the calls that a run may spend are spent
├── Halted                     130   someone stopped the run
└── ModelError                       one ask failed; becomes a NoReply, never escapes the engine
    ├── NotAsked                     no model was called, and none is any more in this run
    ├── Unreached                    no connection came about: nothing was sent
    └── UnusableReply                a reply came and was paid for, but holds nothing to read
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from assizes.judge.privacy.secret_masking import mask


class AssizesError(Exception):
    """The root of the tree; its message is one line fit for a person, without secrets."""

    exit_code: ClassVar[int] = 2

    def __init__(self, *parts: object) -> None:
        """Hide what a library, a server or a person put into the message."""
        super().__init__(*(mask(part) if isinstance(part, str) else part for part in parts))


class ConfigurationError(AssizesError):
    """The configuration is wrong; raised before any model is asked."""

    @classmethod
    def unknown(cls, what: str, name: str, known: Iterable[str], where: str) -> ConfigurationError:
        """A name that is not in the catalogue; lists the ones that are."""
        choices = ", ".join(sorted(known)) or "none"
        return cls(f"{where}: unknown {what} {name!r}; known: {choices}")


class DataError(AssizesError):
    """One record cannot become a case.

    Args:
        code: machine-readable reason such as `json`, `schema`, `encoding`.
        detail: what was found, at most a sentence; never the record itself.
    """

    def __init__(self, code: str, detail: str) -> None:
        """Keep the code apart from the sentence: rows group by it."""
        super().__init__(f"{code}: {detail}")
        self.code = code
        self.detail = mask(detail)


class StoreError(AssizesError):
    """The store cannot be opened, written or read."""


class NoStore(StoreError):
    """There is no store where one is to be read."""

    @classmethod
    def at(cls, uri: str, detail: str = "") -> NoStore:
        """What was found in its place, and what makes one."""
        return cls(f"no store at {uri}{detail}: run `assizes run` first")


class UnknownRun(StoreError):
    """No run of that id in the store, or several that begin so."""

    @classmethod
    def in_store(cls, run_id: str, store: str, known: Iterable[str]) -> UnknownRun:
        """The id, the store, and the newest ids it does hold."""
        some = ", ".join(list(known)[:5]) or "no run at all"
        return cls(f"no run {run_id!r} in {store}; it holds {some}")


class UnknownCase(StoreError):
    """No case of that id in a run."""


class StoreBusy(StoreError):
    """Another process holds the store for writing."""


class ServerGone(AssizesError):
    """There is no Prefect server, or it does not answer."""


class TakenKey(AssizesError):
    """An idempotency key was used for another request."""


class LedgerBusy(AssizesError):
    """Another process writes to the ledger just now."""


class SchemaVersion(StoreError):
    """The store was written with another schema version."""

    @classmethod
    def mismatch(cls, store: str, actual: object, expected: int) -> SchemaVersion:
        """Both versions and the way out."""
        return cls(
            f"{store}: schema version {actual}, this assizes reads version {expected}; "
            "point [store] uri to a new place, or read it with the version that wrote it"
        )


class NotComparable(AssizesError):
    """Two runs cannot be compared; the message names the reason."""

    exit_code = 3


class Inconclusive(AssizesError):
    """The run cannot say anything: no data, or no judge."""

    exit_code = 4


class Unreconciled(AssizesError):
    """What was counted in is not what was counted out; a defect, so no number of the run stands."""

    exit_code = 4


class OverBudget(AssizesError):
    """What a run or a day may spend on model calls is spent; a later run can go on."""

    exit_code = 5


class Halted(AssizesError):
    """Someone pulled the kill switch (`assizes stop`)."""

    exit_code = 130


class ModelError(AssizesError):
    """A model did not give a usable answer.

    Args:
        code: machine-readable reason; what follows from it is in `assizes.judge.engine.faults`.
        detail: what happened; provider text is cut and never holds a key.
        retry_after_s: how long the provider asks to be left alone, where it says so.
        status: the HTTP status, where there was one.
    """

    exit_code = 4

    def __init__(
        self,
        code: str,
        detail: str,
        *,
        retry_after_s: float | None = None,
        status: int | None = None,
    ) -> None:
        """Keep the code apart from the sentence: rows group by it."""
        super().__init__(f"{code}: {detail}")
        self.code = code
        self.detail = mask(detail)
        self.retry_after_s = retry_after_s
        self.status = status


class NotAsked(ModelError):
    """The run asks no model any more: its codes are `assizes.judge.engine.faults.STOPS`."""
