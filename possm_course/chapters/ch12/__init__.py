"""What chapter 12, notebooks/12_spike_decoder.ipynb, shows: its models, tasks and drawings."""
