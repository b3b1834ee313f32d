"""Adam (Kingma & Ba 2015) with L2 weight decay (protected).

torch.optim.Adam computes the same and may be used instead, but making one imports PyTorch's
compiler, which takes about as long as importing PyTorch itself.
"""

from collections.abc import Iterable

import torch
from torch import nn


class Adam:
    """Adam on all parameters at once; weight decay is added to the gradients, as in PyTorch."""

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        lr: float,
        weight_decay: float = 0.0,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
    ) -> None:
        self.parameters = list(parameters)
        self.lr, self.weight_decay, self.betas, self.eps = lr, weight_decay, betas, eps
        self.mean = [torch.zeros_like(p) for p in self.parameters]
        self.square = [torch.zeros_like(p) for p in self.parameters]
        self.steps = 0

    def zero_grad(self) -> None:
        """Forget the gradients."""
        for parameter in self.parameters:
            parameter.grad = None

    @torch.no_grad()
    def step(self) -> None:
        """Update every parameter that has a gradient; `lr` may be changed between steps."""
        self.steps += 1
        kept = [i for i, p in enumerate(self.parameters) if p.grad is not None]
        parameters = [self.parameters[i] for i in kept]
        gradients = [p.grad for p in parameters]
        mean, square = [self.mean[i] for i in kept], [self.square[i] for i in kept]
        if self.weight_decay:
            gradients = torch._foreach_add(gradients, parameters, alpha=self.weight_decay)
        beta1, beta2 = self.betas
        torch._foreach_lerp_(mean, gradients, 1 - beta1)
        torch._foreach_mul_(square, beta2)
        torch._foreach_addcmul_(square, gradients, gradients, 1 - beta2)
        root = torch._foreach_sqrt(square)
        torch._foreach_div_(root, (1 - beta2**self.steps) ** 0.5)
        torch._foreach_add_(root, self.eps)
        torch._foreach_addcdiv_(parameters, mean, root, -self.lr / (1 - beta1**self.steps))
