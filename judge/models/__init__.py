"""The models that answer asks: litellm, scripted, replayed; what a provider's errors mean."""
