"""What chapter 18, notebooks/18_scaling_out.ipynb, shows: its models, tasks and drawings."""
