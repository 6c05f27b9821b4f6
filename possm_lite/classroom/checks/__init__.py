"""The exercises of the course, one module per chapter, checked by `core`."""

from ..environment import require

require()  # every chapter imports its checks at the top: here it hears of a package that is too old
