# --train: what only the command line says.
{
	echo 'graph {'
	echo '%x0 = input "x" : f32[4096,16]'
	for i in 0 1 2 3; do
		echo "%w$i = param \"layers.$i.weight\" : f32[16,16]"
		echo "%h$i = matmul %x$i, %w$i {eq=\"mk,nk->mn\"} : f32[4096,16] ; fc @ layers.$i"
		echo "%t$i = tanh %h$i : f32[4096,16] ; tanh @ layers.$i"
		echo "%u$i = exp %t$i : f32[4096,16] ; exp @ layers.$i"
		echo "%x$((i + 1)) = tanh %u$i : f32[4096,16] ; tanh_1 @ layers.$i"
	done
	echo 'output "y" = %x4'
	echo '}'
} >"$work/mlp.ir"
train="--train --loss mse:target"

# Within a budget as few blocks as do are computed again; one that is too small says what is needed.
# shellcheck disable=SC2086
{
	run 0 compile "$work/mlp.ir" $train --memory 1GB -o "$work/all.json"
	run 0 compile "$work/mlp.ir" $train -o "$work/plain.json"
	same "$work/all.json" "$work/plain.json"
	run 0 compile "$work/mlp.ir" $train --recompute block -o "$work/block.json"
	run 1 compile "$work/mlp.ir" $train --memory 1kB -o "$work/none.json"
	no_file "$work/none.json"
	least=$(sed -n 's/.*needs \([0-9]*\) bytes with all 4 blocks computed again; 1000 are given/\1/p' "$work/.err")
	run 0 compile "$work/mlp.ir" $train --memory "$least" -o "$work/least.json"
	err_has "computed again"
	run 1 compile "$work/mlp.ir" $train --memory $((least - 1)) -o "$work/none.json"
}
run 1 compile "$work/mlp.ir" --memory 1kB -o "$work/none.json"
err_has "a rank needs"
run 1 compile "$work/mlp.ir" --memory 8QB -o "$work/none.json"
err "--memory: '8QB' is no number of bytes, as in 8GiB or 500MB"
run 1 compile "$work/mlp.ir" --memory -1GB -o "$work/none.json"

# Sharded parameters (FSDP) are gathered once for forward and backward, in codes where all products take the same ones, and
# their gradients are reduce-scattered; replicated ones (DP) have theirs all-reduced.  Bytes: weights of 2048 x 1024, 7/8 sent.
cat >"$work/fsdp.ir" <<'IR'
mesh dp=8
graph {
  %x = input "x" : bf16[65536,1024] (dp:S(0))
  %w0 = param "up.weight" : bf16[2048,1024]
  %w1 = param "down.weight" : bf16[1024,2048]
  %h = matmul %x, %w0 {eq="mk,nk->mn"} : bf16[65536,2048] ; up @ up
  %a = relu %h : bf16[65536,2048]
  %y = matmul %a, %w1 {eq="mk,nk->mn"} : bf16[65536,1024] ; down @ down
  output "y" = %y
}
IR
# RECIPE OPTION...: bytes of each kind of collective, without those of one number
sent() {
	recipe=$1
	shift
	run 0 compile "$work/fsdp.ir" --train --cotangent y --place grad.y='dp:S(0)' --fp8 "$recipe" "$@" -o "$work/p.json"
	run 0 show "$work/p.json"
	awk '$2 == "dp" && $5 > 1000 { print $1, $4, $5 * $6 } ' "$work/.out" | sort >"$work/sent"
}
# What is printed, a line each.
is_sent() {
	printf '%s\n' "$@" | diff - "$work/sent" >/dev/null && pass || fail "sends $(tr '\n' ';' <"$work/sent")"
}
sent none --place '*.weight=dp:S(0)'
is_sent 'all_gather bf16[1024,2048] 3670016' 'all_gather bf16[2048,1024] 3670016' \
	'reduce_scatter bf16[1024,2048] 3670016' 'reduce_scatter bf16[2048,1024] 3670016'
sent tensorwise --place '*.weight=dp:S(0)'
is_sent 'all_gather e4m3[1024,2048] 1835008' 'all_gather e4m3[2048,1024] 1835008' \
	'reduce_scatter bf16[1024,2048] 3670016' 'reduce_scatter bf16[2048,1024] 3670016'
sent none
is_sent 'all_reduce bf16[1024,2048] 7340032' 'all_reduce bf16[2048,1024] 7340032'
sent none --place '*.weight=dp:S(0)' --grad-reduce f32
is_sent 'all_gather bf16[1024,2048] 3670016' 'all_gather bf16[2048,1024] 3670016' \
	'reduce_scatter f32[1024,2048] 7340032' 'reduce_scatter f32[2048,1024] 7340032'
run 1 compile "$work/fsdp.ir" --train --cotangent y --grad-reduce f8 -o "$work/none.json"
err "--grad-reduce 'f8': bf16 or f32 wanted"
