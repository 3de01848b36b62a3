#!/usr/bin/env bash
# Runs every model in every configuration and prints a table. It fails when the
# protocol is violated, and when a wrong design is not: then the model has rotted
# and proves nothing. Needs spin and a C compiler; about a minute on two cores.
#
# ONLY=approval models/check.sh runs one model. JOBS=4 runs four at a time.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

for tool in spin gcc; do
	if ! command -v "$tool" >/dev/null; then
		echo "models/check.sh: $tool is missing. Debian: apt-get install spin gcc" >&2
		exit 1
	fi
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Wanted verdict, model, what is checked, configuration. A claim is the name of an
# ltl formula; "complete" asks whether every event has its row when nothing is left to do.
cases() {
	grep -v '^#' <<-'CASES' | grep "^[A-Z]* *${ONLY:-.}"
		SAFE     journal  inv
		VIOLATED journal  inv  -DNOBASE
		VIOLATED journal  inv  -DSTALECHECK
		SAFE     approval inv
		VIOLATED approval inv  -DCONSUMEAFTER
		VIOLATED approval inv  -DCONSUMEBEFORE
		VIOLATED approval inv  -DNODIGEST
		VIOLATED approval inv  -DSTALECHECK
		VIOLATED approval inv  -DREUSE
		SAFE     effect   inv
		SAFE     effect   inv  -DRESOLVER
		SAFE     effect   inv  -DPROVIDER
		SAFE     effect   inv  -DPROVIDER -DRESOLVER
		# For one opaque row the row's state is the fence; with a key that the provider never forgets, Begin is for the record.
		SAFE     effect   inv  -DNOFENCE
		SAFE     effect   inv  -DRESOLVER -DNOFENCE
		SAFE     effect   inv  -DPROVIDER -DNOBEGIN
		VIOLATED effect   inv  -DREREAD
		VIOLATED effect   inv  -DREEXEC
		VIOLATED effect   inv  -DEXPIRE
		VIOLATED effect   inv  -DLOSSYBEGIN
		VIOLATED effect   inv  -DRECFIRST
		VIOLATED effect   inv  -DNOBEGIN
		VIOLATED effect   inv  -DTIMEOUTISFAIL
		VIOLATED effect   inv  -DRESOLVER -DEARLYPROBE
		VIOLATED effect   inv  -DRESOLVER -DTOKENBLIND
		VIOLATED effect   inv  -DPROVIDER -DERRISFAIL
		VIOLATED effect   inv  -DPROVIDER -DKEYTTL
		VIOLATED effect   inv  -DPROVIDER -DLOSSYBEGIN
		VIOLATED effect   inv  -DPROVIDER -DNOFENCE
		VIOLATED effect   inv  -DPROVIDER -DRECFIRST
		VIOLATED effect   inv  -DRESOLVER -DPROVIDER -DKEYTTL
		SAFE     fork     inv
		SAFE     fork     inv  -DNOFENCE
		SAFE     fork     inv  -DNOSEQ
		VIOLATED fork     inv  -DNOFENCE -DNOSEQ
		SAFE     ledger   once -DNOQ
		VIOLATED ledger   once -DNOQ -DNODEDUP
		SAFE     ledger   complete
		SAFE     ledger   complete -DSYNCALWAYS
		SAFE     ledger   complete -DTRUSTACK -DSYNCALWAYS
		VIOLATED ledger   complete -DTRUSTACK
		VIOLATED ledger   complete -DACKFIRST -DTRUSTACK -DSYNCALWAYS
	CASES
}

# check NUMBER WANT MODEL CLAIM FLAG…: one line to standard output; the last word is what came of it.
check() {
	local dir=$work/$1 want=$2 model=$3 claim=$4
	shift 4
	local pan=(-m1000000 -w20 -E) cc=(-O0 -DNOREDUCE) spin=("$@")
	case $claim in
	complete) spin+=(-noclaim) cc+=(-DNOCLAIM) ;;
	*) pan+=(-N "$claim") ;;
	esac
	if [ "$model" = journal ]; then # ten million states; [] p survives partial-order reduction
		pan=(-m1000000 -w24 -E -N "$claim") cc=(-O2)
	fi
	mkdir "$dir"
	cp "$model.pml" "$dir/m.pml"
	(
		cd "$dir"
		spin "${spin[@]}" -a m.pml >out 2>&1
		gcc "${cc[@]}" -DSAFETY -w -o pan pan.c >>out 2>&1
		./pan "${pan[@]}" >>out 2>&1
	) || true # a violation is no error of pan; a model that does not compile has no verdict
	local got=BROKEN states
	states=$(sed -n 's/^ *\([0-9]*\) states, stored.*/\1/p' "$dir/out")
	if grep -q 'errors: 0' "$dir/out"; then
		got=SAFE
	elif grep -q 'errors: [1-9]' "$dir/out"; then
		got=VIOLATED
	fi
	if grep -q 'max search depth too small\|out of memory' "$dir/out"; then got=CUT; fi
	local verdict=ok
	if [ "$got" != "$want" ]; then verdict=FAILED; fi
	printf '%-9s %-8s %-9s %-34s %9s states  %s\n' "$got" "$model" "$claim" "$*" "${states:-?}" "$verdict"
	if [ $verdict = FAILED ]; then
		echo "  wanted $want: $(tail -3 "$dir/out" | tr '\n' ' ')" >&2
	fi
	rm -rf "$dir"
}
export -f check
export work

cases >"$work/cases"
if ! [ -s "$work/cases" ]; then
	echo "models/check.sh: no model is called ${ONLY:-}" >&2
	exit 1
fi
nl -ba -w1 -s' ' "$work/cases" | xargs -P "${JOBS:-2}" -L 1 bash -c 'check "$@"' check | tee "$work/table"
ran=$(grep -c 'states' "$work/table")
wanted=$(wc -l <"$work/cases")
if grep -q 'FAILED$' "$work/table" || [ "$ran" != "$wanted" ]; then
	echo "models: $(grep -c 'ok$' "$work/table") of $wanted configurations are as they must be" >&2
	exit 1
fi
echo "models: all $wanted configurations are as they must be"
