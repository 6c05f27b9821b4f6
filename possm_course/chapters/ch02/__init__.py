"""What chapter 02, notebooks/02_scoring.ipynb, shows: its models, tasks and drawings."""
