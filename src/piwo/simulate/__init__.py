"""Bandit environments with known value."""
