"""What model calls cost and what was paid for: the ledger and the reply cache."""
