"""CIFAR-100, ResNet-9."""

from __future__ import annotations

from docofl_codec.fl.tasks.cifar import CIFAR100, make_task

__all__ = ["TASK"]

TASK = make_task("cifar100", CIFAR100)
