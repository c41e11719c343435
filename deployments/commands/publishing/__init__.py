"""What the commands do that send scores to other places, and read labels there."""
