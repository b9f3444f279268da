#!/bin/sh
# The sweep of the shipped kernels, then the three architectures, for a GPU that is lent for minutes:
#     sh benchmarks/kernels/sweep_and_models.sh OUT SWEEP_SECONDS MODELS_SECONDS [OPTIONS OF THE SWEEP]
# Rows go to OUT/sweep.tgz (a document for each kernel), lines to OUT/models.jsonl; their tables are printed. Begins
# nothing after its seconds.
out=$1 sweep=$2 models=$3
shift 3
mkdir -p "$out/sweep"
timeout -k 5 $((sweep + 25)) python3 -m agent.cli kernels bench --all --sweep --to "$out/sweep" --seconds "$sweep" "$@" \
    > "$out/sweep.txt" 2> "$out/sweep.err"
tar czf "$out/sweep.tgz" -C "$out" sweep
rm -r "$out/sweep"
timeout -k 5 $((models + 15)) python3 -m benchmarks.kernels.models run --out "$out/models.jsonl" --seconds "$models" \
    > "$out/models.txt" 2> "$out/models.err"
tail -n 45 "$out/sweep.txt"
python3 -m benchmarks.kernels.models table --out "$out/models.jsonl"
tail -n 5 "$out/sweep.err" "$out/models.err"
