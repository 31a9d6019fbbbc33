"""Makes tiny.pt2 and tiny.safetensors (torch 2.15.0): tied, strided, offset, constant, bool, bf16."""
import json
import struct

import torch


class Tiny(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.emb = torch.nn.Embedding(6, 4)
        self.head = torch.nn.Linear(4, 6, bias=False)
        self.head.weight = self.emb.weight
        self.t = torch.nn.Parameter(torch.randn(4, 3).t())
        self.off = torch.nn.Parameter(torch.randn(20)[5:11].view(2, 3))
        self.register_buffer("keep", torch.arange(5))
        self.register_buffer("drop", torch.randn(2, 2).to(torch.bfloat16), persistent=False)
        self.k = torch.tensor([True, False])

    def forward(self, x):
        sums = self.t.sum() + self.off.sum() + self.keep.sum() + self.drop.float().sum() + self.k.sum()
        return self.head(self.emb(x)) + sums


NAMES = {torch.float32: "F32", torch.int64: "I64", torch.bfloat16: "BF16", torch.bool: "BOOL"}
program = torch.export.export(Tiny(), (torch.tensor([1, 2]),))
torch.export.save(program, "tiny.pt2")
header, data = {}, b""
for name, value in {**program.state_dict, **program.constants}.items():
    value = value.detach().contiguous()
    raw = value.view(torch.uint8).numpy().tobytes()
    header[name] = {"dtype": NAMES[value.dtype], "shape": list(value.shape),
                    "data_offsets": [len(data), len(data) + len(raw)]}
    data += raw
text = json.dumps(header).encode()
text += b" " * (-len(text) % 8)
with open("tiny.safetensors", "wb") as f:
    f.write(struct.pack("<Q", len(text)) + text + data)
