# cause: Reads of a sparse file while six other programs compute on the CPUs.
# expect: other-cpu
# runs: fathom
prepare() {
    truncate -s 1g data
    for _ in 1 2 3 4 5 6; do starts sh -c 'while :; do :; done'; done
}
program() { run --ioengine=psync --direct=1; }
clean() { ends; }
