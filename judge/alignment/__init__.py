"""A better judge from the labels of people: proposals, their choice, and the proof on held-out labels."""
