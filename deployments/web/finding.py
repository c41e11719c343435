"""Finds cases for pages and the API: filters, full text, and the building of search indexes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Final, TypeVar

import polars as pl

from assizes.deployments.web import schemas
from assizes.judge.config.run import StoreConfig
from assizes.judge.errors import AssizesError
from assizes.judge.verdicts.executions import CASE, collect_rows
from assizes.tasks.finding.build_index import build_index
from assizes.tasks.finding.case_filter import case_rows, matching_cases
from assizes.tasks.finding.search_index import READ, UNREADABLE, SearchIndex, opened_index
from assizes.tasks.finding.search_query import SearchTerm, parse_search
from assizes.tasks.store import Store, open_store
from assizes.tasks.store.search_files import index_path

T = TypeVar("T")

WAIT_S: Final = 3.0
"""Seconds that a search waits for an index that is being built; small runs are ready by then."""

_KEPT_INDEXES: Final = 4  # whose cases stay in memory, about 100 bytes each

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
        self._kept_keys: dict[str, tuple[tuple[str, int], pl.DataFrame]] = {}  # by run id

    def cases(
        self, run_id: str, wanted: schemas.CaseQuery, wait_s: float = WAIT_S
    ) -> schemas.CasePage:
        """One page of the cases of a run that match a query.

        A search waits so many seconds for an index that is not complete, at most.

        Raises:
            UnknownRun: the store has no such run.
            ConfigurationError: the text to search for, or a filter, cannot be used.
        """
        chosen = wanted.case_filter()

        def page(store: Store, full_id: str, hits: SearchHits | None) -> schemas.CasePage:
            keys = matching_cases(store, full_id, chosen, None if hits is None else hits.keys)
            part = keys.slice(wanted.offset, wanted.limit)
            rows = case_rows(store, full_id, part, list(schemas.CaseItem.model_fields))
            return schemas.CasePage(
                data=[schemas.CaseItem.model_validate(row) for row in rows.to_dicts()],
                count=keys.height,
                limit=wanted.limit,
                offset=wanted.offset,
                index=None if hits is None else hits.index,
                excerpts=None if hits is None else self._excerpts(full_id, part, hits),
            )

        return self._with_hits(run_id, wanted.q, wait_s, page)

    def blocks(
        self, run_id: str, wanted: schemas.CaseQuery, columns: list[str]
    ) -> Iterator[pl.DataFrame]:
        """All cases that match a query, a block of rows at a time; pages do not matter.

        The first block comes with the errors of `cases`. The store is open for moments only.
        """
        chosen = wanted.case_filter()

        def match(store: Store, full_id: str, hits: SearchHits | None) -> tuple[str, pl.DataFrame]:
            keys = None if hits is None else hits.keys
            return full_id, matching_cases(store, full_id, chosen, keys)

        full_id, keys = self._with_hits(run_id, wanted.q, WAIT_S, match)
        yield pl.DataFrame(schema=columns)
        for part in keys.iter_slices(CSV_BLOCK):
            with open_store(self._config) as store:
                yield case_rows(store, full_id, part, columns)

    def search(self, run_id: str, text: str, wait_s: float = WAIT_S) -> SearchHits:
        """The cases of a run whose texts hold every term of a search.

        An index that is not complete is completed meanwhile; what it holds so far is searched. It
        may hold a case that was forgotten on another machine: only cases of the store are shown.
        """

        def given(_store: Store, _full_id: str, hits: SearchHits | None) -> SearchHits:
            assert hits is not None, "there is a text"
            return hits

        return self._with_hits(run_id, text, wait_s, given)

    def _with_hits(
        self,
        run_id: str,
        text: str | None,
        wait_s: float,
        use: Callable[[Store, str, SearchHits | None], T],
    ) -> T:
        """What a function makes of the open store, the full id of a run, and what a search found.

        The store is opened once, and closed while an index that is not complete is built.
        """
        terms = None if text is None else parse_search(text)
        with open_store(self._config) as store:
            full_id = store.run(run_id).run_id
            if terms is None:
                return use(store, full_id, None)
            hits = self._read(full_id, _case_count(store, full_id), terms)
            if hits.index.is_complete:
                return use(store, full_id, hits)
        self._builder.build(full_id, wait_s)
        with open_store(self._config) as store:
            return use(store, full_id, self._read(full_id, _case_count(store, full_id), terms))

    def _read(self, run_id: str, stored: int, terms: tuple[SearchTerm, ...]) -> SearchHits:
        """What an index holds now; `stored`: the cases that the store holds."""
        with opened_index(index_path(self._config.uri, run_id)) as index:
            if index is None:
                nothing = schemas.IndexProgress(cases=stored, judged=0, said=0, unreadable=0)
                return SearchHits(_NO_KEYS, nothing, terms)
            keys = self._keys(run_id, index)
            numbers = pl.Series(index.matches(terms), dtype=pl.Int64)
        states = keys["said"]
        progress = schemas.IndexProgress(
            cases=stored,
            judged=int((keys["judged"] == READ).sum()),
            said=int((states == READ).sum()),
            unreadable=int((states == UNREADABLE).sum()),
        )
        found = keys.filter(pl.col("n").is_in(numbers.implode())).select("n", *CASE)
        return SearchHits(found, progress, terms)

    def _keys(self, run_id: str, index: SearchIndex) -> pl.DataFrame:
        """The cases of an index, kept until the index changes: reading them takes most of a search."""
        revision = index.revision()
        kept = self._kept_keys.get(run_id)
        if kept is None or kept[0] != revision:
            while len(self._kept_keys) >= _KEPT_INDEXES:
                self._kept_keys.pop(next(iter(self._kept_keys)), None)
            kept = self._kept_keys[run_id] = (revision, index.keys())
        return kept[1]

    def _excerpts(self, run_id: str, part: pl.DataFrame, hits: SearchHits) -> list[str]:
        """The text that was found in each case of a part."""
        numbers = part.join(hits.keys, on=CASE, how="left", maintain_order="left")["n"].to_list()
        with opened_index(index_path(self._config.uri, run_id)) as index:
            texts = {} if index is None else index.excerpts(numbers, hits.terms)
        return [texts.get(number, "") for number in numbers]


def _case_count(store: Store, run_id: str) -> int:
    return collect_rows(store.scan(run_id, "cases").select("repetition")).height


_NO_KEYS: Final = pl.DataFrame(schema={"n": pl.Int64, "case_id": pl.String, "repetition": pl.Int32})
