"""What chapter 03 shows: models, tasks and drawings of notebooks/03_self_and_multi_head.ipynb."""
