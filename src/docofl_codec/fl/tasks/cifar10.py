"""CIFAR-10, ResNet-9."""

from __future__ import annotations

from docofl_codec.fl.tasks.cifar import CIFAR10, make_task

__all__ = ["TASK"]

TASK = make_task("cifar10", CIFAR10)
