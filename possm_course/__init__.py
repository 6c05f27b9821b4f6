"""Used by chapters only: their systems, one module each; checks of exercises, diagrams, sliders, styles."""
