"""Pages and API operations about what failures have in common, and what people decide about it."""
