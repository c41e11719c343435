"""What one run opens once and all its shards share, and what other processes check it against."""
