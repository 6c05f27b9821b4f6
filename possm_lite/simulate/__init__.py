"""Simulated sessions: reaches of a hand, tuned units, their spikes, and how tuning drifts."""

from .session import load_ground_truth, simulate_session

__all__ = ["load_ground_truth", "simulate_session"]
