"""Plays as plain text: blocks of a line ``ROLE:``, the speech, a blank line."""

from __future__ import annotations

from pathlib import Path

from docofl_codec.fl.data.files import DataFormatError, read_bytes

__all__ = ["read_role_text"]


def read_role_text(path: Path) -> dict[str, str]:
    """Read what each role says, in reading order, its speeches joined by line breaks.

    A block whose first line does not end in a colon goes on with the speech before it.

    Raises
    ------
    DataFormatError
        Where the text is not UTF-8 or begins without a role.
    """
    try:
        text = read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataFormatError(f"{path}: found {error.reason}, expected UTF-8") from error
    speeches: dict[str, list[str]] = {}
    role: str | None = None
    for block in text.replace("\r\n", "\n").split("\n\n"):
        first, _, speech = block.strip("\n").partition("\n")
        if first.endswith(":"):
            role = first[:-1]
        else:
            speech = block.strip("\n")
        if not speech:
            continue
        if role is None:
            raise DataFormatError(f"{path}: found {first[:40]!r}, expected a line 'ROLE:'")
        speeches.setdefault(role, []).append(speech)
    return {role: "\n".join(parts) for role, parts in speeches.items()}
