#!/bin/bash
# Everything on the results page, measured on many cores at once: one process a core, pinned to it, one thread each.
#
#     benchmarks/full_run.sh CORES RESULTS SECONDS
#
# CORES    how many processes at once, on cores 0, 1, … (leave one free for the system)
# RESULTS  folder for results; what is there already is not run again
# SECONDS  all in all; what runs then is ended, what has run is kept, and the same command goes on from there
#
# Within a process solvers take turns, start by start, as in `quartic paper`; what runs beside it on other cores shares
# the memory bus with it, for all solvers alike. Needs Python (PYTHON=python3) with NumPy, SciPy and numba, and the data
# (QUARTIC_DATA). The tables and figures are made afterwards, anywhere: `quartic paper table1 --patience 5 --results
# RESULTS` and so on print what is there and run what is missing; `quartic bench page` runs nothing.
set -u
cores=${1:?how many cores} results=${2:?folder for results} seconds=${3:?seconds all in all}
here=$(cd "$(dirname "$0")/.." && pwd)
export PYTHON=${PYTHON:-python3} PYTHONPATH=$here/src${PYTHONPATH:+:$PYTHONPATH} RESULTS=$results CELLS=$here/benchmarks/symnmf_cells.py
export OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 NUMBA_NUM_THREADS=1
export DEADLINE=$(($(date +%s) + seconds)) PATIENCE=${PATIENCE:-5} QUARTIC_PROCESSES=$cores
# graphs that are built, and compiled code, once for all processes
export XDG_CACHE_HOME=${XDG_CACHE_HOME:-${TMPDIR:-/tmp}/quartic-full-run-$UID}
export NUMBA_CACHE_DIR=${NUMBA_CACHE_DIR:-$XDG_CACHE_HOME/numba}
if [ -z "${QUARTIC_COMMIT:-}" ] && commit=$(git -C "$here" rev-parse --short HEAD 2>/dev/null); then
    [ -z "$(git -C "$here" status --porcelain -- src)" ] || commit+=+
    export QUARTIC_COMMIT=$commit
fi
mkdir -p "$results/logs"

job() { # one line of the queue, on the core of its slot
    left=$((DEADLINE - $(date +%s)))
    [ $left -gt 5 ] || exit 0
    began=$(date +%s)
    # shellcheck disable=SC2086
    timeout --kill-after=3 $left taskset -c "$SLOT" $PYTHON $1 >> "$RESULTS/logs/core-$SLOT.txt" 2>&1
    code=$?
    echo "$(($(date +%s) - began)) s, exit $code: $1" >> "$RESULTS/logs/jobs.txt"
}
export -f job

queue() { # longest first; what others wait for before them
    local bench="-m quartic.bench" table="-m quartic.bench table1 --patience $PATIENCE" o="-o $RESULTS"
    local large="tdt2:40 tdt2:30 reuters:40 tdt2:20 reuters:30 tdt2:10 reuters:20 reuters:10" # cells
    local small="cbcl:40 cbcl:30 cbcl:20 coil20:40 cbcl:10 coil20:30 coil20:20 coil20:10"
    local cell solver start
    # penalties
    for cell in $large $small; do
        for solver in anls hals admm; do echo "$table --cell $cell --solver $solver --starts 0 $o"; done
    done
    # figure 2, and auto beside SymHALS with every penalty: while the last penalties are being tuned
    for start in 0 1 2; do
        for helix in 5000:0.1 5000:0.05 2000:0.1 2000:0.05; do
            echo "$bench figure2 --helix $helix --starts 1 --first-start $start $o"
        done
    done
    for cell in $large $small; do
        echo "$CELLS --data ${cell%:*} --ranks ${cell#*:} --measure --results $RESULTS"
    done
    # table 1: the first start tells who is out of the running
    for cell in $large $small; do echo "$table --cell $cell --starts 1 $o"; done
    for start in 1 2 3; do
        for cell in $large $small; do echo "$table --cell $cell --starts 1 --first-start $start $o"; done
    done
    # figure 1
    for start in 0 1 2; do
        for cell in tdt2:30 reuters:30 cbcl:20 coil20:20; do
            echo "$bench figure1 --cell $cell --patience $PATIENCE --seconds 5 --starts 1 --first-start $start $o"
        done
    done
    # peers are of use only beside each other
    if $PYTHON -c "import sklearn, networkx, pymanopt" 2>/dev/null; then
        for cell in tdt2:30 reuters:25 coil20:20; do echo "$bench peers --cell $cell $o"; done
        for helix in 2000:0.1 300:1; do echo "$bench peers --helix $helix $o"; done
    fi
    # the other starts
    for start in 4 5 6 7 8 9; do
        for cell in $large; do echo "$table --cell $cell --starts 1 --first-start $start $o"; done
    done
    for cell in $small; do
        for start in 4 7; do echo "$table --cell $cell --starts 3 --first-start $start $o"; done
    done
    for start in 3 4; do
        for helix in 5000:0.1 5000:0.05 2000:0.1 2000:0.05; do
            echo "$bench figure2 --helix $helix --starts 1 --first-start $start $o"
        done
        for cell in tdt2:30 reuters:30 cbcl:20 coil20:20; do
            echo "$bench figure1 --cell $cell --patience $PATIENCE --seconds 5 --starts 1 --first-start $start $o"
        done
    done
}

if [ "${QUEUE:-}" = show ]; then queue; exit; fi
queue | xargs -d '\n' -P "$cores" -n 1 --process-slot-var=SLOT bash -c 'job "$1"' job
echo "done, $((DEADLINE - $(date +%s))) s left; $(wc -l < "$results/logs/jobs.txt") jobs, \
$(grep -vc 'exit 0:' "$results/logs/jobs.txt") not to their end: $results/logs"
