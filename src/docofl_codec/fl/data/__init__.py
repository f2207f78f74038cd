"""Readers of the community's file formats, one module each.

They return NumPy arrays or plain Python values and know nothing of tasks and models.
"""

from __future__ import annotations

from docofl_codec.fl.data.files import DataFormatError, MissingDataError

__all__ = ["DataFormatError", "MissingDataError"]
