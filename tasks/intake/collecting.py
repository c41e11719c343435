"""How many transcripts there are by now, each object read once."""

from __future__ import annotations

from assizes.judge.config.run import TranscriptsConfig
from assizes.judge.errors import Inconclusive
from assizes.tasks.intake.manifests import transcript_sources
from assizes.tasks.intake.scan import DEFAULT_SCAN_POLICY, Scan
from assizes.tasks.sources.objects import Spool
from assizes.tasks.sources.pinned import TranscriptSource


class TranscriptCounter:
    """The cases a configuration means, in objects that come and grow while one looks.

    Every look lists the objects and reads those that are new or have changed, with the reader of a
    run; of the others it remembers which cases they hold.
    """

    def __init__(self, config: TranscriptsConfig) -> None:
        """Nothing is known before the first look; the place may be set anew between looks."""
        self.config = config
        self._cases: dict[TranscriptSource, frozenset[bytes]] = {}

    def count_cases(self) -> int:
        """How many cases there are now; one that stands in two objects is one.

        Raises:
            ConfigurationError: the transcripts cannot be reached.
        """
        with Spool.of(self.config) as spool:
            try:
                sources = transcript_sources(self.config, None, spool)
            except Inconclusive:
                sources = []
            known = self._cases
            self._cases = {
                source: known[source] if source in known else self._read(source, spool)
                for source in sources
            }
        return len(frozenset().union(*self._cases.values()))

    def _read(self, source: TranscriptSource, spool: Spool) -> frozenset[bytes]:
        scan = Scan(self.config, spool, lambda _: None, DEFAULT_SCAN_POLICY)
        scan.read(source)
        return frozenset(scan.identities)
