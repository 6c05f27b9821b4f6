"""What chapter 13, notebooks/13_is_it_any_good.ipynb, shows: its models, tasks and drawings."""
