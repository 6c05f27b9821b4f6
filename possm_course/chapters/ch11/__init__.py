"""What chapter 11, notebooks/11_latent_cross_attention.ipynb, shows: models, tasks and drawings."""
