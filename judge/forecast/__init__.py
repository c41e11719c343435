"""What a run would ask and cost, computed without calling a model."""
