"""What every process needs: log redaction, progress, termination, failpoints."""
