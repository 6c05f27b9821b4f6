"""Builds the web pages, the live page and the slides from the notebooks and the package."""
