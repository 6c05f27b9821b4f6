"""Simulated sessions: reaches of a hand, tuned units, their spikes, and how tuning drifts."""

from .drift import drifted
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
    "drifted",
    "load_ground_truth",
    "save_session",
    "simulate_session",
]
