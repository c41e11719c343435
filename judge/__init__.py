"""The domain: cases, judges, hearings, scores, verdicts, summaries and comparisons.

Nothing in this package reads or writes transcripts, stores, caches or databases: `assizes.tasks`
does. Models are called behind one protocol, `assizes.judge.models.model`. The only files read here
are the rubric files and Python modules that the configuration names.
"""
