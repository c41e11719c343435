"""The domain: cases, judges, hearings, scores, verdicts, summaries and comparisons.

Nothing in this package reads or writes what a run is about: transcripts, stores, caches, databases.
Models are called through one seam, `assizes.judge.models.model`; configured rubric files and modules are read here.
"""
