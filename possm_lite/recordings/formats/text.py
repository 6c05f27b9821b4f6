"""Text of files that others wrote, whatever its encoding."""

from pathlib import Path


def read_text(file: Path) -> str:
    """The text of a `file` in UTF-8, in UTF-16 with its mark, or in GB 18030; else in Latin-1.

    SpikeInterface #3429: on Chinese Windows, Kilosort writes params.py in GBK, of which GB 18030 is
    the larger form. Latin-1 reads everything, and what is ASCII rightly, as numbers are.
    """
    content = file.read_bytes()
    is_utf16 = content[:2] in (b"\xff\xfe", b"\xfe\xff")
    for encoding in ("utf-16",) if is_utf16 else ("utf-8-sig", "gb18030"):
        try:
            return content.decode(encoding)
        except UnicodeDecodeError:
            continue
    return content.decode("latin-1")
