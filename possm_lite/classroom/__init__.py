"""Used by notebooks only: widgets, styles, checks of exercises, and the loader of what is beside a chapter."""
