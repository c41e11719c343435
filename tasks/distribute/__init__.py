"""One run over several processes: partitions, work pools, shared limits, heartbeats."""
