"""Pictures that move: the `draw` functions behind the named interactive figures, one module each."""
