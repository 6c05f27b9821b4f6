"""POSSM in real time: precomputed constants and one step per bin, in NumPy alone."""
