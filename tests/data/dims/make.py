#!/usr/bin/env python3
"""Makes the cases beside it: make.py [OUT]. torch 2.15 on the CPU.

Exports with symbolic sizes.  Each folder: model.json (torch.export), weights.safetensors, and for sizes other than
those of the export a folder NAME=SIZE,... (what --dim is given) with inputs.safetensors, expected.safetensors (the
output of the module itself, not of its export) and case.json for tests/models/compare.
"""
import json
import os
import sys
import zipfile

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import nn
from torch.export import Dim


class Block(nn.Module):
    """Attention with a mask made from the size, an MLP, and sums of sizes."""
    def __init__(self):
        super().__init__()
        self.emb, self.fc1, self.fc2 = nn.Embedding(64, 16), nn.Linear(16, 32), nn.Linear(32, 16)

    def forward(self, ids, x):
        batch, seq = ids.shape
        h = self.emb(ids) + x
        q = h.view(batch, seq, 2, 8).transpose(1, 2)
        pos = torch.arange(seq)
        a = F.scaled_dot_product_attention(q, q, q, attn_mask=pos[:, None] >= pos[None, :])
        y = self.fc2(F.silu(self.fc1(a.transpose(1, 2).reshape(batch, seq, 16))))
        return y / seq, torch.cat([y, x], dim=1)[:, 1:]


class Derived(nn.Module):
    """y has twice the rows of x, z one more."""
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(16, 32), nn.Linear(32, 16)

    def forward(self, x, y, z):
        h = F.gelu(self.fc1(x.repeat(2, 1) + y))
        return self.fc2(h), y.view(2, -1, 16).mean(0) + z[1:], h.view(-1, 64).sum(1)


class Pairs(nn.Module):
    """The size is even, as the export finds out."""
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(32, 32), nn.Linear(32, 16)

    def forward(self, x):
        pairs = x.view(x.shape[0] // 2, 32)
        return self.fc2(F.relu(self.fc1(pairs))).repeat_interleave(2, dim=0) + x


class Guarded(nn.Module):
    """Rows of x are even, more than 2 and no more than those of y, as the export finds out."""
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(32, 32), nn.Linear(32, 16)

    def forward(self, x, y):
        x = x + y[:x.shape[0]] if x.shape[0] <= y.shape[0] else x
        return self.fc2(F.relu(self.fc1(x.view(x.shape[0] // 2, 32)))), y.sum(1)


class Rotary(nn.Module):
    """Rotary embeddings in complex numbers: of positions, moved, scaled, multiplied by complex and by real."""
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(16, 32), nn.Linear(32, 16)

    def forward(self, x):
        seq = x.shape[1]
        angle = torch.outer(torch.arange(seq).float(), 10000 ** (-torch.arange(4) / 4))
        turn = torch.polar(torch.ones_like(angle), angle) * 1.25
        q = torch.view_as_complex(self.fc1(x).unflatten(-1, (4, 4, 2)))
        q = q.transpose(1, 2) * turn[None, :, :].to(x.device)
        mean = torch.complex(angle, -angle)[:1].expand(seq, 4) * angle
        h = torch.view_as_real(q).flatten(3) + torch.view_as_real(mean).flatten(1)
        return self.fc2(h.transpose(1, 2).flatten(2)), torch.view_as_real(torch.cat([q, q], 2)[:, 0, -2:])


class Pool(nn.Module):
    """Means of windows, of one dim and of two."""
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(16, 32), nn.Linear(32, 16)

    def forward(self, x):
        h = F.adaptive_avg_pool1d(F.gelu(self.fc1(x)).transpose(1, 2), 4)
        return self.fc2(h.transpose(1, 2)), F.adaptive_avg_pool2d(x.view(-1, 2, 6, 16), (2, 8))


class Branch(nn.Module):
    """Another branch for odd sizes, which the export leaves out, and sizes in floats."""
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(16, 32), nn.Linear(32, 16)

    def forward(self, x):
        y = self.fc2(torch.tanh(self.fc1(x))) / x.shape[0] ** 0.5
        return (y.sin() if x.shape[0] % 2 == 0 else y.cos()), x[:int(x.shape[0] * 0.29)]


class Layers(nn.Module):
    """Layers and losses that are several ops here, and a cache written at positions given."""
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(16, 32), nn.Linear(32, 8)
        self.norm, self.prelu = nn.BatchNorm1d(6), nn.PReLU(6)
        self.norm.running_mean.normal_()
        self.norm.running_var.uniform_(0.5, 2)
        self.weight, self.cache = nn.Buffer(torch.rand(8)), nn.Buffer(torch.randn(6, 16))

    def forward(self, x, labels, at):
        h = self.prelu(self.norm(x))
        logits = self.fc2(F.hardshrink(self.fc1(h)) + F.softshrink(self.fc1(x)))
        rows, classes = logits.flatten(0, 1), labels.flatten()
        p = rows.sigmoid()
        losses = [F.cross_entropy(rows, classes, self.weight, label_smoothing=0.1, ignore_index=3),
                  F.cross_entropy(rows, rows.softmax(-1), label_smoothing=0.2),
                  F.cross_entropy(logits.transpose(1, 2), labels, self.weight, reduction='sum'),
                  F.l1_loss(p, rows), F.smooth_l1_loss(p, rows, beta=0.5), F.huber_loss(p, rows, delta=2.0),
                  F.kl_div(rows.log_softmax(-1), p, reduction='sum'), F.binary_cross_entropy(p, p * p),
                  F.kl_div(rows.log_softmax(-1), rows.log_softmax(-1) - p, log_target=True, reduction='mean'),
                  F.binary_cross_entropy_with_logits(rows, p, pos_weight=self.weight)]
        cache = self.cache.index_copy(0, at, x.sum(0))
        small = F.rms_norm((x / 64).bfloat16(), (16,)).float()  # eps of f32, whatever the type
        return torch.stack(losses), logits, cache, torch.nan_to_num(torch.log(rows - 0.1), nan=3.0), small


def layers_inputs(batch):
    return {'x': torch.randn(batch, 6, 16), 'labels': torch.randint(8, (batch, 6)), 'at': torch.randperm(6)}


def branch_inputs(rows):
    return {'x': torch.randn(rows, 16)}


def block_inputs(batch, seq):
    return {'ids': torch.randint(64, (batch, seq)), 'x': torch.randn(batch, seq, 16)}


def derived_inputs(s):
    return {'x': torch.randn(s, 16), 'y': torch.randn(2 * s, 16), 'z': torch.randn(s + 1, 16)}


def pairs_inputs(half):
    return {'x': torch.randn(2 * half, 16)}


def guarded_inputs(rows, more):
    return {'x': torch.randn(rows, 16), 'y': torch.randn(more, 16)}


def rotary_inputs(batch, seq):
    return {'x': torch.randn(batch, seq, 16)}


def pool_inputs(batch):
    return {'x': torch.randn(batch, 12, 16)}


def shapes_of_block(batch, seq):
    return {'ids': {0: batch, 1: seq}, 'x': {0: batch, 1: seq}}


S, HALF = Dim('s', min=1, max=1000), Dim('half', min=1)
CASES = {
    'named': (Block, block_inputs, (3, 6), shapes_of_block(Dim('batch'), Dim('seq', min=2, max=64)),
              [(1, 2), (5, 7), (2, 64)]),
    'auto': (Block, block_inputs, (3, 6), shapes_of_block(Dim.AUTO, Dim.AUTO), [(2, 13)]),
    'derived': (Derived, derived_inputs, (5,), {'x': {0: S}, 'y': {0: 2 * S}, 'z': {0: S + 1}},
                [(2,), (7,), (100,)]),
    'branch': (Branch, branch_inputs, (14,), {'x': {0: Dim.AUTO}}, [(8,), (100,)], True),
    'layers': (Layers, layers_inputs, (3,), {'x': {0: Dim('batch')}, 'labels': {0: Dim('batch')}, 'at': None},
               [(2,), (7,)]),
    'pairs': (Pairs, pairs_inputs, (4,), {'x': {0: 2 * HALF}}, [(3,), (9,)]),
    'guarded': (Guarded, guarded_inputs, (8, 9), {'x': {0: Dim.AUTO}, 'y': {0: Dim.AUTO}}, [(6, 6), (10, 13)]),
    'rotary': (Rotary, rotary_inputs, (3, 6), {'x': {0: Dim('batch'), 1: Dim('seq', min=2)}}, [(1, 2), (5, 7)]),
    'pool': (Pool, pool_inputs, (2,), {'x': {0: Dim('batch')}}, [(1,), (3,)]),
}


def symbols(program, example):
    """Names of the sizes in the program, in the order of the arguments of NAME_inputs."""
    found = {}
    graph = program['graph_module']['graph']
    for value in graph['inputs']:
        for size in graph['tensor_values'][value['as_tensor']['name']]['sizes']:
            text = size.get('as_expr', {}).get('expr_str', '')
            if "Symbol('" in text:
                found.setdefault(text.split("'")[1])
    assert len(found) == len(example)
    return list(found)


def write_size(folder, inputs, outputs, names):
    os.makedirs(folder)
    save_file(inputs, folder + '/inputs.safetensors')
    save_file({n: o.contiguous() for n, o in zip(names, outputs)}, folder + '/expected.safetensors')
    rows = [{'name': n, 'dtype': 'float32', 'shape': list(o.shape)} for n, o in zip(names, outputs)]
    with open(folder + '/case.json', 'w') as f:
        json.dump({'dtype': 'float32', 'outputs': rows}, f, indent=1)


def make(folder, module, make_inputs, example, shapes, sizes, strict=False):
    torch.manual_seed(1)
    model = module().eval()
    program = torch.export.export(model, (), make_inputs(*example), dynamic_shapes=shapes, strict=strict)
    os.makedirs(folder)
    torch.export.save(program, folder + '/model.pt2')
    with zipfile.ZipFile(folder + '/model.pt2') as z:
        text = z.read([n for n in z.namelist() if n.endswith('models/model.json')][0])
    os.remove(folder + '/model.pt2')
    graph = json.loads(text)
    for node in graph['graph_module']['graph']['nodes']:
        node['metadata'] = {k: v for k, v in node['metadata'].items() if k == 'nn_module_stack'}
    graph['graph_module']['module_call_graph'] = []
    with open(folder + '/model.json', 'w') as f:
        json.dump(graph, f)
    save_file({k: v.contiguous() for k, v in model.state_dict().items()}, folder + '/weights.safetensors')
    names = [o.arg.name for o in program.graph_signature.output_specs]
    for size in sizes:
        inputs = make_inputs(*size)
        with torch.no_grad():
            outputs = model(**inputs)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        given = ','.join(f'{n}={v}' for n, v in zip(symbols(graph, example), size))
        write_size(f'{folder}/{given}', inputs, outputs, names)


def main():
    out = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
    for name, case in CASES.items():
        make(f'{out}/{name}', *case)


main()
