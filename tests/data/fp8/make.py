#!/usr/bin/env python3
"""Makes the cases beside it: make.py [OUT]. torch 2.15 on the CPU.

Each folder: model.json (torch.export), weights, inputs, case.json, and fp8_expected.safetensors with the
output as torch computes it (torch.NAME; _scaled_mm runs on the CPU) and without fp8 (high.NAME).  In case.json:
`recipe` of the lifted matmuls; `torch`, the least SQNR in dB of an exact plan to torch's own output; `high`, of
any plan to the output without fp8, which is what torch's loses less half a dB.
"""
import copy
import json
import math
import os
import sys
import zipfile

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import nn

E4M3 = torch.float8_e4m3fn
MAX = torch.finfo(E4M3).max
HIDDEN, MIDDLE = 64, 96


def tensor_scale(x):
    return MAX / torch.clamp(x.abs().max().to(torch.float64), min=1e-12)


def row_scale(x):
    amax = torch.amax(torch.abs(x), dim=-1, keepdim=True)
    return (MAX / torch.clamp(amax.to(torch.float64), min=1e-12))


def quantized(x, scale, pow2=False):
    """torchao training: codes and the factor 1/scale."""
    s = scale.to(torch.float32)
    if pow2:
        s = torch.exp2(torch.floor(torch.log2(s)))
    return (x.to(torch.float32) * s).clamp(min=-MAX, max=MAX).to(E4M3), s.reciprocal()


class Dynamic(nn.Linear):
    """Weight and input quantized at every run."""
    rows = pow2 = fast = False

    def forward(self, x):
        scale = row_scale if self.rows else tensor_scale
        x2 = x.reshape(-1, x.shape[-1])
        qx, fx = quantized(x2, scale(x2), self.pow2)
        qw, fw = quantized(self.weight, scale(self.weight), self.pow2)
        return torch._scaled_mm(qx, qw.t(), fx, fw.t() if self.rows else fw, bias=self.bias, out_dtype=x.dtype,
                                use_fast_accum=self.fast).reshape(*x.shape[:-1], -1)


class Stored(nn.Module):
    """Codes and scale of the weight in the file, as checkpoints have them."""
    rows = static = dequantize = False

    def __init__(self, linear, limit=None):
        super().__init__()
        w = linear.weight.detach().float()
        amax = w.abs().amax(1, keepdim=True) if self.rows else w.abs().max()
        self.weight = nn.Parameter((w / (amax / MAX)).clamp(-MAX, MAX).to(E4M3), requires_grad=False)
        self.weight_scale = nn.Parameter(amax / MAX, requires_grad=False)
        self.bias = linear.bias
        if self.static:
            self.input_scale = nn.Parameter(torch.tensor(limit / MAX), requires_grad=False)

    def forward(self, x):
        if self.dequantize:
            return F.linear(x, self.weight.to(x.dtype) * self.weight_scale.to(x.dtype), self.bias)
        x2 = x.view(-1, x.shape[-1])
        if self.static:
            qx, fx = (x2.float() / self.input_scale).clamp(-MAX, MAX).to(E4M3), self.input_scale
        else:
            qx, fx = quantized(x2, row_scale(x2) if self.rows else tensor_scale(x2))
        y = torch._scaled_mm(qx, self.weight.t(), fx, self.weight_scale.t() if self.rows else self.weight_scale,
                             bias=self.bias, out_dtype=x.dtype)
        return y.view(*x.shape[:-1], -1)


class Mlp(nn.Module):
    def __init__(self, dtype, bias):
        super().__init__()
        self.fc1 = nn.Linear(HIDDEN, MIDDLE, bias=bias, dtype=dtype)
        self.fc2 = nn.Linear(MIDDLE, HIDDEN, bias=bias, dtype=dtype)

    def forward(self, x):
        return self.fc2(F.silu(self.fc1(x)))


def dynamic(m, **how):
    for name in ('fc1', 'fc2'):
        getattr(m, name).__class__ = type('Dynamic', (Dynamic,), how)
    return m


def stored(m, limits=(5.0, 2.0), **how):
    kind = type('Stored', (Stored,), how)
    m.fc1, m.fc2 = kind(m.fc1, limits[0]), kind(m.fc2, limits[1])
    return m


# Of a bias torch rounds once, we twice, and a flipped code of the second layer cascades: 35 dB.
CASES = {
    'dynamic_tensor': (torch.bfloat16, True, 'tensorwise', 35, lambda m: dynamic(m)),
    'dynamic_rows': (torch.bfloat16, False, 'rowwise', 100, lambda m: dynamic(m, rows=True, fast=True)),
    'dynamic_pow2': (torch.float32, False, 'tensorwise:pow2', 100, lambda m: dynamic(m, pow2=True)),
    'stored_tensor': (torch.bfloat16, True, 'tensorwise', 35, lambda m: stored(m)),
    'stored_rows': (torch.bfloat16, False, 'rowwise', 100, lambda m: stored(m, rows=True)),
    'static_input': (torch.bfloat16, False, 'tensorwise', 100, lambda m: stored(m, static=True)),
    'dequantized': (torch.bfloat16, True, 'none', 45, lambda m: stored(m, rows=True, dequantize=True)),
}


def model_json(program, path):
    torch.export.save(program, path + '.pt2')
    with zipfile.ZipFile(path + '.pt2') as z:
        name = next(n for n in z.namelist() if n.endswith('models/model.json'))
        graph = json.loads(z.read(name))
    os.remove(path + '.pt2')
    for node in graph['graph_module']['graph']['nodes']:
        node['metadata'] = {k: v for k, v in node['metadata'].items() if k == 'nn_module_stack'}
    with open(path, 'w') as f:
        json.dump(graph, f, separators=(',', ':'))


def make(out, name, dtype, bias, recipe, least, change):
    torch.manual_seed(len(name))
    m = Mlp(dtype, bias)
    high = copy.deepcopy(m)
    x = torch.randn(2, 16, HIDDEN).to(dtype)
    m = change(m).eval()
    with torch.no_grad():
        program = torch.export.export(m, (x,), strict=False)
        y, reference = m(x), high(x)
    os.makedirs(os.path.join(out, name), exist_ok=True)
    at = lambda file: os.path.join(out, name, file)
    result = program.graph_signature.user_outputs[0]
    model_json(program, at('model.json'))
    tensors = {**program.state_dict, **{k: v for k, v in program.constants.items() if isinstance(v, torch.Tensor)}}
    save_file({k: v.detach().contiguous().clone() for k, v in tensors.items()}, at('weights.safetensors'))
    save_file({program.graph_signature.user_inputs[0]: x}, at('inputs.safetensors'))
    save_file({'torch.' + result: y.contiguous(), 'high.' + result: reference.contiguous()}, at('fp8_expected.safetensors'))
    error = ((y.double() - reference.double()) ** 2).sum() / (reference.double() ** 2).sum()
    high = -10 * math.log10(error) - 0.5
    with open(at('case.json'), 'w') as f:
        json.dump({'name': name, 'ir_level': 'training', 'dtype': str(dtype).split('.')[1], 'weights_file': 'weights.safetensors',
                   'recipe': recipe, 'torch': str(least), 'high': f'{high:.1f}',
                   'outputs': [{'name': result, 'shape': list(y.shape), 'dtype': str(dtype).split('.')[1]}]}, f)


if __name__ == '__main__':
    where = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
    for case, how in CASES.items():
        make(where, case, *how)
