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
