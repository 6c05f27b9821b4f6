"""What chapter 17, notebooks/17_your_recording.ipynb, shows: its models, tasks and drawings."""
