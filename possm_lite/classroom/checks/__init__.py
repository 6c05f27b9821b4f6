"""The exercises of the course, one module per chapter, checked by `core`."""
