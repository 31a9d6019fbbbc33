#!/usr/bin/env python3
"""Makes the files beside it: make.py [OUT]. torch 2.15 on the CPU.

weights.safetensors: of mlp.ir, float32.  data.safetensors: x, target [STEPS,4,8], a batch a step; bad.safetensors the
same, but with an infinity in x at step 3; weights16 and data16 in bfloat16.  expected.safetensors, of each case below:
CASE.loss and CASE.grad_norm [STEPS] (before the update, before clipping), and what torch.optim leaves: CASE.PARAMETER
and CASE.optimizer.STATE.PARAMETER.  The case `masters` is the model in bfloat16 with float32 masters.
"""
import os
import sys

import torch
import torch.nn.functional as F
from safetensors.torch import save_file

STEPS, LR = 8, 0.01
OUT = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
CASES = {
    "adamw": (lambda p: torch.optim.AdamW(p, lr=LR, foreach=False), None),
    "adamw_clip": (lambda p: torch.optim.AdamW(p, lr=LR, betas=(0.4, 0.95), eps=1e-6, weight_decay=0.1, foreach=False), 0.5),
    "sgd": (lambda p: torch.optim.SGD(p, lr=LR, foreach=False), None),
    "sgd_momentum": (lambda p: torch.optim.SGD(p, lr=LR, momentum=0.9, weight_decay=0.05, foreach=False), 0.5),
    "masters": (lambda p: torch.optim.AdamW(p, lr=LR, foreach=False), None),
}
STATES = {"exp_avg", "exp_avg_sq", "momentum_buffer"}


def forward(p, x):
    h = F.gelu(F.linear(x, p["fc1.weight"]) + p["fc1.bias"])
    return F.linear(h, p["fc2.weight"]) * p["scale"]


def run(weights, data, optimizer, clip, dtype):
    masters = {k: torch.nn.Parameter(v.clone()) for k, v in weights.items()}
    opt = optimizer(list(masters.values()))
    losses, norms = [], []
    for x, target in zip(data["x"], data["target"]):
        opt.zero_grad()
        y = forward({k: v.to(dtype) for k, v in masters.items()}, x.to(dtype))
        loss = F.mse_loss(y.float(), target.to(dtype).float())
        loss.backward()
        grads = [v.grad for v in masters.values()]
        norms.append(torch.nn.utils.get_total_norm(grads, foreach=False))
        if clip is not None:
            torch.nn.utils.clip_grad_norm_(list(masters.values()), clip, foreach=False)
        losses.append(loss.detach())
        opt.step()
    out = {"loss": torch.stack(losses), "grad_norm": torch.stack(norms)}
    for k, v in masters.items():
        out[k] = v.detach()
        for name, s in opt.state[v].items():
            if name in STATES and s is not None:
                out[f"optimizer.{name}.{k}"] = s
    return out


def main():
    torch.manual_seed(0)
    weights = {"fc1.weight": torch.randn(12, 8) / 2, "fc1.bias": torch.randn(12) / 4, "fc2.weight": torch.randn(8, 12) / 3,
               "scale": torch.tensor(1.25)}
    weights = {k: v.bfloat16().float() for k, v in weights.items()}  # the bfloat16 file has the same numbers
    data = {"x": torch.randn(STEPS, 4, 8), "target": torch.randn(STEPS, 4, 8)}
    expected = {}
    for case, (optimizer, clip) in CASES.items():
        made = run(weights, data, optimizer, clip, torch.bfloat16 if case == "masters" else torch.float32)
        expected.update({f"{case}.{k}": v.contiguous() for k, v in made.items()})
    bad = {k: v.clone() for k, v in data.items()}
    bad["x"][2, 1, 3] = float("inf")
    save_file(weights, f"{OUT}/weights.safetensors")
    save_file(data, f"{OUT}/data.safetensors")
    save_file(bad, f"{OUT}/bad.safetensors")
    save_file({k: v.bfloat16() for k, v in weights.items()}, f"{OUT}/weights16.safetensors")
    save_file({k: v.bfloat16() for k, v in data.items()}, f"{OUT}/data16.safetensors")
    save_file(expected, f"{OUT}/expected.safetensors")


main()
