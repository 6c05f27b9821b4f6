"""What chapter 06, notebooks/06_recurrent_networks.ipynb, shows: its models, tasks and drawings."""
