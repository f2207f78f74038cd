"""EDEN as a communication hook of torch's DistributedDataParallel.

Every rank sends its gradients compressed, every rank averages the same frames in the same order:
replicas stay bit-identical, and the mean is unbiased.
"""

# DDP checks a hook's annotations as objects: no `from __future__ import annotations` here.
import math
from typing import Any

import numpy as np

from docofl_codec.codec import Eden
from docofl_codec.errors import CodecError, InvalidInputError
from docofl_codec.framework.aggregation import aggregator_for
from docofl_codec.framework.seeds import derive_seed
from docofl_codec.framework.vectors import as_vector
from docofl_codec.integrations._extras import needs

with needs("torch", extra="torch"):
    import torch
    import torch.distributed as dist

__all__ = ["EdenState", "eden_hook"]

_SIZE_BYTES = 8  # before a frame; 0 stands for gradients that are not finite


class EdenState:
    """What :func:`eden_hook` needs to know, and what it has counted.

    It can be pickled with a checkpoint, all but the process group. A state whose ranks were not all
    the ranks needs its group again, in ``state.process_group``, before the hook is used.

    Parameters
    ----------
    process_group : ProcessGroup, optional
        The ranks that average; by default all.
    bits : float, default 4
        Bits a gradient value, 0.1 to 8.
    seed : int, default 0
        Of the run. Rotations differ by step, bucket and rank.

    Attributes
    ----------
    steps : int
        Optimizer steps so far, that is backward passes with synchronisation.
    bytes_last_step, total_bytes : int
        What this rank has sent.
    plain_bytes_last_step : int
        What a ring all-reduce of the uncompressed gradients would have sent.
    """

    def __init__(self, process_group: Any = None, bits: float = 4.0, seed: int = 0) -> None:
        self.process_group = process_group
        self.bits = float(bits)
        self.seed = int(seed)
        self.steps = 0
        self.bytes_last_step = 0
        self.plain_bytes_last_step = 0
        self.total_bytes = 0
        self._bytes = 0  # of the step that is going on
        self._plain_bytes = 0
        self._had_group = False  # and has left it behind
        self.codec.encode(np.zeros(1, dtype=np.float32), seed=0)  # checks the budget

    @property
    def codec(self) -> Eden:
        """The codec of all buckets."""
        return Eden(bits=self.bits)

    @property
    def ranks(self) -> Any:
        """The process group that averages.

        Raises
        ------
        InvalidInputError
            Where the state comes from a pickle and its group, not of all ranks, did not.
        """
        if self.process_group is not None:
            return self.process_group
        if self._had_group:
            raise InvalidInputError(
                "process_group: found none after loading, expected the group of some ranks that it "
                "was saved with: set state.process_group to it, or to dist.group.WORLD"
            )
        return dist.group.WORLD

    def __getstate__(self) -> dict[str, Any]:
        had_group = self._had_group if self.process_group is None else not self._is_world
        return {**self.__dict__, "process_group": None, "_had_group": had_group}

    @property
    def _is_world(self) -> bool:
        return dist.is_initialized() and self.process_group is dist.group.WORLD

    def count(self, sent: int, plain: int, *, is_last: bool) -> None:
        """Book a bucket's bytes; the last bucket ends the step."""
        self._bytes += sent
        self._plain_bytes += plain
        self.total_bytes += sent
        if is_last:
            self.bytes_last_step, self._bytes = self._bytes, 0
            self.plain_bytes_last_step, self._plain_bytes = self._plain_bytes, 0
            self.steps += 1


def eden_hook(
    state: EdenState,
    bucket: dist.GradBucket,  # type: ignore[name-defined]
) -> torch.futures.Future[torch.Tensor]:
    """Average a bucket of gradients over all ranks, compressed by EDEN.

    Use it as ``ddp_model.register_comm_hook(EdenState(bits=4), eden_hook)``. Where a rank's
    gradients are not finite, all ranks get NaN, as without the hook. A single rank keeps its
    gradients as they are.

    Parameters
    ----------
    state : EdenState
        One for each model and rank, made with the same options on all ranks.
    bucket : GradBucket
        Gradients in float16, bfloat16, float32 or float64.

    Returns
    -------
    Future
        Of the mean, in the bucket's dtype.
    """
    group = state.ranks
    num_ranks = dist.get_world_size(group)
    buffer = bucket.buffer()
    is_last = bucket.is_last()
    if num_ranks == 1:
        state.count(0, 0, is_last=is_last)
        done: torch.futures.Future[torch.Tensor] = torch.futures.Future()
        done.set_result(buffer)
        return done

    seed = derive_seed(state.seed, "ddp", state.steps, bucket.index(), dist.get_rank(group))
    sent = torch.from_numpy(_pack(state.codec, buffer, seed)).to(buffer.device)
    received = [torch.empty_like(sent) for _ in range(num_ranks)]
    plain = 2 * buffer.numel() * buffer.element_size() * (num_ranks - 1) // num_ranks
    state.count(sent.numel() * (num_ranks - 1), plain, is_last=is_last)

    codec = state.codec
    gathering = dist.all_gather(received, sent, group=group, async_op=True)
    assert gathering is not None

    def average(_: Any) -> torch.Tensor:
        return _average(codec, received, buffer)

    future: torch.futures.Future[torch.Tensor] = gathering.get_future().then(average)
    return future


def _pack(codec: Eden, gradients: torch.Tensor, seed: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Return a frame behind its size, in as many bytes as a frame of that many values can take."""
    size = gradients.numel()
    packed = np.zeros(_SIZE_BYTES + _frame_limit(size, codec.bits), dtype=np.uint8)
    try:
        frame = codec.encode(gradients, seed=seed)
    except InvalidInputError:  # not finite; the other ranks must not wait for ever
        return packed
    packed[:_SIZE_BYTES] = np.frombuffer(len(frame).to_bytes(_SIZE_BYTES, "little"), np.uint8)
    packed[_SIZE_BYTES : _SIZE_BYTES + len(frame)] = np.frombuffer(frame, np.uint8)
    return packed


def _frame_limit(size: int, bits: float) -> int:
    """Return the bound of :func:`docofl_codec.eden.encode` for a flat tensor."""
    return math.ceil(bits * size / 8) + 186 + 6 * (size // 32768 + 11)


def _average(codec: Eden, packs: list[torch.Tensor], buffer: torch.Tensor) -> torch.Tensor:
    """Write the mean of all ranks' gradients to the buffer."""
    aggregator = aggregator_for(codec, buffer.numel())
    for rank, pack in enumerate(packs):
        data = pack.cpu().numpy()
        size = int.from_bytes(data[:_SIZE_BYTES].tobytes(), "little")
        if size == 0:
            return buffer.fill_(math.nan)
        try:
            aggregator.add(data[_SIZE_BYTES : _SIZE_BYTES + size].tobytes())
        except CodecError as error:
            raise type(error)(f"rank {rank}: {error}") from None
    mean = torch.from_numpy(as_vector(aggregator.mean(), what="gradients"))
    return buffer.copy_(mean)
