"""What chapter 09, notebooks/09_associative_memory.ipynb, shows: its models, tasks and drawings."""
