"""POSSM, a real-time decoder of spikes, and the attention and recurrence it is made of."""

__version__ = "1.1.0"
