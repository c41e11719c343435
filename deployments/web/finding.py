"""Finds cases for pages and the API: filters, full text, and the building of search indexes."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Final

import polars as pl

from assizes.deployments.web import schemas
from assizes.judge.config.run import StoreConfig
from assizes.judge.errors import AssizesError
from assizes.judge.verdicts.executions import CASE
from assizes.tasks.finding.build_index import build_index, stored_keys
from assizes.tasks.finding.case_filter import case_rows, matching_cases
from assizes.tasks.finding.search_index import READ, UNREADABLE, opened_index
from assizes.tasks.finding.search_query import SearchTerm, parse_search
from assizes.tasks.store import open_store
from assizes.tasks.store.search_files import index_path

WAIT_S: Final = 3.0
"""Seconds that a search waits for an index that is being built; small runs are ready by then."""

CSV_BLOCK: Final = 2000
"""Cases that a CSV file reads at a time."""


class IndexBuilder:
    """Builds search indexes in one thread, one after the other, and ends with its process."""

    def __init__(self, config: StoreConfig) -> None:
        self._config = config
        self._queue: SimpleQueue[str] = SimpleQueue()
        self._lock = threading.Lock()
        self._pending: dict[str, threading.Event] = {}  # run id -> set when it is done
        self._faults: dict[str, AssizesError] = {}  # the last one of each run
        self._thread: threading.Thread | None = None

    def build(self, run_id: str, wait_s: float) -> None:
        """Have an index completed, and wait so many seconds at most.

        Raises:
            StoreError: the last attempt failed within the time.
        """
        with self._lock:
            done = self._pending.get(run_id)
            if done is None:
                done = self._pending[run_id] = threading.Event()
                self._faults.pop(run_id, None)
                self._queue.put(run_id)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="search", daemon=True)
                self._thread.start()
        if done.wait(wait_s) and (fault := self._faults.get(run_id)) is not None:
            raise fault

    def _work(self) -> None:
        while True:
            run_id = self._queue.get()
            try:
                build_index(self._config, run_id)
            except AssizesError as fault:
                self._faults[run_id] = fault
            finally:
                with self._lock:
                    self._pending.pop(run_id).set()


@dataclass(frozen=True, slots=True)
class SearchHits:
    """The cases that a search of full text found in one run."""

    keys: pl.DataFrame  # `CASE`, and `n`, their numbers in the index
    index: schemas.IndexProgress
    terms: tuple[SearchTerm, ...] = field(default=())


class CaseFinder:
    """Finds cases in the runs of one store, which it never keeps open."""

    def __init__(self, config: StoreConfig) -> None:
        self._config = config
        self._builder = IndexBuilder(config)

    def cases(
        self, run_id: str, wanted: schemas.CaseQuery, wait_s: float = WAIT_S
    ) -> schemas.CasePage:
        """One page of the cases of a run that match a query.

        A search waits so many seconds for an index that is not complete, at most.

        Raises:
            UnknownRun: the store has no such run.
            ConfigurationError: the text to search for, or a filter, cannot be used.
        """
        columns = list(schemas.CaseItem.model_fields)
        chosen = wanted.case_filter()
        hits = None if wanted.q is None else self.search(run_id, wanted.q, wait_s)
        with open_store(self._config) as store:
            full_id = store.run(run_id).run_id
            keys = matching_cases(store, full_id, chosen, None if hits is None else hits.keys)
            part = keys.slice(wanted.offset, wanted.limit)
            rows = case_rows(store, full_id, part, columns)
        return schemas.CasePage(
            data=[schemas.CaseItem.model_validate(row) for row in rows.to_dicts()],
            count=keys.height,
            limit=wanted.limit,
            offset=wanted.offset,
            index=None if hits is None else hits.index,
            excerpts=None if hits is None else self._excerpts(full_id, part, hits),
        )

    def blocks(
        self, run_id: str, wanted: schemas.CaseQuery, columns: list[str]
    ) -> Iterator[pl.DataFrame]:
        """All cases that match a query, a block of rows at a time; pages do not matter.

        The first block comes with the errors of `cases`. The store is open for moments only.
        """
        hits = None if wanted.q is None else self.search(run_id, wanted.q)
        with open_store(self._config) as store:
            full_id = store.run(run_id).run_id
            chosen = wanted.case_filter()
            keys = matching_cases(store, full_id, chosen, None if hits is None else hits.keys)
            yield case_rows(store, full_id, keys.head(0), columns)
        for part in keys.iter_slices(CSV_BLOCK):
            with open_store(self._config) as store:
                yield case_rows(store, full_id, part, columns)

    def search(self, run_id: str, text: str, wait_s: float = WAIT_S) -> SearchHits:
        """The cases of a run whose texts hold every term of a search.

        An index that is not complete is completed meanwhile; what it holds so far is searched.
        """
        terms = parse_search(text)
        with open_store(self._config) as store:
            full_id = store.run(run_id).run_id
            stored = stored_keys(store, full_id)
        if not self._read(full_id, stored, terms=()).index.is_complete:
            self._builder.build(full_id, wait_s)
        return self._read(full_id, stored, terms)

    def _read(self, run_id: str, stored: pl.DataFrame, terms: tuple[SearchTerm, ...]) -> SearchHits:
        with opened_index(index_path(self._config.uri, run_id)) as index:
            if index is None:
                nothing = schemas.IndexProgress(cases=stored.height, judged=0, said=0, unreadable=0)
                return SearchHits(_NO_KEYS, nothing, terms)
            keys = index.keys()
            numbers = index.matches(terms) if terms else []
        # Of what the index holds, only what the store holds still: nothing forgotten is found.
        there = keys.join(stored, on=[*CASE, "hash"], how="semi")
        states = there["said"]
        judged = int((there["judged"] == READ).sum())
        progress = schemas.IndexProgress(
            cases=stored.height,
            judged=judged,
            said=int((states == READ).sum()),
            unreadable=int((states == UNREADABLE).sum()),
        )
        found = there.filter(pl.col("n").is_in(numbers)).select("n", *CASE)
        return SearchHits(found, progress, terms)

    def _excerpts(self, run_id: str, part: pl.DataFrame, hits: SearchHits) -> list[str]:
        """The text that was found in each case of a part."""
        numbers = part.join(hits.keys, on=CASE, how="left", maintain_order="left")["n"].to_list()
        with opened_index(index_path(self._config.uri, run_id)) as index:
            texts = {} if index is None else index.excerpts(numbers, hits.terms)
        return [texts.get(number, "") for number in numbers]


_NO_KEYS: Final = pl.DataFrame(schema={"n": pl.Int64, "case_id": pl.String, "repetition": pl.Int32})
