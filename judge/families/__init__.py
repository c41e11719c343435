"""The built-in judges and those of a user: one folder or module for each family of judges.

`assizes.judge.catalog` lists them all.
"""
