"""What chapter 05, notebooks/05_continuous_time.ipynb, shows: its models, tasks and drawings."""
