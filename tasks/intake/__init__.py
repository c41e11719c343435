"""From transcript objects to shards of cases: every record is read once and its fate settled."""
