"""From transcript objects to shards of cases: every record gets exactly one fate."""
