"""What chapter 08, notebooks/08_memory_networks.ipynb, shows: its models, tasks and drawings."""
