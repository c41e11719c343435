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
from assizes.judge.verdicts.executions import CASE
from assizes.tasks.finding.build_index import build_index
from assizes.tasks.finding.case_filter import CaseFilter, case_rows, matching_cases
from assizes.tasks.finding.kept_cases import PLACE, KeptCases, RunCases
from assizes.tasks.finding.search_index import READ, UNREADABLE, SearchIndex, opened_index
from assizes.tasks.finding.search_query import SearchTerm, parse_search
from assizes.tasks.store import Store, open_store
from assizes.tasks.store.search_files import index_path

T = TypeVar("T")

WAIT_S: Final = 3.0
"""Seconds that a search waits for an index that is being built; small runs are ready by then."""

_KEPT_INDEXES: Final = 4  # whose numbers stay in memory, 12 bytes for each case

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

    keys: pl.DataFrame  # `CASE`, `n`, their numbers in the index, and `PLACE`
    index: schemas.IndexProgress
    terms: tuple[SearchTerm, ...] = field(default=())


@dataclass(frozen=True, slots=True)
class _Numbers:
    """Which case of a run each number of its index is, at one revision of both."""

    index: tuple[str, int]  # its revision
    run: str  # its revision
    places: pl.DataFrame  # `n` and `PLACE`
    counts: tuple[int, int, int]  # cases whose texts are judged, said, and unreadable


class CaseFinder:
    """Finds cases in the runs of one store, which it never keeps open."""

    def __init__(self, config: StoreConfig) -> None:
        self._config = config
        self._builder = IndexBuilder(config)
        self._kept = KeptCases()
        self._kept_numbers: dict[str, _Numbers] = {}  # by run id

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
            keys = self._matching(store, full_id, chosen, hits)
            part = keys.slice(wanted.offset, wanted.limit)
            names = list(schemas.CaseItem.model_fields)
            rows = case_rows(store, full_id, part, names, self._kept)
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
            return full_id, self._matching(store, full_id, chosen, hits)

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
            full_id = store.full_id(run_id)
            if terms is None:
                return use(store, full_id, None)
            hits = self._read(store, full_id, terms)
            if hits.index.is_complete:
                return use(store, full_id, hits)
        self._builder.build(full_id, wait_s)
        with open_store(self._config) as store:
            return use(store, full_id, self._read(store, full_id, terms))

    def _matching(
        self, store: Store, run_id: str, chosen: CaseFilter, hits: SearchHits | None
    ) -> pl.DataFrame:
        places = None if hits is None else hits.keys[PLACE]
        return matching_cases(store, run_id, chosen, self._kept, places)

    def _read(self, store: Store, run_id: str, terms: tuple[SearchTerm, ...]) -> SearchHits:
        """What an index holds now of the cases that the store holds."""
        cases = self._kept.columns(store, run_id, CASE)
        with opened_index(index_path(self._config.uri, run_id)) as index:
            if index is None:
                nothing = schemas.IndexProgress(
                    cases=cases.rows.height, judged=0, said=0, unreadable=0
                )
                return SearchHits(_NO_KEYS, nothing, terms)
            numbers = self._numbers(run_id, index, cases)
            found = index.matches(terms).to_frame("n").join(numbers.places, on="n")
        judged, said, unreadable = numbers.counts
        progress = schemas.IndexProgress(
            cases=cases.rows.height, judged=judged, said=said, unreadable=unreadable
        )
        keys = cases.rows.select(CASE)[found[PLACE]]
        return SearchHits(found.hstack(keys), progress, terms)

    def _numbers(self, run_id: str, index: SearchIndex, cases: RunCases) -> _Numbers:
        """Which case each number of an index is, kept until the index or the run changes."""
        revision = index.revision()
        kept = self._kept_numbers.get(run_id)
        if kept is None or (kept.index, kept.run) != (revision, cases.revision):
            while len(self._kept_numbers) >= _KEPT_INDEXES:
                self._kept_numbers.pop(next(iter(self._kept_numbers)), None)
            kept = self._kept_numbers[run_id] = _read_numbers(revision, index, cases)
        return kept

    def _excerpts(self, run_id: str, part: pl.DataFrame, hits: SearchHits) -> list[str]:
        """The text that was found in each case of a part."""
        numbers = part.join(hits.keys, on=CASE, how="left", maintain_order="left")["n"].to_list()
        with opened_index(index_path(self._config.uri, run_id)) as index:
            texts = {} if index is None else index.excerpts(numbers, hits.terms)
        return [texts.get(number, "") for number in numbers]


def _read_numbers(revision: tuple[str, int], index: SearchIndex, cases: RunCases) -> _Numbers:
    counts = index.states()
    places = cases.rows.select(CASE).with_row_index(PLACE)
    return _Numbers(
        index=revision,
        run=cases.revision,
        places=index.numbers().join(places, on=CASE).select("n", PLACE),
        counts=(
            sum(count for judged, _, count in counts if judged == READ),
            sum(count for _, said, count in counts if said == READ),
            sum(count for _, said, count in counts if said == UNREADABLE),
        ),
    )


_NO_KEYS: Final = pl.DataFrame(
    schema={"n": pl.Int64, PLACE: pl.UInt32, "case_id": pl.String, "repetition": pl.Int32}
)
