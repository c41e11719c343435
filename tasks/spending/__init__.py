"""Money: the ledger that counts every model call, and the cache of replies that were paid for."""
