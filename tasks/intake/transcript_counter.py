"""Counts the transcripts that have arrived so far; each version of an object is read only once."""

from __future__ import annotations

from assizes.judge.config.transcripts import TranscriptsConfig
from assizes.judge.errors import Inconclusive
from assizes.tasks.intake.run_sources import transcript_sources
from assizes.tasks.intake.scan import Scan
from assizes.tasks.intake.selection import DEFAULT_SCAN_POLICY
from assizes.tasks.sources.spool import Spool
from assizes.tasks.sources.transcript_source import TranscriptSource


class TranscriptCounter:
    """Counts the cases that a configuration names, while new objects arrive and old ones grow.

    Every count lists the objects and reads those that are new or have changed, with the reader of a
    run. The case identities of the other objects are remembered.

    Attributes:
        config: where the transcripts are; may be replaced between two counts.
    """

    def __init__(self, config: TranscriptsConfig) -> None:
        self.config = config
        self._identities: dict[TranscriptSource, frozenset[bytes]] = {}

    def count_cases(self) -> int:
        """How many cases there are now; a case that stands in two objects counts once.

        Raises:
            ConfigurationError: the transcripts cannot be reached.
        """
        with Spool.of(self.config) as spool:
            try:
                sources = transcript_sources(self.config, None, spool)
            except Inconclusive:
                sources = []
            known = self._identities
            self._identities = {
                source: known[source] if source in known else self._read(source, spool)
                for source in sources
            }
        return len(frozenset().union(*self._identities.values()))

    def _read(self, source: TranscriptSource, spool: Spool) -> frozenset[bytes]:
        scan = Scan(self.config, spool, lambda _: None, DEFAULT_SCAN_POLICY)
        scan.read(source)
        return frozenset(scan.identities)
