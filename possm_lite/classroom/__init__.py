"""What only notebooks use: widgets, plots, exercise checks, and the command that runs the notebooks anew."""
