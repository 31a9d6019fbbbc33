#!/usr/bin/env python3
"""Makes train_s*.safetensors beside it: make_train.py [OUT]. torch 2.15 and torchao 0.18 on the CPU.

One forward and backward of a two-layer MLP under torchao's convert_to_float8_training, emulated; named as the
train_m* of the shared set: RECIPE.emul.{h1,a1,y,grad_a1,grad_h1,grad_x,grad.NAME}.  Tokens need be no multiple of 16.
"""
import os
import sys

import torch
from safetensors.torch import save_file
from torch import nn
from torchao.float8 import Float8LinearConfig, convert_to_float8_training

CASES = [dict(tokens=20, d=16, h=32, o=16, bias=True, act=nn.ReLU, dtype=torch.float32),
         dict(tokens=24, d=16, h=32, o=48, bias=False, act=nn.SiLU, dtype=torch.bfloat16)]


class Mlp(nn.Module):
    def __init__(self, d, h, o, bias, act):
        super().__init__()
        self.fc1, self.act, self.fc2 = nn.Linear(d, h, bias), act(), nn.Linear(h, o, bias)

    def forward(self, x):
        self.h1 = self.fc1(x)
        self.a1 = self.act(self.h1)
        self.h1.retain_grad()
        self.a1.retain_grad()
        return self.fc2(self.a1)


def case(index, tokens, d, h, o, bias, act, dtype):
    torch.manual_seed(100 + index)
    plain = Mlp(d, h, o, bias, act).to(dtype)
    with torch.no_grad():  # with scales of powers of two only small codes tell one scale from many
        for layer in (plain.fc1, plain.fc2):
            layer.weight[:, 2] /= 3000
    x, grad_out = torch.randn(tokens, d).to(dtype), (torch.randn(tokens, o) / tokens).to(dtype)
    x[:, 3] *= 30  # scales of rows and of the tensor differ much
    grad_out[5] *= 100
    out = {'x': x, 'grad_out': grad_out, **{'param.' + k: v.detach().clone() for k, v in plain.named_parameters()}}
    for recipe in ('tensorwise', 'rowwise', 'rowwise_with_gw_hp'):
        model = Mlp(d, h, o, bias, act).to(dtype)
        model.load_state_dict(plain.state_dict())
        config = Float8LinearConfig.from_recipe_name(recipe)
        object.__setattr__(config, 'emulate', True)
        convert_to_float8_training(model, config=config)
        xr = x.clone().requires_grad_()
        y = model(xr)
        y.backward(grad_out)
        got = {'h1': model.h1, 'a1': model.a1, 'y': y, 'grad_a1': model.a1.grad, 'grad_h1': model.h1.grad, 'grad_x': xr.grad,
               **{'grad.' + k: v.grad for k, v in model.named_parameters()}}
        out.update({f'{recipe}.emul.{k}': v.detach().contiguous().clone() for k, v in got.items()})
    return out


where = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
for i, c in enumerate(CASES):
    save_file(case(i, **c), os.path.join(where, f'train_s{i}.safetensors'),
              {'producer': 'torchao 0.18.0 convert_to_float8_training, emulated; torch 2.15'})
