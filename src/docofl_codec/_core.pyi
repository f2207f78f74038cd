from collections.abc import Sequence
from typing import Any, TypedDict

class BuildInfo(TypedDict):
    version: str
    compiler: str
    isa: str
    isa_levels: tuple[str, ...]
    openmp: bool

class EcuqInfo(TypedDict):
    num_levels: int
    explicit_levels: bool
    coded_levels: int
    tuple_size: int
    raw_bits: int
    num_outliers: int
    x_min: float
    x_max: float
    step: float
    entropy: float

class EdenInfo(TypedDict):
    bits: float
    seed: int
    entropy_coded: bool

class Frame:
    codec: int
    dtype: int
    flags: int
    shape: tuple[int, ...]
    size: int
    frame_bytes: int
    payload: bytes
    def __init__(self, blob: Any, threads: int) -> None: ...
    def ecuq_info(self) -> EcuqInfo: ...
    def eden_info(self) -> EdenInfo: ...
    def decode_into(self, out: Any, out_dtype: int, threads: int) -> None: ...
    def store_values(self, values: Any, out: Any, out_dtype: int) -> None: ...

class ByteRoom:
    size: int
    def __init__(self) -> None: ...
    def reserve(self, capacity: int) -> None: ...
    def write(self, data: Any) -> None: ...
    def cut(self, size: int) -> None: ...
    def take(self) -> bytes: ...

class RateModel:
    coarsest: float
    has_range: bool
    def __init__(self, best: bool, coder: int, threads: int) -> None: ...
    def add(self, frame: int, data: Any, dtype: int, count: int) -> None: ...
    def finish(self) -> None: ...
    def find_step(self, bits: float) -> float: ...
    def bits(self, step: float) -> float: ...
    def clamp(self, exponent: float) -> float: ...

def ecuq_encode(
    data: Any,
    dtype: int,
    shape: Sequence[int],
    flags: int,
    bits: float,
    tolerance: float,
    entropy_budget: bool,
    threads: int,
    step: float = 0.0,
    best: bool = False,
    centroids: bool = True,
    coder: int = 0,
) -> bytes: ...
def ecuq_encode_frames(
    tensors: Sequence[tuple[Any, int]],
    step: float,
    best: bool,
    coder: int,
    threads: int,
    out: ByteRoom,
    most: int,
) -> list[int]: ...
def eden_encode(
    data: Any,
    dtype: int,
    shape: Sequence[int],
    flags: int,
    bits: float,
    seed: int,
    mse_scale: bool,
    entropy_coded: bool,
    threads: int,
) -> bytes: ...
def eden_decode_sum(
    frames: Sequence[Frame], weights: Sequence[float], add: bool, out: Any, threads: int
) -> None: ...
def eden_rotate(data: Any, out: Any, seed: int, threads: int) -> None: ...
def hadamard(data: Any) -> None: ...
def identity_encode(
    data: Any, dtype: int, shape: Sequence[int], flags: int, threads: int
) -> bytes: ...
def wrap_payload(
    codec: int, dtype: int, shape: Sequence[int], flags: int, payload: Any, threads: int
) -> bytes: ...
def load_tensor(data: Any, dtype: int, shape: Sequence[int], out: Any) -> None: ...
def eden_rotate_back(data: Any, out: Any, seed: int, threads: int) -> None: ...
def euclidean_norm(data: Any) -> float: ...
def qsgd_cost(data: Any, norm: float, levels: int, key: int) -> tuple[float, float, float]: ...
def qsgd_quantize(data: Any, norm: float, levels: int, key: int, out: Any) -> None: ...
def gamma_encode(multiples: Any, sparse: bool) -> bytes: ...
def gamma_decode(stream: Any, sparse: bool, out: Any) -> int: ...
def build_info() -> BuildInfo: ...
def set_isa(name: str) -> None: ...
