"""The models that answer asks (litellm, scripted, replayed), and the meaning of provider errors."""
