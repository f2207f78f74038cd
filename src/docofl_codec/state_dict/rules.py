"""Which tensors are coded, and which are kept at 16 bits or exactly.

By default a tensor is coded, unless it is small (fewer than 1,024 coordinates), a vector of at most
65,536, or named like a bias, a norm or a running statistic with at most 65,536. Those are kept at
16 bits, or exactly where the budget is 8 bits a coordinate or more, the smallest ones first, as
long as they take no more than an eighth of the budget; the rest of them is coded too. What is no
floating-point number is always exact.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Literal, TypeAlias

from docofl_codec.errors import InvalidInputError
from docofl_codec.state_dict.tensors import CODED_DTYPES, TensorSpec

__all__ = ["Choice", "Rules", "choose_stores"]

Choice = Literal["code", "half", "exact"]
Rules: TypeAlias = Mapping[str, Choice] | Callable[[TensorSpec], "Choice | None"]

CHOICES = ("code", "half", "exact")
SMALL = 1024
MAX_SENSITIVE = 65_536
KEPT_SHARE = 1 / 8
EXACT_BITS = 8
SENSITIVE = re.compile(
    r"bias|norm|running_(mean|var)|(^|[._/])(bn|ln)\d*([._/]|$)|moving_(mean|variance)", re.I
)


def choose_stores(
    specs: Sequence[TensorSpec],
    rules: Rules | None,
    *,
    flatten: bool,
    bits: float,
    budget_bytes: float,
) -> list[Choice]:
    """Return what becomes of each tensor.

    Parameters
    ----------
    specs : sequence of TensorSpec
        Those that are tied to others are passed over ("exact" is returned).
    rules : mapping or callable, optional
        What the caller wants: the first pattern that a name matches, or a function's answer; None
        and no match mean the default. Tensors that are no floats are exact all the same.
    flatten : bool
        Code all floating-point tensors that no rule keeps.
    bits : float
        The budget a coordinate.
    budget_bytes : float
        The budget of the whole.
    """
    kept: Choice = "exact" if bits >= EXACT_BITS else "half"
    stores: list[Choice] = []
    by_default: list[int] = []
    for number, spec in enumerate(specs):
        wanted = None if spec.alias_of else _wanted(spec, rules)
        if spec.alias_of or spec.dtype not in CODED_DTYPES or spec.size == 0:
            stores.append("exact")
        elif wanted is not None:
            stores.append(wanted)
        else:
            keeps = not flatten and _is_kept(spec)
            stores.append(kept if keeps else "code")
            if keeps:
                by_default.append(number)
    left = budget_bytes * KEPT_SHARE
    for number in sorted(by_default, key=lambda number: specs[number].size):
        left -= specs[number].num_bytes if kept == "exact" else 2 * specs[number].size
        if left < 0:
            stores[number] = "code"
    return stores


def _wanted(spec: TensorSpec, rules: Rules | None) -> Choice | None:
    if rules is None:
        return None
    found: object = None
    if isinstance(rules, Mapping):
        patterns = (pattern for pattern in rules if fnmatchcase(spec.name, pattern))
        pattern = next(patterns, None)
        found = None if pattern is None else rules[pattern]
    elif callable(rules):
        found = rules(spec)
    else:
        raise TypeError(f"rules: found {type(rules).__qualname__}, expected a mapping or function")
    for choice in CHOICES:
        if found == choice:
            return choice
    if found is None:
        return None
    raise InvalidInputError(
        f"rules: found {found!r} for {spec.name!r}, expected one of {', '.join(CHOICES)}"
    )


def _is_kept(spec: TensorSpec) -> bool:
    if spec.size < SMALL:
        return True
    if spec.size > MAX_SENSITIVE:
        return False
    return len(spec.shape) <= 1 or SENSITIVE.search(spec.name) is not None
