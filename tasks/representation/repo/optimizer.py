"""Adam in a few lines (Kingma and Ba 2015, arXiv 1412.6980). Not a general optimiser library.

`torch.optim` works here too, but its first use in a process imports PyTorch's compiler, which takes
longer than training this network.
"""

from collections.abc import Iterable

import torch
from torch import Tensor


class Adam:
    """Adam with optional decoupled weight decay (AdamW)."""

    def __init__(
        self,
        parameters: Iterable[Tensor],
        lr: float,
        betas: tuple[float, float] = (0.9, 0.999),
        weight_decay: float = 0.0,
    ) -> None:
        self.parameters = list(parameters)
        self.lr, self.betas, self.weight_decay = lr, betas, weight_decay
        self.reset()

    def reset(self) -> None:
        """Forget the moments, as a new optimiser would."""
        self.steps = 0
        self.first = [torch.zeros_like(p) for p in self.parameters]
        self.second = [torch.zeros_like(p) for p in self.parameters]

    def zero_grad(self) -> None:
        """Drop the gradients of the last step."""
        for parameter in self.parameters:
            parameter.grad = None

    @torch.no_grad()
    def step(self) -> None:
        """Move every parameter that has a gradient."""
        self.steps += 1
        beta1, beta2 = self.betas
        rate = self.lr / (1 - beta1**self.steps)
        for p, m, v in zip(self.parameters, self.first, self.second, strict=True):
            if p.grad is None:
                continue
            m.lerp_(p.grad, 1 - beta1)
            v.mul_(beta2).addcmul_(p.grad, p.grad, value=1 - beta2)
            root = (v / (1 - beta2**self.steps)).sqrt_().add_(1e-8)
            p.mul_(1 - self.lr * self.weight_decay).addcdiv_(m, root, value=-rate)
