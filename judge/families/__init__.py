"""The judges, one family a module; `judge.catalog` lists them."""
