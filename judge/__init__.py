"""The domain: cases, judges, hearings, scores, verdicts, summaries and comparisons.

Nothing here reads or writes transcripts, stores, caches or databases (`assizes.tasks` does); the
only files read are the rubrics and Python modules that the configuration names. Models are called
behind one protocol, `assizes.judge.models.model`.
"""
