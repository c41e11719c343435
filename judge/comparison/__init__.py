"""Two runs side by side: the documents' rules, the statistics, and the cases and metrics behind both."""
