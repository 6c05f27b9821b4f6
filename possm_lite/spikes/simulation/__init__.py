"""Simulated sessions: reaches of a hand, tuned units, their spikes, and how tuning drifts."""

from .drift import drift_tuning
from .neurons import SimulationConfig, UnitTuning
from .session import (
    GroundTruth,
    SimulatedSession,
    load_ground_truth,
    save_session,
    simulate_session,
)

__all__ = [
    "GroundTruth",
    "SimulatedSession",
    "SimulationConfig",
    "UnitTuning",
    "drift_tuning",
    "load_ground_truth",
    "save_session",
    "simulate_session",
]
