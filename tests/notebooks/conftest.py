def pytest_collection_modifyitems(items):
    """Chapters first: with `--dist worksteal`, the short tests then fill the gaps."""
    items.sort(key=lambda item: not item.name.startswith("test_chapter_runs"))
