# CPU time per I/O of runs: the scheduler's statistics of fathom's threads.
filled filled 256m

# costs NAME ARG…: a run with these.
costs() {
    name=$1
    shift
    rm -rf record
    "$FATHOM" run --sampling=off --name=j --rw=randread --bs=4k --direct=1 --time_based --runtime="$TIME" --filename=filled \
        --record=record "$@" >/dev/null &
    local -A ran=()
    while kill -0 $! 2>/dev/null; do
        for task in /proc/$!/task/*; do
            read -r ns _ 2>/dev/null <"$task/schedstat" && ran[$task]=$ns || :
        done
        sleep 0.02
    done
    wait $!
    jq -r --arg name "$name" --arg ran "${ran[*]}" '
        ([.jobs[].dirs[].counts.ios] | add) as $ios |
        ["\($name): CPU µs per I/O", ([.jobs[].usage | .user_ns + .system_ns + .helper_ns] | add) / $ios / 1e3,
            ([$ran / " " | .[] | tonumber] | add) / $ios / 1e3, 0, 10] | @tsv' record/record.json
}
costs psync --ioengine=psync
costs "io_uring, QD32" --ioengine=io_uring --iodepth=32
costs "io-wq (force_async)" --ioengine=io_uring --iodepth=8 --force_async=1
