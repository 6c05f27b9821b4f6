"""What chapter 15, notebooks/15_state_space_models.ipynb, shows: its models, tasks and drawings."""
