"""Text of files that others wrote, whatever its encoding."""

from pathlib import Path

from ...errors import RecordingError


def read_text(file: Path) -> str:
    """The text of a `file` in UTF-8, in UTF-16, or in GB 18030; else in Latin-1.

    SpikeInterface #3429: on Chinese Windows, Kilosort writes params.py in GBK, of which GB 18030 is
    the larger form. Latin-1 reads everything, and what is ASCII rightly, as numbers are.

    Args:
        file: the file.

    Raises:
        RecordingError: it holds zero bytes, as where a computer lost its power while it wrote.
            Without the path.
    """
    content = file.read_bytes()
    for encoding in (*_utf16(content), "utf-8-sig", "gb18030", "latin-1"):
        try:
            text = content.decode(encoding)
        except UnicodeDecodeError:
            continue
        if "\0" not in text:
            return text
    raise RecordingError(
        "is damaged: it holds zero bytes, as after a crash. Copy it again, or save it again."
    )


def _utf16(content: bytes) -> tuple[str, ...]:
    """The form of UTF-16 that a text is in, by its mark or, as Excel may leave it out, by zeros."""
    if content[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return ("utf-16",)
    ascii_low, ascii_high = content[1:200:2], content[:200:2]  # the other byte of each letter
    if ascii_low.count(0) > 0.7 * len(ascii_low):
        return ("utf-16-le",)
    return ("utf-16-be",) if ascii_high.count(0) > 0.7 * len(ascii_high) else ()
