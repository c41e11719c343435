"""The domain: cases, judges, hearings, scores, verdicts, summaries and comparisons.

Nothing in this package does I/O except `judge.llm`, the one seam to a language model.
"""
