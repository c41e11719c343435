"""What the failures of a run have in common: causes, and which of them earlier runs had."""
