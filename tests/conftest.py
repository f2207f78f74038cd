"""What all tests share: data sets, frames, and the settings of hypothesis."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from hypothesis import settings

from docofl_codec import _core, build_info, ecuq
from tests.helpers import frames
from tests.helpers.data import DATA_SETS, Floats, normal

# `suite` is the same on every run; `pytest --hypothesis-profile=explore` looks further, `brief` is
# for sanitizers.
settings.register_profile("suite", deadline=None, derandomize=True, max_examples=200)
settings.register_profile("brief", deadline=None, derandomize=True, max_examples=20)
settings.register_profile("explore", deadline=None, max_examples=5000)
settings.load_profile("suite")


@pytest.fixture
def reseal() -> Callable[[bytes], bytes]:
    """Recompute the checksum of a frame whose bytes were changed."""
    return frames.reseal


@pytest.fixture(params=DATA_SETS)
def data_set(request: pytest.FixtureRequest) -> Callable[[int], Floats]:
    """Every data set in turn, as a function of the size."""
    return DATA_SETS[request.param]


@pytest.fixture
def tensor() -> Floats:
    """A small tensor of three dimensions."""
    return normal(2 * 3 * 5).reshape(2, 3, 5)


@pytest.fixture
def blob(tensor: Floats) -> bytes:
    """A frame of `tensor`."""
    return ecuq.encode(tensor, bits=4)


@pytest.fixture(params=build_info()["isa_levels"])
def isa(request: pytest.FixtureRequest) -> Iterator[str]:
    """Every instruction set that this machine has, in turn."""
    before = build_info()["isa"]
    _core.set_isa(request.param)
    yield request.param
    _core.set_isa(before)
