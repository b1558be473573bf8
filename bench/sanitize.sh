#!/bin/sh
# compute-sanitizer over instrumented kernels: the demo, and the kernels of tests/gpu at their small size.
#   sh bench/sanitize.sh [python]       needs a GPU and CUDA's compute-sanitizer
# Prints every ERROR SUMMARY; exit code 1 if one is not "0 errors" or a program fails.
set -u
PYTHON=${1:-.venv/bin/python}
SANITIZER=${SANITIZER:-compute-sanitizer}
command -v "$SANITIZER" >/dev/null || { echo "no $SANITIZER; it comes with the CUDA toolkit" >&2; exit 2; }
out=$(mktemp -d) && trap 'rm -rf "$out"' EXIT
# Without torch's caching of memory, accesses beyond a tensor are seen.
export PYTORCH_NO_CUDA_MEMORY_CACHING=1
failed=0

run() {
    tool=$1
    shift
    "$SANITIZER" --tool "$tool" --error-exitcode 99 "$PYTHON" "$@" >"$out/log" 2>&1
    code=$?
    summary=$(grep -E 'ERROR SUMMARY|RACECHECK SUMMARY' "$out/log" || echo "no summary; exit code $code")
    echo "$tool, python $*: $summary"
    if [ "$code" -ne 0 ] || ! echo "$summary" | grep -Eq '(ERROR SUMMARY: 0 errors|SUMMARY: 0 hazards)'; then
        failed=1
        tail -n 30 "$out/log" >&2
    fi
}

for tool in memcheck racecheck; do
    run "$tool" -m profscope.demo "$out/trace.json"
    run "$tool" -m pytest -q -p no:cacheprovider -m gpu tests/gpu/test_kernels.py
done
exit $failed
