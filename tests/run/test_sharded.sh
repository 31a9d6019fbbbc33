# A decoder layer on meshes that divide its dims and that do not: --check, and exact plans bit by bit.
megatron="--plan q_proj=colwise --plan k_proj=colwise --plan v_proj=colwise --plan o_proj=rowwise
	--plan gate_proj=colwise --plan up_proj=colwise --plan down_proj=rowwise"
files="--weights $work/weights.safetensors --inputs $work/ids.safetensors"
files16="--weights $work/weights16.safetensors --inputs $work/ids.safetensors"
for mesh in tp=2 tp=3 tp=4 dp=2,tp=2; do
	for fp8 in none tensorwise rowwise; do
		# shellcheck disable=SC2086
		{
			compile block tests/run/block.ir --mesh $mesh $megatron --fp8 $fp8
			run 0 "$work/block.json" $files --check
			out_has 'check: passed'
			compile block16 "$work/block16.ir" --mesh $mesh $megatron --fp8 $fp8
			run 0 "$work/block16.json" $files16 --check
			[ $fp8 != none ] || continue
			compile exact tests/run/block.ir --mesh $mesh $megatron --fp8 $fp8 --exact
			run 0 "$work/exact.json" $files --check
		}
	done
done

# Vocabulary and sequence sharded too.
for mesh in tp=2 tp=3 tp=4; do
	# shellcheck disable=SC2086
	{
		compile sequence tests/run/block.ir --mesh $mesh $megatron --fp8 rowwise --place 'embedding=tp:S(1)' --place 'h=tp:S(1)' \
			--place 'embed.weight=tp:S(0)'
		run 0 "$work/sequence.json" $files --check
	}
done

# Exact tensorwise: the same bits on any mesh.
compile one tests/run/block.ir --fp8 tensorwise --exact
# shellcheck disable=SC2086
run 0 "$work/one.json" $files -o "$work/one.safetensors"
for mesh in tp=2 tp=3 tp=4 dp=2,tp=2 tp=7; do
	# shellcheck disable=SC2086
	{
		compile exact tests/run/block.ir --mesh $mesh $megatron --fp8 tensorwise --exact
		run 0 "$work/exact.json" $files -o "$work/exact.safetensors"
		same "$work/one.safetensors" "$work/exact.safetensors"
	}
done

# Two runs, and any number of steps: the same bytes.
# shellcheck disable=SC2086
{
	compile block tests/run/block.ir --mesh dp=2,tp=2 $megatron --fp8 rowwise
	run 0 "$work/block.json" $files -o "$work/a.safetensors"
	run 0 "$work/block.json" $files -o "$work/b.safetensors" --repeat 5
	same "$work/a.safetensors" "$work/b.safetensors"
	run 0 "$work/block.json" $files --json
	out_has '"bytes_sent"'
	run 0 "$work/block.json" $files --check --check-json "$work/check.json" --json
	out_has '"passed": true'
}
