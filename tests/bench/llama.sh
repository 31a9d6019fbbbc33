#!/bin/sh
# llama.sh LAYERS: a Llama-3-8B of so many layers in the text form, 8192 tokens of bf16.
awk -v layers="$1" '
function param(name, shape) { printf "  %%%s = param \"%s\" : bf16[%s]\n", name, name, shape }
function op(name, text, shape) { printf "  %%%s = %s : bf16[%s]\n", name, text, shape }
# The product with a weight of the layer: y = x w^T.
function linear(x, w, n) { op(p "." w, sprintf("matmul %%%s, %%%s.weight {eq=\"mik,nk->min\"}", x, p "." w), "1,8192," n) }
function norm(x, w) {
	op(p "." w ".n", "rms_norm %" x " {dims=[2] eps=1e-05}", "1,8192,4096")
	op(p "." w, "mul %" p "." w ".weight, %" p "." w ".n", "1,8192,4096")
}
function heads(w, n) {
	op(p "." w ".v", "reshape %" p "." w " {shape=[1,8192," n ",128]}", "1,8192," n ",128")
	op(p "." w ".t", "permute %" p "." w ".v {dims=[0,2,1,3]}", "1," n ",8192,128")
}
function rotary(w, n,   t, whole, half) {
	t = p "." w
	whole = "1," n ",8192,128"
	half = "1," n ",8192,64"
	op(t ".a", "mul %" t ".t, %cos", whole)
	op(t ".l", "slice %" t ".t {start=0 end=64 dim=3}", half)
	op(t ".r", "slice %" t ".t {start=64 end=128 dim=3}", half)
	op(t ".m", "neg %" t ".r", half)
	op(t ".c", "cat %" t ".m, %" t ".l {dim=3}", whole)
	op(t ".b", "mul %" t ".c, %sin", whole)
	op(t ".o", "add %" t ".a, %" t ".b", whole)
}
function layer(l) {
	p = "layers." l
	norm(x, "norm1")
	linear(p ".norm1", "self_attn.q_proj", 4096); heads("self_attn.q_proj", 32)
	linear(p ".norm1", "self_attn.k_proj", 1024); heads("self_attn.k_proj", 8)
	linear(p ".norm1", "self_attn.v_proj", 1024); heads("self_attn.v_proj", 8)
	rotary("self_attn.q_proj", 32); rotary("self_attn.k_proj", 8)
	op(p ".sdpa", "sdpa %" p ".self_attn.q_proj.o, %" p ".self_attn.k_proj.o, %" p ".self_attn.v_proj.t {scale=0.08838834764831845 causal=1}", "1,32,8192,128")
	op(p ".t", "permute %" p ".sdpa {dims=[0,2,1,3]}", "1,8192,32,128")
	op(p ".y", "reshape %" p ".t {shape=[1,8192,4096]}", "1,8192,4096")
	linear(p ".y", "self_attn.o_proj", 4096)
	op(p ".x", "add %" x ", %" p ".self_attn.o_proj", "1,8192,4096")
	norm(p ".x", "norm2")
	linear(p ".norm2", "mlp.gate_proj", 14336)
	op(p ".silu", "silu %" p ".mlp.gate_proj", "1,8192,14336")
	linear(p ".norm2", "mlp.up_proj", 14336)
	op(p ".h", "mul %" p ".silu, %" p ".mlp.up_proj", "1,8192,14336")
	linear(p ".h", "mlp.down_proj", 4096)
	op(p ".out", "add %" p ".x, %" p ".mlp.down_proj", "1,8192,4096")
	x = p ".out"
}
BEGIN {
	print "graph {"
	param("embed.weight", "128256,4096")
	for (l = 0; l < layers; l++) {
		p = "layers." l
		param(p ".norm1.weight", "4096"); param(p ".norm2.weight", "4096")
		param(p ".self_attn.q_proj.weight", "4096,4096"); param(p ".self_attn.o_proj.weight", "4096,4096")
		param(p ".self_attn.k_proj.weight", "1024,4096"); param(p ".self_attn.v_proj.weight", "1024,4096")
		param(p ".mlp.gate_proj.weight", "14336,4096"); param(p ".mlp.up_proj.weight", "14336,4096")
		param(p ".mlp.down_proj.weight", "4096,14336")
	}
	param("norm.norm.weight", "4096"); param("lm_head.weight", "128256,4096")
	print "  %ids = input \"ids\" : i64[1,8192]"
	print "  %cos = param \"cos\" {buffer=1} : bf16[1,1,8192,128]"
	print "  %sin = param \"sin\" {buffer=1} : bf16[1,1,8192,128]"
	op("embed", "embedding %embed.weight, %ids", "1,8192,4096")
	x = "embed"
	for (l = 0; l < layers; l++)
		layer(l)
	p = "norm"
	norm(x, "norm")
	op("lm_head", "matmul %norm.norm, %lm_head.weight {eq=\"mik,nk->min\"}", "1,8192,128256")
	print "  output \"logits\" = %lm_head"
	print "}"
}'
