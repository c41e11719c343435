"""Every error that this project raises on purpose, as a tree.

AssizesError                     exit code of the command line
├── ConfigurationError           2   the run was never started; says what would be accepted
├── DataError                        one transcript cannot be read; carries a reason code
├── StoreError                   2   the store cannot be opened or does not hold what was asked for
│   ├── NoStore                  2   there is no store at the given place
│   ├── UnknownRun               2   the store holds no such run
│   ├── UnknownCase              2   the run holds no such case
│   ├── StoreBusy                2   another process writes to the store
│   └── SchemaVersion            2   the store was written by another version
├── ServerGone                   2   there is no Prefect server, or it does not answer
├── ServerDied                  70   the Prefect server died while a command worked
├── TakenKey                     2   an idempotency key was used for another request
├── LedgerBusy                   2   another process writes to the ledger; a retry may succeed
├── NotComparable                3   two runs cannot be compared
├── Inconclusive                 4   no data, or no judge model could be called
├── Unreconciled                 4   counts do not add up: the run is never called complete
├── OverBudget                   5   the run has spent the money or the calls that it may spend
├── Halted                     130   someone stopped the run
└── ModelError                   4   one ask failed; the engine turns it into a NoReply
    ├── NotAsked                     the run calls no model any more
    ├── ProviderUnreachable          no connection was made, so nothing was sent
    └── UnusableReply                a reply came and was paid for, but holds no text to read
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import ClassVar, Literal

from assizes.judge.privacy.secret_masking import mask

DataCode = Literal[
    "json",
    "csv",
    "encoding",
    "duplicate_key",
    "too_deep",
    "too_large",
    "schema",
    "schema_version",
    "id_conflict",
    "format",
    "parquet",
    "archive",
    "gzip_corrupt",
    "zstd_corrupt",
    "bomb",
    "link",
    "name",
    "not_a_file",
    "vanished",
    "changed",
    "unknown",  # of no reject: a stored case cannot be shown
]
"""Why a record is no case; docs/formats.md, "What is not judged", explains all but the last."""


class AssizesError(Exception):
    """The root of the tree. Its message is one line for a person, with secrets masked."""

    exit_code: ClassVar[int] = 2  # of the command line
    remedy: ClassVar[str] = "`assizes doctor` checks what a run needs"
    """What helps in general; the command line adds it to a message that names nothing better."""

    def __init__(self, *parts: object) -> None:
        """Mask the secrets that a library, a server or a person put into the message."""
        super().__init__(*(mask(part) if isinstance(part, str) else part for part in parts))


class ConfigurationError(AssizesError):
    """The configuration is wrong; raised before any model is asked."""

    remedy = "`assizes doctor` checks the configuration"

    @classmethod
    def unknown(cls, what: str, name: str, known: Iterable[str], where: str) -> ConfigurationError:
        """The error for a name that nobody knows; its message lists the known names."""
        names = sorted(known)
        near = difflib.get_close_matches(name, names, 1)
        meant = f"; did you mean {near[0]!r}?" if near else ""
        return cls(f"{where}: unknown {what} {name!r}; known: {', '.join(names) or 'none'}{meant}")


class DataError(AssizesError):
    """One record cannot become a case; rejects are grouped by `code`.

    docs/formats.md, "What is not judged", says what each code means.
    """

    def __init__(self, code: DataCode, detail: str) -> None:
        super().__init__(f"{code}: {detail}")
        self.code, self.detail = code, mask(detail)  # one sentence, never the record itself


class StoreError(AssizesError):
    """The store cannot be opened, written or read."""

    remedy = "`assizes doctor` checks the store"


class NoStore(StoreError):
    """There is no store where one is to be read."""

    @classmethod
    def at(cls, uri: str, detail: str = "") -> NoStore:
        """The error for a place without a store; its message says how to make one."""
        return cls(f"no store at {uri}{detail}: run `assizes run` first")


class UnknownRun(StoreError):
    """The store holds no run of this name, or several runs whose ids begin with it."""

    remedy = "`assizes runs` lists the runs"

    @classmethod
    def in_store(cls, run_id: str, store: str, known: Iterable[str]) -> UnknownRun:
        """The error for an unknown name; its message names up to five ids that the store has."""
        ids = list(known)  # a store may hold thousands
        some = ", ".join(ids[:5]) or "no run at all"
        more = f" and {len(ids) - 5} more (`assizes runs` lists them)" if len(ids) > 5 else ""
        return cls(f"no run {run_id!r} in {store}; it holds {some}{more}")


class UnknownCase(StoreError):
    """The run holds no case of this id."""

    remedy = "`assizes report RUN` lists the cases of a run"


class StoreBusy(StoreError):
    """Another process has locked the store for writing."""


class ServerGone(AssizesError):
    """There is no Prefect server, or it does not answer."""

    remedy = "`assizes up` starts a Prefect server"


class ServerDied(AssizesError):
    """The Prefect server died while a command worked; what is committed and paid for is kept."""

    exit_code = 70
    remedy = "`assizes up` starts one, and the same command again goes on where this one ended"


class TakenKey(AssizesError):
    """An idempotency key was used for another request."""


class LedgerBusy(AssizesError):
    """Another process is writing to the ledger; a retry may succeed."""


class SchemaVersion(StoreError):
    """The store was written with another version of the schema."""

    @classmethod
    def mismatch(cls, store: str, actual: object, expected: int) -> SchemaVersion:
        """The error for two versions that differ; its message names both and what to do."""
        return cls(
            f"{store}: schema version {actual}, this assizes reads version {expected}; "
            "point [store] uri to a new place, or read it with the version that wrote it"
        )


class NotComparable(AssizesError):
    """Two runs cannot be compared; the message gives the reason."""

    exit_code = 3
    remedy = "`assizes runs` lists the runs with their status"


class Inconclusive(AssizesError):
    """The run has no result: there were no data, or no judge model could be called."""

    exit_code = 4
    remedy = "`assizes plan` says what a run would judge"


class Unreconciled(AssizesError):
    """Cases read and judged do not add up: a defect, so no number of the run can be trusted."""

    exit_code = 4


class OverBudget(AssizesError):
    """The budget of a run or of a day for model calls is spent; a later run can continue."""

    exit_code = 5
    remedy = "[limits] budget_usd and budget_usd_per_day bound what is spent"


class Halted(AssizesError):
    """Somebody stopped the run with `assizes stop`."""

    exit_code = 130  # as after Ctrl-C: 128 + SIGINT


class ModelError(AssizesError):
    """A model gave no usable answer; `assizes.judge.engine.faults` says what follows."""

    exit_code = 4

    def __init__(
        self,
        code: str,  # for programs, e.g. `timeout`
        detail: str,  # text of the provider is cut by the caller
        *,
        retry_after_s: float | None = None,  # how long the provider asks to wait
        status: int | None = None,  # of the HTTP response
    ) -> None:
        super().__init__(f"{code}: {detail}")
        self.code, self.detail = code, mask(detail)
        self.retry_after_s, self.status = retry_after_s, status


class NotAsked(ModelError):
    """The run calls no model any more; its codes are `assizes.judge.engine.faults.STOPS`."""
