# explain: every collective of every case of tests/suite has a cause that can be checked, and a next best.
#
# A cause is the graph's placement of a name that has one in the case, or what an op or a recipe needs; nothing in
# these cases comes from the command line.  On one axis no plan without a move is cheaper.
explained() {
	awk -v case="$1" -v moves="$2" '
		BEGIN { while ((getline line < case) > 0) if (line ~ /"placement"/) { split(line, part, "\""); placed[part[2]] = 1 } }
		function bad(what) { print id ": " what; wrong = 1 }
		/^%/ { if (id != "" && !(cause && next_best)) bad("no cause or no next best"); id = $1; count++; cause = next_best = 0 }
		/^  cause/ {
			cause = 1
			if (/: the graph.s own placement$/) { if (!($2 in placed)) bad($2 " has no placement in the graph") }
			else if (!/ takes no \(.*\) here$/ && !/: its fp8 recipe: one scale for all shards$/) bad("cause: " $0)
		}
		/^  next best/ {
			next_best = 1
			if (/not known/) bad($0)
			if (/ bytes, -[0-9]/) bad("cheaper: " $0)
		}
		/unknown/ { bad($0) }
		END { if (id != "" && !(cause && next_best)) bad("no cause or no next best")
			if (count + 0 != moves) bad(count " collectives, not " moves)
			exit wrong }' "$work/.out" || fail "$1"
}
grep -v '^#' tests/suite/table.txt | while read -r name recipe _; do echo "$name $recipe"; done >"$work/cases"
while read -r name recipe; do
	[ -n "$name" ] || continue
	run 0 compile "tests/suite/$name.json" -o "$work/p.json" --fp8 "$recipe"
	run 0 show --json "$work/p.json"
	moves=$(grep -c '{"op":' "$work/.out")
	run 0 explain "$work/p.json"
	explained "tests/suite/$name.json" "$moves"
done <"$work/cases"
[ "$(wc -l <"$work/cases")" -gt 40 ] && pass || fail "the cases of tests/suite"

# All of what explain says, without the title, is as written below.
says() {
	cat >"$work/.want"
	if diff "$work/.want" "$work/.out"; then pass; else fail "what it says"; fi
}

# By hand.  x is 4096 x 4096 in bf16, of which each of 8 ranks sends 7/8: 29360128 bytes, 10 us + bytes / 360 GB/s.
# Without it: w1 is gathered (4 times that), and a, sharded on rows now, goes to columns for w2 by an all_to_all
# (134217728 * 7/64 = 14680064 bytes); 102760448 bytes more in all, and one latency.
run 0 compile tests/suite/02a_mlp_sp_s0.json -o "$work/p.json"
run 0 explain "$work/p.json" all_gather
says <<'WANT'
%4 all_gather of x: bf16[4096,4096] (tp:S(0)) -> (tp:R)
  sends      29360128 bytes, 91.56 us, among 8 ranks, in each step
  made by    x: input (tp:S(0))
    pinned   x (tp:S(0)): the graph's own placement
  taken by   h: matmul mk,kn->mn splits n: x (tp:R), w1 (tp:S(1)) -> (tp:S(1))
    pinned   w1 (tp:S(1)): the graph's own placement
  cause      w1 (tp:S(1)): the graph's own placement
  next best  without x as (tp:R): +102760448 bytes, +295.45 us; instead all_gather of w1 (tp:S(1)) -> (tp:R), all_to_all of a (tp:S(0)) -> (tp:S(1))
WANT

# An output that --place wants whole: y is summed over 2 ranks, 2 * 1/2 * 64 * 32 * 2 = 4096 bytes.  The weights have
# styles and may not be gathered, so y is a partial sum whatever else is done.
run 0 compile "$work/mlp.json" -o "$work/r.json" --mesh tp=2 --plan 'fc1=colwise' --plan 'fc2=rowwise' --place 'y=tp:R'
run 0 explain "$work/r.json" y
says <<'WANT'
%7 all_reduce of y @ fc2: bf16[64,32] (tp:P(sum)) -> (tp:R)
  sends      4096 bytes, 10.01 us, among 2 ranks, in each step
  made by    y @ fc2: matmul mk,nk->mn splits k: a (tp:S(1)), fc2.weight (tp:S(1)) -> (tp:P(sum))
    pinned   fc2.weight (tp:S(1)): --plan 'fc2=rowwise'
    pinned   fc1.weight (tp:S(0)): --plan 'fc1=colwise'
  taken by   y: output (tp:R)
    pinned   y (tp:R): --place 'y=tp:R'
  cause      y (tp:R): --place 'y=tp:R'
  next best  forced: no placement does without y as (tp:R)
WANT

# Two heads of keys for 8 ranks: q is split by heads (wq), so keys are whole; wk, 128 x 512, is gathered in setup.
# Without it k, 8192 x 128, is: 1835008 bytes, 4.78 us more; but each rank does 1/8 of its product, which takes the
# memory's 3 TB/s for 7/8 of wk and k: 0.65 us less.
run 0 compile tests/suite/35_few_key_heads.json -o "$work/p.json"
run 0 explain "$work/p.json" wk
says <<'WANT'
%7 all_gather of wk: bf16[128,512] (tp:S(0)) -> (tp:R)
  sends      114688 bytes, 10.32 us, among 8 ranks, in setup
  made by    wk: param (tp:S(0))
    pinned   wk (tp:S(0)): the graph's own placement
  taken by   k: matmul mk,nk->mn: x (tp:R), wk (tp:R) -> (tp:R)
    pinned   wq (tp:S(0)): the graph's own placement
  cause      wq (tp:S(0)): the graph's own placement
  next best  without wk as (tp:R): +1720320 bytes, +4.13 us; instead all_gather of k (tp:S(1)) -> (tp:R)
WANT

# A vocabulary in shards: e is a partial sum, and the norm takes none.  Its scatter and the gather behind the norm send
# what one all_reduce sends, with one latency more; but the norm and the product with its weight, 2 x 33.5 MB
# each, would be done by every rank: 2 * 7/8 * 67.1 MB at 3 TB/s is 39.15 us.
run 0 compile tests/suite/12a_vocab.json -o "$work/p.json"
run 0 explain "$work/p.json" reduce_scatter
out_has 'cause      emb (tp:S(0)): the graph'"'"'s own placement'
out_has 'next best  without e as (tp:S(0)): +0 bytes, +29.15 us; instead all_reduce of e (tp:P(sum)) -> (tp:R)'

# What is asked about: a number, a kind, names, modules, patterns; a value that nothing moves; one that is none.
for about in %7 7 all_reduce y fc2 '*'; do
	run 0 explain "$work/r.json" "$about"
	out_has '%7 all_reduce of y @ fc2'
done
run 0 explain "$work/r.json" fc1.weight
out_has 'fc1.weight is made as (tp:S(0)); no collective moves it'
run 0 explain --json "$work/r.json" fc1.weight
out_has '"collectives": []'
run 1 explain "$work/r.json" fc3.weight
err "explain: 'fc3.weight' is no value, module or collective of the plan; nearest: 'fc1.weight', 'fc2.weight', 'fc1'"
run 0 compile "$work/mlp.json" -o "$work/one.json"
run 0 explain "$work/one.json"
out_has '0 collectives: 0 bytes, 0.00 us'
run 0 explain --json "$work/r.json"
out_has '"rule": "--place '"'"'y=tp:R'"'"'"'
out_has '"kind": "forced"'

# Rules of a file, axis by axis; an axis that no rule speaks of.
run 0 compile "$work/mlp.json" -o "$work/p.json" --mesh dp=2,tp=2 --plan "$work/tp.json" --place '*.weight=dp:S(1)' --place 'x=dp:S(0)'
run 0 explain "$work/p.json" fc1.weight
out_has "pinned   fc1.weight (dp:S(1)): --place '*.weight=dp:S(1)'"
out_has "pinned   x (dp:S(0)): --place 'x=dp:S(0)'"
run 0 explain "$work/p.json" y
out_has "pinned   fc2.weight (tp:S(1)): --plan $work/tp.json 'fc2=rowwise'"

# The plan alone says the cause; the next best needs the model as it was.
cp "$work/mlp.json" "$work/moved.json"
run 0 compile "$work/moved.json" -o "$work/p.json" --mesh tp=2 --plan 'fc1=colwise' --plan 'fc2=rowwise' --place 'y=tp:R'
rm "$work/moved.json"
run 0 explain "$work/p.json"
out_has "cause      y (tp:R): --place 'y=tp:R'"
out_has "next best  not known here: $work/moved.json: cannot be opened"
sed 's/\[64, 32\]/[32, 32]/' "$work/mlp.json" >"$work/moved.json"
run 0 explain "$work/p.json"
out_has "next best  not known here: $work/moved.json, compiled now, gives other collectives: compile it again"
sed 's/"op": "/"op": "no_/' "$work/mlp.json" >"$work/moved.json"
run 0 explain "$work/p.json"
out_has "next best  not known here: $work/moved.json: node 'h': unknown op 'no_"

# --diff: what is the same, what is not.
run 0 explain --diff "$work/r.json" "$work/r.json"
out_has 'the same collectives'
run 0 compile "$work/mlp.json" -o "$work/s.json" --mesh tp=2 --plan 'fc1=colwise' --plan 'fc2=rowwise' --place 'y=tp:S(0)' --place 'x=tp:S(0)'
run 0 explain --diff "$work/r.json" "$work/s.json"
says <<WANT
- $work/r.json
+ $work/s.json
- y @ fc2: all_reduce bf16[64,32] (tp:P(sum)) -> (tp:R), 4096 bytes, 10.01 us
+ y @ fc2: reduce_scatter bf16[64,32] (tp:P(sum)) -> (tp:S(0)), 2048 bytes, 10.01 us
+ x: all_gather bf16[64,32] (tp:S(0)) -> (tp:R), 2048 bytes, 10.01 us
$work/r.json: 1 collective, 4096 bytes, 10.01 us
$work/s.json: 2 collectives, 4096 bytes, 20.01 us
WANT
run 0 explain --diff --json "$work/r.json" "$work/s.json"
out_has '"kind": "only in b"'
out_has '"kind": "differ"'
out_has '"same": false'
run 1 explain --diff "$work/r.json"
err_has 'explain needs two plans after --diff'
run 1 explain "$work/r.json" y z
err_has "'z' is one argument too many"
run 1 explain "$work/mlp.json"
err_has 'not a plan'
