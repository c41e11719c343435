"""Two runs side by side: the three rules, the statistics, and the cases and metrics behind both."""
