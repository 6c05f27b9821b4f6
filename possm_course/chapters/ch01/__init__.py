"""What chapter 01, notebooks/01_kernel_regression.ipynb, shows: its models, tasks and drawings."""
