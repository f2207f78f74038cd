"""Compression of model weights and updates for federated learning.

>>> import numpy as np
>>> from docofl_codec import decode, ecuq, inspect
>>> blob = ecuq.encode(np.arange(6, dtype=np.float32).reshape(2, 3), bits=4)
>>> decode(blob).shape
(2, 3)
"""

from __future__ import annotations

from docofl_codec import baselines, ecuq, eden, errors
from docofl_codec._core import build_info
from docofl_codec.codec import Codec, Ecuq, Eden, Identity, codec_from_config, make_codec
from docofl_codec.errors import (
    CodecError,
    CorruptFrameError,
    InvalidInputError,
    LimitExceededError,
    TruncatedFrameError,
    UnsupportedFrameError,
)
from docofl_codec.frame import FrameInfo, decode, inspect
from docofl_codec.state_dict import (
    StateDictInfo,
    TensorReport,
    decode_state_dict,
    encode_state_dict,
    inspect_state_dict,
    report_state_dict,
)

__version__ = build_info()["version"]

__all__ = [
    "Codec",
    "CodecError",
    "CorruptFrameError",
    "Ecuq",
    "Eden",
    "FrameInfo",
    "Identity",
    "InvalidInputError",
    "LimitExceededError",
    "StateDictInfo",
    "TensorReport",
    "TruncatedFrameError",
    "UnsupportedFrameError",
    "__version__",
    "baselines",
    "build_info",
    "codec_from_config",
    "decode",
    "decode_state_dict",
    "ecuq",
    "eden",
    "encode_state_dict",
    "errors",
    "inspect",
    "inspect_state_dict",
    "make_codec",
    "report_state_dict",
]
