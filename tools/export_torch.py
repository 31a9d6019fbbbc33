#!/usr/bin/env python3
"""A torch model as files for fp8shard: OUT/model.pt2, OUT/model.safetensors, OUT/tp_plan.json.

  export_torch.py meta-llama/Llama-3.2-1B out --shape 1,128
  export_torch.py mypackage.models:build out
  fp8shard compile out/model.pt2 -o plan.json --mesh tp=4 --plan out/tp_plan.json --fp8 rowwise
  fp8shard-run plan.json --weights out/model.safetensors --inputs out/inputs.safetensors -o y.safetensors

MODEL is a Hugging Face name or folder, or module:callable. The callable gives (model, inputs), inputs a
tuple of tensors or a dict of them by name; a tensor-parallel plan may follow as a third, a dict.
"""
import argparse
import importlib
import json
import os
import re
import sys

import torch
from safetensors.torch import save_file


def ids_to_logits(model):
    """The same model, without a cache: ids in, logits (or the last hidden state) out."""
    forward = model.forward

    def plain(input_ids):
        out = forward(input_ids=input_ids, use_cache=False, return_dict=True)
        return out.logits if 'logits' in out else out.last_hidden_state

    model.forward = plain
    return model


def parallel_plan(model):
    """base_model_tp_plan as it is, with the plan of the head."""
    plan = dict(getattr(model.config, 'base_model_tp_plan', None) or {})
    plan.update(getattr(type(model), '_tp_plan', None) or {})
    return {k: v for k, v in plan.items() if isinstance(v, str)}


def matching(plan, names):
    """Without the rules that name no parameter or module of this model: a family's plan has those of all its members."""
    known = {n.removeprefix('model.') for name in names for n in (name, name.rpartition('.')[0])}
    kept = {}
    for rule, style in plan.items():
        pattern = re.compile(r'[^.]+'.join(map(re.escape, rule.removeprefix('model.').split('*'))))
        if any(map(pattern.fullmatch, known)):
            kept[rule] = style
        else:
            print(f"left out of the plan: '{rule}' ({style}), which this model has not", file=sys.stderr)
    return kept


def from_hugging_face(name, shape, dtype):
    import transformers
    config = transformers.AutoConfig.from_pretrained(name)
    causal = any('CausalLM' in a for a in config.architectures or [])
    auto = transformers.AutoModelForCausalLM if causal else transformers.AutoModel
    model = auto.from_pretrained(name, dtype=dtype, attn_implementation='sdpa')
    ids = torch.randint(0, config.vocab_size, shape)
    return ids_to_logits(model), {'input_ids': ids}, parallel_plan(model)


def from_callable(name):
    module, _, function = name.partition(':')
    sys.path.insert(0, os.getcwd())
    model, inputs, *plan = getattr(importlib.import_module(module), function)()
    return model, inputs, plan[0] if plan else {}


def weights(program):
    """Parameters and buffers under the exported names; tied ones once."""
    seen, out = {}, {}
    for name, t in {**program.state_dict, **program.constants}.items():
        if isinstance(t, torch.Tensor) and seen.setdefault((t.data_ptr(), t.dtype, t.shape, t.stride()), name) == name:
            out[name] = t.detach().contiguous().clone()
    return out


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('model', metavar='MODEL')
    p.add_argument('out', metavar='OUT')
    p.add_argument('--shape', default='1,128', help='batch,tokens of the ids (Hugging Face)')
    p.add_argument('--dtype', default='bfloat16', help='of the weights (Hugging Face)')
    p.add_argument('--level', default='training', choices=['training', 'inference', 'core'])
    a = p.parse_args()
    if ':' in a.model:
        model, inputs, plan = from_callable(a.model)
    else:
        shape = tuple(int(n) for n in a.shape.split(','))
        model, inputs, plan = from_hugging_face(a.model, shape, getattr(torch, a.dtype))
    args, kwargs = ((), inputs) if isinstance(inputs, dict) else (tuple(inputs), None)
    with torch.no_grad():
        program = torch.export.export(model.eval(), args, kwargs, strict=False)
    if a.level != 'training':
        program = program.run_decompositions({} if a.level == 'inference' else None)
    os.makedirs(a.out, exist_ok=True)
    names = program.graph_signature.user_inputs
    given = list(inputs.values()) if isinstance(inputs, dict) else list(inputs)
    torch.export.save(program, os.path.join(a.out, 'model.pt2'))
    save_file(weights(program), os.path.join(a.out, 'model.safetensors'))
    save_file({n: t.contiguous() for n, t in zip(names, given)}, os.path.join(a.out, 'inputs.safetensors'))
    with open(os.path.join(a.out, 'tp_plan.json'), 'w') as f:
        json.dump(matching(plan, program.state_dict), f, indent=1)


if __name__ == '__main__':
    main()
