"""Some training steps of a small compiled model."""

import torch
from torch import nn

import profscope


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


model = nn.Sequential(*(Block(512) for _ in range(3))).cuda().bfloat16()
step = torch.compile(lambda x: model(x).float().square().mean())
x = torch.randn(1024, 512, device="cuda", dtype=torch.bfloat16)

for n in range(20):
    with profscope.scope("step", n=n):
        loss = step(x)
        loss.backward()
        model.zero_grad()
