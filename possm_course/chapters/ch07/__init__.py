"""What chapter 07 shows: models, tasks and drawings of notebooks/07_sequence_to_sequence.ipynb."""
