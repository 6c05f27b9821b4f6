"""What chapter 10, notebooks/10_spikes_as_tokens.ipynb, shows: its models, tasks and drawings."""
