"""Sends the scores of stored runs to the places where traces are kept, and reads labels there."""
