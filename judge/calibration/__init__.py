"""How far a judge agrees with people, and what its scores are worth by that."""
