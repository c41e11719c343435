"""The judges, one family a module; `assizes.judge.catalog` lists them."""
