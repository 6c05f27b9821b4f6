"""What chapter 11, notebooks/11_latent_cross_attention.ipynb, shows: its models, tasks and drawings."""
