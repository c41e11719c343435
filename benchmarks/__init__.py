"""Figures of the product, measured in one run; `make bench` prints them."""
