# What a user can get wrong: one line, exit status 1 (2: no command line), no output file.
compile block tests/run/block.ir --mesh tp=2 --fp8 rowwise
plan=$work/block.json
weights=$work/weights.safetensors
ids=$work/ids.safetensors
none=$work/none.safetensors

bad() {
	run 1 "$@" -o "$none"
	no_file "$none"
	[ "$(wc -l <"$work/.err")" -eq 1 ] || fail "not one line: $(cat "$work/.err")"
}

bad "$work/nothing.json"
err "$work/nothing.json: cannot be opened: No such file or directory"
bad "$weights"
head -c 2000 "$plan" >"$work/cut.json"
bad "$work/cut.json"
err_has "$work/cut.json: "
sed 's/"exact":false/"exact":true/' "$plan" >"$work/edited.json"
bad "$work/edited.json" --weights "$weights" --inputs "$ids"
err_has "$work/edited.json was changed after it was written"

bad "$plan" --inputs "$ids"
err_has "no --weights: 8 parameters of the plan missing: 'embed.weight', 'q_proj.weight', 'k_proj.weight', 'v_proj.weight', 'o_proj.weight' ..."
bad "$plan" --weights "$work/nothing.safetensors" --inputs "$ids"
err_has "$work/nothing.safetensors"
head -c 1000 "$weights" >"$work/cut.safetensors"
bad "$plan" --weights "$work/cut.safetensors" --inputs "$ids"
err_has "$work/cut.safetensors"
bad "$plan" --weights "$work/weights16.safetensors" --inputs "$ids"
err "$work/weights16.safetensors: 'embed.weight' is bf16[64,32], the plan's parameter 'embed.weight' is f32[64,32]: convert the weights to that type"
sed 's/\[64,32\]/[48,32]/; s/\[2,9,64\]/[2,9,48]/' tests/run/block.ir >"$work/smaller.ir"
compile smaller "$work/smaller.ir"
bad "$work/smaller.json" --weights "$weights" --inputs "$ids"
err_has "'embed.weight' is f32[64,32], the plan's parameter 'embed.weight' is f32[48,32]: these are the weights of another model"

bad "$plan" --weights "$weights"
err "the plan has an input 'ids' (i64[2,9]): pass --inputs"
bad "$plan" --weights "$weights" --inputs "$weights"
err "$weights: no input 'ids' (i64[2,9])"
sed 's/iota {start=5 step=11}/iota {start=0 step=4}/; s/value=64/value=1000/' tests/run/ids.ir >"$work/far.ir"
compile far "$work/far.ir"
run 0 "$work/far.json" -o "$work/far.safetensors"
bad "$plan" --weights "$weights" --inputs "$work/far.safetensors"
err_has 'embedding (embed'
err_has 64
sed 's/i64\[2,9\]/i64[3,6]/; s/shape=\[2,9\]/shape=[3,6]/' tests/run/ids.ir >"$work/wide.ir"
compile wide "$work/wide.ir"
run 0 "$work/wide.json" -o "$work/wide.safetensors"
bad "$plan" --weights "$weights" --inputs "$work/wide.safetensors"
err "$work/wide.safetensors: input 'ids' is i64[3,6], the plan has i64[2,9]"
sed 's/output "ids" = %ids/&\n  output "more" = %i/' tests/run/ids.ir >"$work/more.ir"
compile more "$work/more.ir"
run 0 "$work/more.json" -o "$work/more.safetensors"
bad "$plan" --weights "$weights" --inputs "$work/more.safetensors"
err "$work/more.safetensors: the plan has no input 'more'"

run 1 "$plan" --weights "$weights" --inputs "$ids" -o "$work/no/such/folder.safetensors"
err_has "$work/no/such/folder.safetensors"
if [ -c /dev/full ]; then
	run 1 "$plan" --weights "$weights" --inputs "$ids" -o /dev/full
	err_has /dev/full
fi

# Nothing that is read is written over, and no two outputs are one file.
mkdir "$work/folder"
cp "$plan" "$weights" "$ids" "$work/folder"
mv "$work/folder/weights.safetensors" "$work/folder/model.safetensors"
cp -r "$work/folder" "$work/before"
for file in block.json model.safetensors ids.safetensors; do
	for option in -o --check-json; do
		run 1 "$work/folder/block.json" --weights "$work/folder" --inputs "$work/folder/ids.safetensors" \
			$option "$work/folder/$file"
		err "$option $work/folder/$file: that is an input; name another file"
		same "$work/folder/$file" "$work/before/$file"
	done
done
run 1 "$plan" --weights "$weights" --inputs "$ids" -o "$none" --check-json "$none"
err "--check-json $none: that is the file of -o; name another one"
no_file "$none"
if [ -c /dev/full ]; then
	for option in --help --json --check -v; do
		"$build/fp8shard-run" "$plan" --weights "$weights" --inputs "$ids" $option >/dev/full 2>"$work/.err"
		[ $? -eq 1 ] && pass || fail "$option: what is printed to a full disk"
		err_has 'No space left on device'
	done
fi

run 1 "$plan" --repeat 0
err "--repeat '0': a number from 1 to 1000000 wanted"
run 1 "$plan" --threads many
err "--threads 'many': a number from 1 to 64 wanted"

run 1
err "a plan is missing; see fp8shard-run --help"
run 1 "$plan" --wieghts x
err "no such option: --wieghts; see fp8shard-run --help"
run 1 "$plan" --weights
err "a value is missing after --weights; see fp8shard-run --help"
run 1 "$plan" "$plan.2"
err "one plan at a time: what is $plan.2; see fp8shard-run --help"
run 0 --help
out_has 'fp8shard-run PLAN [options]'

# More ranks than BLAS takes callers.
compile many tests/run/ids.ir --mesh tp=4096
bad "$work/many.json"
err_has 'the plan has 4096 ranks'
err_has 'compile for a smaller mesh'

# A failed check is exit status 1, and says which row.
grep -v 'output "x"' tests/run/cancel.ir >"$work/cancel_w.ir"
grep -v 'output "w"' tests/run/cancel.ir >"$work/cancel_x.ir"
for name in cancel_w cancel_x; do
	compile $name "$work/$name.ir"
	run 0 "$work/$name.json" -o "$work/$name.safetensors"
done
cat >"$work/product.ir" <<'END'
graph {
  %x = input "x" : f32[2,16]
  %w = param "w" : f32[16,16]
  %y = matmul %x, %w {eq="mk,nk->mn"} : f32[2,16] ; y @ layers.0.up_proj
  output "y" = %y
}
END
compile product "$work/product.ir" --mesh tp=2 --fp8 tensorwise
run 1 "$work/product.json" --weights "$work/cancel_w.safetensors" --inputs "$work/cancel_x.safetensors" --check
out_has 'layers.0.up_proj (y)'
out_has 'check: FAILED'
