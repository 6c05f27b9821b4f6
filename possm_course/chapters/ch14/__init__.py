"""What chapter 14, notebooks/14_real_time.ipynb, shows: its models, tasks and drawings."""
