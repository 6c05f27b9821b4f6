"""What chapter 03, notebooks/03_self_and_multi_head.ipynb, shows: its models, tasks and drawings."""
