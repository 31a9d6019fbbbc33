#!/usr/bin/env python3
"""Makes the cases beside it: make.py [OUT]. torch 2.15 and torchao 0.18 on the CPU.

Each folder: model.json (torch.export), weights, inputs, case.json, and fp8_expected.safetensors with the
output as torch computes it (torch.NAME; _scaled_mm runs on the CPU) and without fp8 (high.NAME).  In case.json:
`recipe` and `reason` of the matmuls; `torch`, the least SQNR in dB of an exact plan to torch's own output; `high`, of
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
import torchao.quantization.quant_api as quant_api
from safetensors.torch import save_file
from torch import nn
from torch.func import functional_call
from torch.fx.experimental.proxy_tensor import make_fx
from torchao.float8 import Float8LinearConfig, convert_to_float8_training
from torchao.quantization import (Float8DynamicActivationFloat8WeightConfig, Float8StaticActivationFloat8WeightConfig,
                                  Float8WeightOnlyConfig, PerRow, PerTensor, quantize_)
from torchao.utils import unwrap_tensor_subclass

E4M3 = torch.float8_e4m3fn
MAX = torch.finfo(E4M3).max
HIDDEN, MIDDLE, BLOCK = 32, 64, 16


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


class NewScaledMM(nn.Linear):
    """torch.nn.functional.scaled_mm, which exports as another op."""

    def forward(self, x):
        x2, row = x.reshape(-1, x.shape[-1]), F.ScalingType.RowWise
        (qx, fx), (qw, fw) = quantized(x2, row_scale(x2)), quantized(self.weight, row_scale(self.weight))
        return F.scaled_mm(qx, qw.t(), fx, row, fw.t(), row, output_dtype=x.dtype).reshape(*x.shape[:-1], -1)


class Blocks(nn.Module):
    """One scale for a block of the weight, as Hugging Face's fp8 checkpoints have it."""

    def __init__(self, linear, _):
        super().__init__()
        n, k = linear.weight.shape
        w = linear.weight.detach().float().reshape(n // BLOCK, BLOCK, k // BLOCK, BLOCK)
        scale = w.abs().amax((1, 3)) / MAX
        self.weight = nn.Parameter((w / scale[:, None, :, None]).to(E4M3).reshape(n, k), requires_grad=False)
        self.weight_scale_inv = nn.Parameter(scale, requires_grad=False)

    def forward(self, x):
        n, k = self.weight.shape
        w = self.weight.float().reshape(n // BLOCK, BLOCK, k // BLOCK, BLOCK) * self.weight_scale_inv[:, None, :, None]
        return F.linear(x, w.reshape(n, k).to(x.dtype))


class Transposed(nn.Module):
    """Codes stored [K, N], and one scale of zero."""

    def __init__(self, linear, _):
        super().__init__()
        w = linear.weight.detach().float()
        scale = w.abs().amax(1, keepdim=True) / MAX
        self.weight = nn.Parameter((w / scale).to(E4M3).t().contiguous(), requires_grad=False)
        self.weight_scale = nn.Parameter(scale.t().contiguous(), requires_grad=False)
        self.weight_scale[0, 3] = 0

    def forward(self, x):
        x2 = x.reshape(-1, x.shape[-1])
        qx, fx = quantized(x2, row_scale(x2))
        y = torch._scaled_mm(qx, self.weight.t().contiguous().t(), fx, self.weight_scale, out_dtype=x.dtype)
        return y.reshape(*x.shape[:-1], -1)


class Traced(nn.Module):
    """A torchao training layer as the ops that it does: torch.export cannot take its tensors apart."""

    def __init__(self, layer, x):
        super().__init__()
        self.weight, self.bias = nn.Parameter(layer.weight.detach()), layer.bias

        def run(w, b, x):
            return functional_call(layer, {'weight': w, **({} if b is None else {'bias': b})}, (x,))
        with torch.no_grad():
            self.graph = make_fx(run)(layer.weight, layer.bias, x)

    def forward(self, x):
        return self.graph(self.weight, self.bias, x)


class Mlp(nn.Module):
    heads = False

    def __init__(self, dtype, bias):
        super().__init__()
        self.fc1 = nn.Linear(HIDDEN, MIDDLE, bias=False, dtype=dtype)
        self.fc2 = nn.Linear(MIDDLE, HIDDEN, bias=bias, dtype=dtype)

    def forward(self, x):
        y = F.silu(self.fc1(x))
        if self.heads:  # attention's views around its output
            y = y.unflatten(-1, (4, -1)).transpose(1, 2)
            y = (y * y.amax(-1, keepdim=True)).transpose(1, 2).reshape(*x.shape[:-1], -1)
        return self.fc2(y)


def dynamic(m, **how):
    for name in ('fc1', 'fc2'):
        getattr(m, name).__class__ = type('Dynamic', (Dynamic,), how)
    return m


def stored(m, limits=(5.0, 2.0), **how):
    kind = type('Stored', (Stored,), how)
    m.fc1, m.fc2 = kind(m.fc1, limits[0]), kind(m.fc2, limits[1])
    return m


def changed(m, layer):
    m.fc1, m.fc2 = layer(m.fc1, None), layer(m.fc2, None)
    return m


def functional(m):
    m.fc1.__class__ = m.fc2.__class__ = NewScaledMM
    return m


def training(m, x, recipe):
    m = convert_to_float8_training(m, config=Float8LinearConfig.from_recipe_name(recipe))
    with torch.no_grad():
        hidden = F.silu(m.fc1(x))
    m.fc1, m.fc2 = Traced(m.fc1, x), Traced(m.fc2, hidden)
    return m


def inference(m, x, config, observed=None):
    if observed is not None:
        quantize_(m, observed)
        m(x)
    quantize_(m, config)
    return m


def static(granularity, step):
    return Float8StaticActivationFloat8WeightConfig(step=step, granularity=granularity)


quant_api._check_hardware_support = lambda *_: None  # a CPU does

LIFTED = 'lifted from aten._scaled_mm'
STORED = LIFTED + '; codes kept: b (stored)'
GIVEN = LIFTED + '; codes kept: a (scale is not 448/amax of it), b (stored)'
PLAIN = 'not asked for; the weight is stored as fp8 codes'
BF16, F32 = torch.bfloat16, torch.float32

# SQNR to torch's own fp8.  f32: sums in another order, 100 dB.  bf16: such a sum may round the other way, which may flip
# a code of the second layer, 70 dB.  A bias (of the second layer): torch rounds with it, we before and after, 50 dB.
CASES = {
    'dynamic_tensor': (BF16, True, 'tensorwise', LIFTED, 50, lambda m, x: dynamic(m)),
    'dynamic_rows': (BF16, False, 'rowwise', LIFTED, 70, lambda m, x: dynamic(m, rows=True, fast=True)),
    'dynamic_pow2': (F32, False, 'tensorwise:pow2', LIFTED, 100, lambda m, x: dynamic(m, pow2=True)),
    'functional': (BF16, False, 'rowwise', LIFTED, 70, lambda m, x: functional(m)),
    'stored_tensor': (BF16, True, 'tensorwise', STORED, 50, lambda m, x: stored(m)),
    'stored_rows': (BF16, False, 'rowwise', STORED, 70, lambda m, x: stored(m, rows=True)),
    'transposed': (BF16, False, 'rowwise', STORED, 70, lambda m, x: changed(m, Transposed)),
    'static_input': (BF16, False, 'tensorwise', GIVEN, 70, lambda m, x: stored(m, static=True)),
    'dequantized': (BF16, True, 'none', PLAIN, 45, lambda m, x: stored(m, rows=True, dequantize=True)),
    'blocks': (BF16, False, 'none', 'not asked for', 45, lambda m, x: changed(m, Blocks)),
    'ao_train_tensor': (BF16, True, 'tensorwise', LIFTED, 70, lambda m, x: training(m, x, 'tensorwise')),
    'ao_train_rows': (F32, False, 'rowwise:pow2', LIFTED, 100, lambda m, x: training(m, x, 'rowwise')),
    'ao_train_gw_hp': (BF16, False, 'rowwise:pow2', LIFTED, 70, lambda m, x: training(m, x, 'rowwise_with_gw_hp')),
    'ao_dynamic_tensor': (F32, False, 'tensorwise', STORED, 100, lambda m, x: inference(
        m, x, Float8DynamicActivationFloat8WeightConfig(granularity=PerTensor()))),
    'ao_dynamic_rows': (BF16, False, 'rowwise', GIVEN, 70, lambda m, x: inference(
        m, x, Float8DynamicActivationFloat8WeightConfig(granularity=PerRow()))),
    'ao_heads': (BF16, False, 'rowwise', GIVEN, 70, lambda m, x: inference(
        m, x, Float8DynamicActivationFloat8WeightConfig(granularity=PerRow()))),
    'ao_static_tensor': (BF16, False, 'tensorwise', GIVEN, 70, lambda m, x: inference(
        m, x, static(PerTensor(), 'convert'), static(PerTensor(), 'prepare'))),
    'ao_static_rows': (BF16, False, 'rowwise', GIVEN, 70, lambda m, x: inference(
        m, x, static(PerRow(), 'convert'), static(PerRow(), 'prepare'))),
    'ao_weight_only': (BF16, True, 'none', PLAIN, 45, lambda m, x: inference(m, x, Float8WeightOnlyConfig())),
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


def make(out, name, dtype, bias, recipe, reason, least, change):
    torch.manual_seed(len(name))
    m = Mlp(dtype, bias)
    m.heads = name == 'ao_heads'
    high = copy.deepcopy(m)
    x = torch.randn(2, 16, HIDDEN).to(dtype)
    if name == 'transposed':
        x = x.reshape(2, 2, 8, HIDDEN)
        x[1, 0, 5] = 0
    m = change(m.eval(), x)
    with torch.no_grad():
        y, reference = m(x), high(x)
        if name.startswith('ao_') and 'train' not in name:
            unwrap_tensor_subclass(m)
        program = torch.export.export(m, (x,), strict=False)
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
                   'recipe': recipe, 'reason': reason, 'torch': str(least), 'high': f'{high:.1f}',
                   'outputs': [{'name': result, 'shape': list(y.shape), 'dtype': str(dtype).split('.')[1]}]}, f)


if __name__ == '__main__':
    where = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
    for case, how in CASES.items():
        make(where, case, *how)
