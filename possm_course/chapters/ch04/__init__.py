"""What chapter 04, notebooks/04_positions.ipynb, shows: its models, tasks and drawings."""
