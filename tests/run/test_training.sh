# Training steps, checkpoints, and going on from them: against torch.optim (tests/data/train/make.py), and bit for bit.
data=tests/data/train
mlp="--train --loss mse:target"
placed="--plan fc1=colwise --plan fc2=rowwise --place x=dp:S(0) --place target=dp:S(0)"
sed 's/f32\[/bf16[/' $data/mlp.ir >"$work/mlp16.ir"

# judge COMMAND ARGUMENT...: tests/models/training.c
judge() {
	if "$build/models/training" "$@" >"$work/.out" 2>&1; then pass; else fail "training $*: $(cat "$work/.out")"; fi
}

# same_state DIR DIR: the same step, seed, parameters and states.
same_state() {
	for part in "$1"/*; do
		same "$part" "$2/${part##*/}"
	done
}

# --- every optimizer, on meshes that divide dims and that do not; fully sharded too ---

# train CASE OPTION...: 8 steps of what is compiled, within `db` and `percent` of torch's.
train() {
	case_=$1
	shift
	rm -rf "$work/run"
	run 0 "$work/train.json" --train --steps 8 --lr 0.01 --checkpoint "$work/run" --log "$work/log" "$@"
	judge tensors $data/expected.safetensors "$case_" "$work/run/step-00000008" "$db"
	judge curve $data/expected.safetensors "$case_.loss" "$work/log" loss 1 "$percent"
	judge curve $data/expected.safetensors "$case_.grad_norm" "$work/log" grad_norm 1 "$percent"
}

# shellcheck disable=SC2086
for mesh in dp=1,tp=1 dp=2,tp=2 dp=1,tp=5 dp=3,tp=1; do
	for rule in fc1.weight=dp:R '**.weight=dp:S(1)'; do
		set -- --mesh $mesh $placed --place "$rule"
		db=115 percent=0.001
		compile train $data/mlp.ir $mlp "$@" --optimizer adamw
		train adamw --weights $data/weights.safetensors --data $data/data.safetensors
		compile train $data/mlp.ir $mlp "$@" --optimizer adamw:beta1=0.4,beta2=0.95,eps=1e-6,weight_decay=0.1 --clip-norm 0.5
		train adamw_clip --weights $data/weights.safetensors --data $data/data.safetensors
		compile train $data/mlp.ir $mlp "$@" --optimizer sgd
		train sgd --weights $data/weights.safetensors --data $data/data.safetensors
		compile train $data/mlp.ir $mlp "$@" --optimizer sgd:momentum=0.9,weight_decay=0.05 --clip-norm 0.5
		train sgd_momentum --weights $data/weights.safetensors --data $data/data.safetensors
		# f32 masters, from a bf16 file; bf16 sums over ranks are rounded.
		case $mesh in *tp=1) ;; *) db=40 percent=1 ;; esac
		compile train "$work/mlp16.ir" $mlp "$@" --optimizer adamw
		train masters --weights $data/weights16.safetensors --data $data/data16.safetensors
	done
done

# One reduction of one number over all ranks, whatever is sharded.
# shellcheck disable=SC2086
compile train $data/mlp.ir $mlp --mesh dp=2,tp=2 $placed --place '**.weight=dp:S(1)' --optimizer sgd
"$build/fp8shard" show "$work/train.json" >"$work/.out"
if [ "$(grep -c 'f32\[1\] .* 1  step' "$work/.out")" -eq 1 ]; then pass; else fail "not one reduction of the norm: $(cat "$work/.out")"; fi

# Exact steps, clipped by the norm of all gradients: the same bits on any mesh.
# shellcheck disable=SC2086
for mesh in dp=1,tp=1 dp=1,tp=2 dp=3,tp=1 dp=2,tp=2; do
	compile exact $data/mlp.ir $mlp --mesh $mesh --place 'x=dp:S(0)' --place '**.weight=tp:S(0)' --exact --optimizer adamw --clip-norm 0.5
	run 0 "$work/exact.json" --weights $data/weights.safetensors --data $data/data.safetensors --train --steps 8 --lr 0.01 \
		--checkpoint "$work/exact.$mesh"
	same_state "$work/exact.dp=1,tp=1/step-00000008" "$work/exact.$mesh/step-00000008"
done

# --- going on: on the same mesh the same bits; on another the same state ---

files="--weights $data/weights.safetensors --data $data/data.safetensors"
# shellcheck disable=SC2086
{
	compile train $data/mlp.ir $mlp --mesh dp=2,tp=2 $placed --optimizer sgd:momentum=0.9 --clip-norm 0.5
	rm -rf "$work/whole" "$work/parts"
	run 0 "$work/train.json" $files --train --steps 8 --lr 0.05 --checkpoint "$work/whole" --log "$work/whole.log" -o "$work/whole.out"
	run 0 "$work/train.json" $files --train --steps 3 --lr 0.05 --checkpoint "$work/parts" --log "$work/parts.log"
	cp -r "$work/parts/step-00000003" "$work/third"
	run 0 "$work/train.json" --resume "$work/parts" --data $data/data.safetensors --train --steps 8 --lr 0.05 --every 2 \
		--checkpoint "$work/parts" --log "$work/parts.log" -o "$work/parts.out"
	same_state "$work/whole/step-00000008" "$work/parts/step-00000008"
	same "$work/whole.out" "$work/parts.out"
	for log in whole parts; do sed 's/,"seconds".*//' "$work/$log.log" >"$work/$log.steps"; done
	same "$work/whole.steps" "$work/parts.steps"
	no_file "$work/parts/step-00000003"
	run 0 "$work/train.json" --resume "$work/parts" --data $data/data.safetensors --train --steps 8
	out_has 'step 8 is done: --steps 8 leaves nothing to do'

	# Gathered, divided anew, gathered again.
	compile keep $data/keep.ir
	run 0 "$work/keep.json" --resume "$work/third" --data $data/data.safetensors --train --steps 4 --checkpoint "$work/kept"
	for part in "$work/third"/*.safetensors; do
		same "$part" "$work/kept/step-00000004/${part##*/}"
	done
	compile one $data/mlp.ir $mlp --optimizer sgd:momentum=0.9 --clip-norm 0.5
	run 0 "$work/one.json" --resume "$work/third" --data $data/data.safetensors --train --steps 8 --lr 0.05
	# What a checkpoint has is what --weights takes.
	run 0 "$work/one.json" --weights "$work/third" --data $data/data.safetensors --train --steps 1
}

# --- killed at any time ---

compile words_weights $data/words_weights.ir
run 0 "$work/words_weights.json" -o "$work/words.safetensors"
cat docs/*.md | head -c 40000 >"$work/words.bin"
words="--train --data $work/words.bin --tokens u8 --steps 120 --lr 0.02 --every 1"
compile words $data/words.ir --train --loss cross_entropy:labels --optimizer adamw --mesh dp=2 --place 'input_ids=dp:S(0)' \
	--place 'head.weight=dp:S(0)'
# shellcheck disable=SC2086
{
	run 0 "$work/words.json" --weights "$work/words.safetensors" $words --seed 7 --checkpoint "$work/calm" --log "$work/calm.log"
	no_file "$work/calm/step-00000119"
	run 0 "$work/words.json" --weights "$work/words.safetensors" $words --seed 7 --checkpoint "$work/killed" --every 200 --steps 1
	kills=0
	while [ $kills -lt 5 ]; do
		"$build/fp8shard-run" "$work/words.json" --resume "$work/killed" $words --checkpoint "$work/killed" >/dev/null 2>&1 &
		sleep "0.$(od -An -N1 -tu1 /dev/urandom | awk '{ printf "%03d", $1 }')"
		kill -9 $! 2>/dev/null
		wait $! 2>/dev/null
		kills=$((kills + 1))
	done
	run 0 "$work/words.json" --resume "$work/killed" $words --checkpoint "$work/killed"
	same_state "$work/calm/step-00000120" "$work/killed/step-00000120"
	no_file "$work/killed/.unfinished*"
	# It learns.
	if [ "$(head -n 1 "$work/calm.log" | sed 's/.*"loss":\([0-9]\).*/\1/')" -ge 5 ] &&
		[ "$(tail -n 1 "$work/calm.log" | sed 's/.*"loss":\([0-9]\).*/\1/')" -le 3 ]; then
		pass
	else
		fail "the loss does not fall: $(tail -n 1 "$work/calm.log")"
	fi
	# Windows follow from the seed, on any mesh.
	compile lonely $data/words.ir --train --loss cross_entropy:labels --optimizer adamw
	for seed in 7 8; do
		run 0 "$work/lonely.json" --weights "$work/words.safetensors" --train --data "$work/words.bin" --tokens u8 --steps 1 --seed $seed \
			--log "$work/seed$seed.log"
		sed -i 's/\("loss":......\).*/\1/' "$work/seed$seed.log"
	done
	head -n 1 "$work/calm.log" | sed 's/\("loss":......\).*/\1/' >"$work/calm.first"
	same "$work/seed7.log" "$work/calm.first"
	if cmp -s "$work/seed8.log" "$work/calm.first"; then fail "the seed changes nothing"; else pass; fi
}

# --- the learning rate ---

# By hand: 0.4 (1/2, 1), then 0.2 (1 + cos(pi k / 4)).
# shellcheck disable=SC2086
run 0 "$work/one.json" $files --train --steps 6 --lr 0.4 --warmup 2 --lr-schedule cosine --log "$work/log"
sed 's/.*"lr":\(.....\).*/\1/' "$work/log" | tr '\n,' '  ' >"$work/rates"
echo '0.2 s 0.4 s 0.4 s 0.341 0.2 s 0.058 ' | tr -d 's' | tr -s ' ' >"$work/want"
tr -d 's"' <"$work/rates" | tr -s ' ' >"$work/got"
if [ "$(cat "$work/got")" = "$(cat "$work/want" | tr -d '\n')" ]; then pass; else fail "rates: $(cat "$work/got")"; fi

# --- what a user can get wrong ---

# refuse TEXT OPTION...: of the plan `one`, with weights and data.
refuse() {
	text=$1
	shift
	# shellcheck disable=SC2086
	run 1 "$work/one.json" $files --train "$@"
	err "$text"
}

refuse "--train: --steps N is missing"
refuse "$data/data.safetensors: rows for 8 steps; --steps wants 9" --steps 9
refuse "--steps '0': a number of 1 or more wanted" --steps 0
refuse "--lr 'fast': a number of 0 or more wanted" --steps 1 --lr fast
refuse "--lr-schedule 'linear': constant or cosine wanted" --steps 1 --lr-schedule linear
refuse "--tokens 'i64': u8, u16 or u32 wanted" --steps 1 --tokens i64
refuse "--tokens: a file of tokens has nothing for the plan's input 'x'; there are input_ids and labels" --steps 1 --tokens u8
refuse "--seed says where windows of a file of tokens begin: give --tokens TYPE, too" --steps 1 --seed 1
refuse "--repeat does not go with --train" --steps 1 --repeat 2
refuse "--check does not go with --train" --steps 1 --check
refuse "--inputs does not go with --train: --data has a row a step" --steps 1 --inputs $data/data.safetensors
refuse "--json does not go with --train: --log FILE has each step as JSON" --steps 1 --json
refuse "--weights and --resume: a checkpoint has all parameters; give one of them" --steps 1 --resume "$work/third"
refuse "$data/weights.safetensors: no input 'x': a row a step of f32[4,8] wanted" --steps 1 --data $data/weights.safetensors
refuse "$data/data16.safetensors: 'x' is bf16[8,4,8]; a row a step of f32[4,8] wanted" --steps 1 --data $data/data16.safetensors
refuse "--log $work/both: that is the file of -o; name another one" --steps 1 --log "$work/both" -o "$work/both"
refuse "--checkpoint $work/parts: has step 8 already: go on from it with --resume $work/parts, or name another folder" --steps 1 \
	--checkpoint "$work/parts"
run 1 "$work/one.json" --steps 3
err '--steps goes with --train'
compile plain $data/mlp.ir
# shellcheck disable=SC2086
run 1 "$work/plain.json" $files --train --steps 1
err 'the plan gives no loss: compile it with --train --loss LOSS --optimizer NAME'
run 1 "$work/plain.json" --weights $data/weights16.safetensors
err_has 'convert the weights to that type'
# shellcheck disable=SC2086
{
	compile still $data/mlp.ir $mlp
	run 1 "$work/still.json" $files --train --steps 1
	err 'the plan changes no parameter: compile it with --optimizer NAME'
}
printf '0123456789' >"$work/few.bin"
run 1 "$work/lonely.json" --weights "$work/words.safetensors" --train --data "$work/few.bin" --tokens u8 --steps 1
err "$work/few.bin: 10 tokens; a window and its label take 17"
run 1 "$work/lonely.json" --weights "$work/words.safetensors" --train --data "$work/words.bin" --tokens u16 --steps 1
err_has 'step 1: '
err_has 'embed'

# A label out of range, where the vocabulary is whole and where it is sharded.
compile wrong $data/wrong_labels.ir
run 0 "$work/wrong.json" -o "$work/wrong.safetensors"
run 1 "$work/lonely.json" --weights "$work/words.safetensors" --train --data "$work/wrong.safetensors" --steps 2
err_has 'index 300 is out of range for 256 rows'
compile vocabulary $data/words.ir --train --loss cross_entropy:labels --optimizer adamw --mesh tp=2 --place 'head.weight=tp:S(0)'
run 1 "$work/vocabulary.json" --weights "$work/words.safetensors" --train --data "$work/wrong.safetensors" --steps 2
err 'step 2: the loss is nan; first not finite: where of label_out_of_range (made by split_vocab)'

# Numbers that are not finite, and where that began; what was saved stays.
# shellcheck disable=SC2086
{
	rm -rf "$work/run"
	run 1 "$work/one.json" --weights $data/weights.safetensors --train --data $data/bad.safetensors --steps 8 --every 1 \
		--checkpoint "$work/run"
	err "step 3: the loss is nan; first not finite: input 'x'"
	run 0 "$work/one.json" --resume "$work/run" --train --data $data/data.safetensors --steps 3
	compile sharded $data/mlp.ir $mlp --optimizer sgd:momentum=0.9 --mesh dp=2,tp=2 $placed
	run 1 "$work/sharded.json" $files --train --steps 8 --lr 1e25 --every 1
	err_has 'first not finite: matmul of q (fc2)'
}

# No room for a checkpoint: the last one stays, nothing else.
cp -r "$work/calm" "$work/full"
if (
	ulimit -f 16
	"$build/fp8shard-run" "$work/words.json" --resume "$work/full" --train --data "$work/words.bin" --tokens u8 --steps 122 \
		--checkpoint "$work/full" >/dev/null 2>"$work/.err"
); then fail 'a checkpoint on a full disk'; else pass; fi
err_has 'cannot be written'
same_state "$work/calm/step-00000120" "$work/full/step-00000120"
no_file "$work/full/step-00000122"
if [ "$(find "$work/full" -mindepth 1 -maxdepth 1 | wc -l)" -eq 1 ]; then pass; else fail "left: $(ls -a "$work/full")"; fi

# Checkpoints that are none, or another's.
resume() {
	run 1 "$work/one.json" --train --data $data/data.safetensors --steps 8 --resume "$1"
}
mkdir -p "$work/empty"
resume "$work/empty"
err "$work/empty: there is no checkpoint in it"
resume "$work/absent"
err_has "$work/absent: "
cp -r "$work/third" "$work/short"
head -c 300 "$work/third/model-00002-of-00002.safetensors" >"$work/short/model-00002-of-00002.safetensors"
resume "$work/short"
err_has "$work/short/model-00002-of-00002.safetensors: "
head -c 100 "$work/third/model.safetensors.index.json" >"$work/short/model.safetensors.index.json"
resume "$work/short"
err_has 'the checkpoint is damaged'
rm "$work/short/model-00001-of-00002.safetensors"
cp "$work/third/model.safetensors.index.json" "$work/short/"
resume "$work/short"
err_has "$work/short/model-00001-of-00002.safetensors: "
run 1 "$work/lonely.json" --train --data "$work/words.bin" --tokens u8 --steps 8 --resume "$work/third"
err "$work/third: a checkpoint of another model or optimizer: the plan's 'embed.weight' is not in it"
# shellcheck disable=SC2086
{
	compile adamw $data/mlp.ir $mlp --optimizer adamw
	run 1 "$work/adamw.json" --train --data $data/data.safetensors --steps 8 --resume "$work/third"
	err_has "a checkpoint of another model or optimizer: the plan's 'optimizer."
	compile sgd $data/mlp.ir $mlp --optimizer sgd
	run 1 "$work/sgd.json" --train --data $data/data.safetensors --steps 8 --resume "$work/third"
	err_has "a checkpoint of another model or optimizer: the plan has no 'optimizer.momentum_buffer."
}
run 1 "$work/lonely.json" --train --data "$work/words.bin" --tokens u8 --steps 200 --seed 8 --resume "$work/calm"
err "--seed 8: the checkpoint's is 7; without --seed it goes on with that"
