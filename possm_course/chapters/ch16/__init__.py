"""What chapter 16, notebooks/16_new_sessions.ipynb, shows: its models, tasks and drawings."""
