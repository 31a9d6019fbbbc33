# estimate: against arithmetic by hand, and against bus bandwidths as they were measured.

# WHAT [COLUMN]: of the rows of a step that start so, a column (us; MB is 2 and GFLOP 3 columns before it), added up.
step_row() {
	awk -v what="  $1 " -v back="${2:-1}" '/^setup, once|^memory/ { exit } index($0, what) == 1 { sum += $(NF - back) } END { print sum + 0 }' "$work/.out"
}
setup_row() {
	awk -v what="  $1 " '/^memory/ { exit } /^setup, once/ { on = 1 } on && index($0, what) == 1 { sum += $(NF - 1) } END { print sum + 0 }' "$work/.out"
}
# GOT EXPRESSION PERCENT: near what awk makes of the expression.
near() {
	if awk "BEGIN { got = $1; want = $2; exit !(want > 0 && got >= want * (1 - $3 / 100) && got <= want * (1 + $3 / 100)) }"; then
		pass
	else
		fail "$1 is not within $3 % of $2 = $(awk "BEGIN { print $2 }")"
	fi
}
# WHAT: no row of a step starts so, or it takes no time.
none() {
	if [ "$(step_row "$1")" = 0 ]; then pass; else fail "$1 takes time"; fi
}
# DTYPE M N K: a product, whose weight is split by K with --plan fc=rowwise.
product() {
	printf '{"fp8shard": "graph", "version": 1, "inputs": {"x": {"dtype": "%s", "shape": [%d, %d]}},
"parameters": {"fc.weight": {"dtype": "%s", "shape": [%d, %d]}},
"nodes": [{"op": "linear", "in": ["x", "fc.weight"], "out": "y", "module": "fc"}], "outputs": ["y"]}\n' "$1" "$2" "$4" "$1" "$3" "$4"
}
# 16 GiB in bf16.
cat >"$work/x.ir" <<'IR'
graph {
  %x = input "x" : bf16[65536,131072]
  %y = relu %x : bf16[65536,131072]
  output "y" = %y
}
IR
plan="$work/p.json"

# One collective of each kind against bus bandwidth (bytes of the whole * factor / time), as measured on 8 H200 with NCCL
# 2.27.7 at 16 GiB: all_reduce 480 GB/s in the switch and 367 in a ring, all_gather 361, reduce_scatter 363; 396 for copies
# between pairs, which is what an all_to_all does (stas00/ml-engineering; factors: nccl-tests, PERFORMANCE.md).
whole=17179869184
run 0 compile "$work/x.ir" -o "$plan" --mesh tp=8 --place 'x=tp:S(0)' --place y=tp:R
run 0 estimate "$plan" --target h200
near "$whole * 7 / 8 / ($(step_row all_gather) * 1e-6)" 361e9 5
run 0 compile "$work/x.ir" -o "$plan" --mesh tp=8 --place 'x=tp:S(0)' --place 'y=tp:S(1)'
run 0 estimate "$plan" --target h200
near "$whole / 8 * 7 / 8 / ($(step_row all_to_all) * 1e-6)" 396e9 5
product bf16 65536 131072 128 >"$work/fc.json"
run 0 compile "$work/fc.json" -o "$plan" --mesh tp=8 --plan fc=rowwise --place 'y=tp:S(0)'
run 0 estimate "$plan" --target h200
near "$whole * 7 / 8 / ($(step_row reduce_scatter) * 1e-6)" 363e9 5
run 0 compile "$work/fc.json" -o "$plan" --mesh tp=8 --plan fc=rowwise --place y=tp:R
run 0 estimate "$plan" --target h200
near "$whole * 2 * 7 / 8 / ($(step_row all_reduce) * 1e-6)" 480e9 5
# b200's switch, scaled: twice the links, at .74 / .85 of their efficiency.
run 0 estimate "$plan" --target b200
near "$whole * 2 * 7 / 8 / ($(step_row all_reduce) * 1e-6)" '480e9 * 2 * .74 / .85' .5
# The switch does not add f64.
product f64 32768 65536 128 >"$work/fc.json"
run 0 compile "$work/fc.json" -o "$plan" --mesh tp=8 --plan fc=rowwise --place y=tp:R
run 0 estimate "$plan" --target h200
near "$whole * 2 * 7 / 8 / ($(step_row all_reduce) * 1e-6)" 367e9 5

# By hand, 1: a Megatron MLP, T = H = 4096, F = 16384, on 8 ranks, in bf16 and with rows scaled.  us.
cat >"$work/big.json" <<'JSON'
{"fp8shard": "graph", "version": 1,
 "inputs": {"x": {"dtype": "bf16", "shape": [4096, 4096]}},
 "parameters": {"fc1.weight": {"dtype": "bf16", "shape": [16384, 4096]}, "fc2.weight": {"dtype": "bf16", "shape": [4096, 16384]}},
 "nodes": [{"op": "linear", "in": ["x", "fc1.weight"], "out": "h", "module": "fc1"},
           {"op": "gelu", "in": ["h"], "out": "a"},
           {"op": "linear", "in": ["a", "fc2.weight"], "out": "y", "module": "fc2"}],
 "outputs": ["y"]}
JSON
megatron() {
	run 0 compile "$work/big.json" -o "$plan" --mesh tp=8 --plan fc1=colwise --plan fc2=rowwise --place x=tp:R --place y=tp:R --fp8 "$1"
}
# Two products of 2 * 4096 * 4096 * 2048 flops at 794 Tflop/s; gelu reads and writes 4096 x 2048 x 2 bytes at 0.92 of 3.35 TB/s;
# 4096 x 4096 x 2 bytes through the switch (480 GB/s of bus bandwidth are 480 / (2 * 7/8) of payload), 25 us to start it.
megatron none
run 0 estimate "$plan" --target h100
products='2 * (2 * 4096 * 4096 * 2048 / 794e12) * 1e6'
gelu='2 * 4096 * 2048 * 2 / (0.92 * 3.35e12) * 1e6'
sum='25 + 4096 * 4096 * 2 / (480e9 / (2 * 7 / 8)) * 1e6'
near "$(step_row 'matmul bf16')" "$products" .1
near "$(step_row 'other ops')" "$gelu" .1
near "$(step_row all_reduce)" "$sum" .1
near "$(step_row launches)" '3 * 2' .1
near "$(sed -n 's/^a step: \([0-9.]*\) us.*/\1/p' "$work/.out")" "$products + $gelu + $sum + 6" .1
near "$(sed -n 's/.*products at \([0-9.]*\) %.*/\1/p' "$work/.out")" "100 * 794 / 989 * ($products) / ($products + $gelu + $sum + 6)" .2
near "$(step_row 'matmul bf16' 3)" '2 * 2 * 4096 * 4096 * 2048 / 1e9' .1
# Shards of two weights of 16384 x 4096, and x; h and a or a and the sum or the sum twice, live at a time; 32 MiB for cuBLASLt.
out_has '  parameters              33.554 MB'
out_has '  inputs, constants       33.554 MB'
out_has '  activations             67.109 MB'
out_has '  workspace               33.554 MB'
out_has '  total                  167.772 MB of 80000 MB: fits'
# In rows: products at 1403 Tflop/s.  x and a are read for their amax and read again for their codes, which are written:
# 5 bytes an element; 4096 amaxes and scales, 3 times written or read, are 4 bytes each, of x and of a.  Weights in setup.
megatron rowwise
run 0 estimate "$plan" --target h100
near "$(step_row 'matmul fp8')" '2 * (2 * 4096 * 4096 * 2048 / 1403e12) * 1e6' .1
near "$(step_row 'fp8 scaling')" '(5 * (4096 * 4096 + 4096 * 2048) + 2 * 4 * 4 * 4096) / (0.92 * 3.35e12) * 1e6' .1
near "$(setup_row 'fp8 scaling')" '(5 * 2 * 4096 * 2048 + 4 * 4 * (2048 + 4096)) / (0.92 * 3.35e12) * 1e6' .1
near "$(step_row all_reduce)" "$sum" .1
# Threads: 130 Gflop/s, 27 GB/s, a ring at 12.8 GB/s.
run 0 estimate "$plan" --target cpu
near "$(step_row 'matmul fp8')" '2 * (2 * 4096 * 4096 * 2048 / 130e9) * 1e6' .1
near "$(step_row 'fp8 scaling')" '(5 * (4096 * 4096 + 4096 * 2048) + 2 * 4 * 4 * 4096) / 27e9 * 1e6' .1
near "$(step_row all_reduce)" '0.3 + 2 * 7 / 8 * 4096 * 4096 * 2 / 12.8e9 * 1e6' .1
none launches
# Codes of two weights, and 1/scale of their 2048 and 4096 rows.
near "$(sed -n 's/^  made in setup *\([0-9.]*\) MB/\1/p' "$work/.out")" '(2 * 4096 * 2048 + 4 * (2048 + 4096)) / 1e6' .1

# By hand, 2: data parallel on 8 ranks, weights in shards.  Rows of x split; the 4096 x 16384 weight is gathered, once: a ring of
# Simple takes 8.4 us and 7 hops of 3.4, at 361 GB/s; LL128 14 us, 7 of 1.9, at 0.92 of that, is slower here.
product bf16 32768 4096 16384 >"$work/fc.json"
run 0 compile "$work/fc.json" -o "$plan" --mesh dp=8 --place 'x=dp:S(0)' --place 'y=dp:S(0)' --place 'fc.weight=dp:S(0)'
run 0 estimate "$plan" --target h100
near "$(step_row 'matmul bf16')" '2 * 4096 * 4096 * 16384 / 794e12 * 1e6' .1
none all_
near "$(setup_row all_gather)" '8.4 + 7 * 3.4 + 4096 * 16384 * 2 * 7 / 8 / 361e9 * 1e6' .1
near "$(sed -n 's/^setup, once: \([0-9.]*\) us/\1/p' "$work/.out")" "$(setup_row all_gather)" .1
# Too much for one: 131072 x 65536 in f32 are 34 GB.
product f32 131072 131072 65536 >"$work/fc.json"
run 0 compile "$work/fc.json" -o "$plan"
run 0 estimate "$plan" --target h100
near "$(step_row 'matmul f32')" '2 * 131072 * 131072 * 65536 / (0.78 * 67e12) * 1e6' .1
out_has ' MB of 80000 MB: does not fit'

# By hand, 3: gradients of a weight on two nodes, dp=2,tp=8: x^T g over 8192 rows.  Ranks of tp share a node, those of dp do not:
# each sends 2 * 1/2 of its 512 x 4096 bf16 over its own 50 GB/s, in a ring of Simple (8.4 us, two hops of 14), or in a tree,
# or in LL128 (14 us, two hops of 4, 0.92 of 50 GB/s), which is the fastest.
cat >"$work/dw.ir" <<'IR'
graph {
  %x = input "x" : bf16[8192,4096]
  %g = input "g" : bf16[8192,4096]
  %w = matmul %x, %g {eq="km,kn->mn"} : bf16[4096,4096]
  output "w" = %w
}
IR
run 0 compile "$work/dw.ir" -o "$plan" --mesh dp=2,tp=8 --place 'x=dp:S(0), tp:S(1)' --place 'g=dp:S(0),tp:R' --place 'w=dp:R, tp:S(0)'
run 0 estimate "$plan" --target h100 --nodes 2
out_has 'mesh dp=2, tp=8: 16 ranks on h100, 2 nodes of 8'
near "$(step_row 'matmul bf16')" '2 * 4096 * 512 * 4096 / 794e12 * 1e6' .1
near "$(step_row all_reduce)" '14 + 2 * 4 + 512 * 4096 * 2 / (0.92 * 50e9) * 1e6' .1
# All of them in one node: for two ranks a ring of Simple is faster than the switch, 25 us.
run 0 estimate "$plan" --target h100 --nodes 1
near "$(step_row all_reduce)" '8.4 + 2 * 3.4 + 512 * 4096 * 2 / 367e9 * 1e6' .1
# What the default is: at most 8 to a node.
run 0 estimate "$plan" --target h100
out_has '2 nodes of 8'

# Groups over nodes: 16 ranks on 2 nodes have 8 NICs a node, 400 GB/s, more than the 361 of NVLink; on 4, 4 NICs, 200 GB/s; on 16
# one each.  16 GiB, so that hops do not count.
run 0 compile "$work/x.ir" -o "$plan" --mesh tp=16 --place 'x=tp:S(0)' --place y=tp:R
for nodes in 1:361 2:361 4:200 8:100 16:50; do
	run 0 estimate "$plan" --target h100 --nodes "${nodes%:*}"
	near "$whole * 15 / 16 / ($(step_row all_gather) * 1e-6)" "${nodes#*:}e9" .5
done
# Two axes, each over 2 nodes: 2 of 8 ranks on each of 4.
run 0 compile "$work/x.ir" -o "$plan" --mesh dp=2,tp=4 --place 'x=dp:S(0),tp:S(0)' --place y=dp:R,tp:R
run 0 estimate "$plan" --target h100 --nodes 4
near "$whole * 7 / 8 / ($(step_row 'all_gather  dp,tp') * 1e-6)" 100e9 .5
# Of an all_to_all each rank sends 8/16 of its own to the other node, over one NIC.
run 0 compile "$work/x.ir" -o "$plan" --mesh tp=16 --place 'x=tp:S(0)' --place 'y=tp:S(1)'
run 0 estimate "$plan" --target h100 --nodes 2
near "$(step_row all_to_all)" "$whole / 16 * 8 / 16 / 50e9 * 1e6" .5
# b200: twice the links, one hop.
run 0 estimate "$plan" --target b200 --nodes 1
near "$(step_row all_to_all)" "8.4 + 3.4 + $whole / 16 * 15 / 16 / (2 * 396e9) * 1e6" .1

# Small ones: LL, 6.6 us and 0.6 a hop, at half of 361 GB/s but no more than 141; a tree over 16 nodes goes 4 up, 4 down.
cat >"$work/small.ir" <<'IR'
graph {
  %x = input "x" : bf16[16,512]
  %y = relu %x : bf16[16,512]
  output "y" = %y
}
IR
run 0 compile "$work/small.ir" -o "$plan" --mesh tp=8 --place 'x=tp:S(0)' --place y=tp:R
run 0 estimate "$plan" --target h100
near "$(step_row all_gather)" '6.6 + 7 * 0.6 + 16384 * 7 / 8 / 141e9 * 1e6' .1
product bf16 16 512 4096 >"$work/fc.json"
run 0 compile "$work/fc.json" -o "$plan" --mesh tp=16 --plan fc=rowwise --place y=tp:R
run 0 estimate "$plan" --target h100 --nodes 16
near "$(step_row all_reduce)" '6.8 + 2 * 4 * 5 + 2 * 16384 / (0.92 / 3.8 * 50e9) * 1e6' .1
# Four of a node in a chain, 4 nodes in a tree; LL over several nodes has no more than 35 GB/s.
run 0 estimate "$plan" --target h100 --nodes 4
near "$(step_row all_reduce)" '6.8 + 2 * (3 * 0.6 + 2 * 5) + 2 * 16384 / 35e9 * 1e6' .1

# Nothing to send: an axis of one rank.  A table is read where it is looked up, a broadcast and a square once.
run 0 compile "$work/fc.json" -o "$plan" --mesh tp=1 --plan fc=rowwise --place y=tp:R
run 0 estimate "$plan"
none all_reduce
cat >"$work/read.ir" <<'IR'
graph {
  %i = input "i" : i64[4096]
  %t = param "t" : bf16[131072,1024]
  %b = param "b" : bf16[1,1024]
  %e = embedding %t, %i : bf16[4096,1024]
  %w = expand %b {shape=[4096,1024]} : bf16[4096,1024]
  %y = cat %e, %w {dim=0} : bf16[8192,1024]
  %z = mul %y, %y : bf16[8192,1024]
  output "z" = %z
}
IR
run 0 compile "$work/read.ir" -o "$plan"
run 0 estimate "$plan"
near "$(step_row 'other ops' 2)" '(2 * 4096 * 1024 * 2 + 4096 * 8 + 3 * 4096 * 1024 * 2 + 1024 * 2 + 2 * 8192 * 1024 * 2) / 1e6' .01

# Beside the compute: z does not hang on the gather of x, which y does; what the gather takes beyond z's product and its launch
# remains.
cat >"$work/beside.ir" <<'IR'
mesh tp=8
graph {
  %x = input "x" : bf16[8192,8192] (tp:S(0))
  %a = input "a" : bf16[8192,8192] (tp:S(0))
  %v = input "v" : bf16[8192,8192]
  %w = param "w" {hard=tp} : bf16[8192,8192] (tp:S(0))
  %z = matmul %a, %v {eq="mk,nk->mn"} : bf16[8192,8192]
  %y = matmul %x, %w {eq="mk,nk->mn"} : bf16[8192,8192]
  output "z" = %z
  output "y" = %y
}
IR
run 0 compile "$work/beside.ir" -o "$plan" --place 'y=tp:S(1)' --place 'v=tp:R' --place 'z=tp:S(0)'
run 0 estimate "$plan" --target h100
gather='8.4 + 7 * 3.4 + 8192 * 8192 * 2 * 7 / 8 / 361e9 * 1e6'
near "$(step_row all_gather)" "$gather" .1
near "$(sed -n 's/.*in this order, \([0-9.]*\) us would be/\1/p' "$work/.out")" "$gather - 2 * 1024 * 8192 * 8192 / 794e12 * 1e6 - 2" .1

# The same as JSON.
total=$(sed -n 's/^a step: \([0-9.]*\) us.*/\1/p' "$work/.out")
run 0 estimate "$plan" --target h100 --json
near "$(awk -F'[:,]' '/"us"/ { print $2; exit }' "$work/.out")" "$total" .1
near "$(awk -F'[:,]' '/"exposed_beside_us"/ { print $2; exit }' "$work/.out")" "$gather - 2 * 1024 * 8192 * 8192 / 794e12 * 1e6 - 2" .1
for has in '"target": "h100"' '"ranks": 8' '"nodes": 1' '"node_ranks": 8' '"what": "all_gather"' '"workspace": 33554432'; do
	out_has "$has"
done

# Any mesh, in no time: groups of all sizes. cpu has one node.
run 0 compile "$work/x.ir" -o "$plan" --mesh dp=131072,tp=16383 --place 'x=dp:S(0), tp:S(1)' --place y=dp:R,tp:R
run 0 estimate "$plan" --target b200
out_has '2147352576 ranks on b200'
run 0 compile "$work/x.ir" -o "$plan" --mesh dp=3,tp=4 --place 'x=dp:S(0)' --place y=dp:R
run 0 estimate "$plan"
out_has '12 ranks on h100, 3 nodes of 4'
run 0 estimate "$plan" --target cpu
out_has '12 ranks on cpu, 1 node of 12'
# The plan says for which machine it was placed.
run 0 compile "$work/x.ir" -o "$plan" --mesh dp=3,tp=4 --target b200
run 0 estimate "$plan"
out_has 'on b200'

# Wrong input: a line, and 1.
run 1 estimate "$plan" --nodes 2
err "--nodes 2: the plan's 12 ranks do not split into so many equal nodes; take the sizes of the first mesh axes, times a divisor of the next"
run 1 estimate "$plan" --nodes 24
run 1 estimate "$plan" --nodes 0
err "--nodes '0': a number of 1 or more wanted"
run 1 estimate "$plan" --nodes 2x
err "--nodes '2x': a number of 1 or more wanted"
run 1 estimate "$plan" --target cpu --nodes 3
err '--nodes 3: ranks on cpu are threads of one process, on one node'
run 1 estimate "$plan" --target a100
err "--target 'a100' is unknown; there are h100, h200, b200 and cpu"
run 1 estimate "$work/mlp.json"
err_has 'not a plan'
run 1 estimate
err_has 'estimate needs a file'
run 1 estimate "$plan" "$plan"
err_has 'one argument too many'
