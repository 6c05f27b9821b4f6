LONGEST_FIRST = [16, 13, 17, 18, 8, 7, 14, 6, 12, 15, 9, 11, 10, 5, 3, 0, 2, 1, 4]  # by `make bench ARGS=course`


def pytest_collection_modifyitems(items):
    """Chapters first, the longest first: a process takes one file at a time, so short tests fill the gaps."""
    order = {f"{number:02d}": i for i, number in enumerate(LONGEST_FIRST)}
    items.sort(key=lambda item: order[item.path.name[:2]] if item.path.suffix == ".ipynb" else len(order))
