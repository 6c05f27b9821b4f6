"""Simulated sessions: reaches of a hand, tuned units, their spikes, and how tuning drifts."""
