"""The conversation judge (seed 000): up to nine metrics and the expected outcomes in one ask."""
