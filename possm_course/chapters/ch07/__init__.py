"""What chapter 07, notebooks/07_sequence_to_sequence.ipynb, shows: its models, tasks and drawings."""
