"""The built-in judges and those of users, by family; `assizes.judge.catalog` lists them all."""
