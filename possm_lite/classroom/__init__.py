"""Used by notebooks only: widgets, figures, checks of exercises, and the command that executes the notebooks."""
