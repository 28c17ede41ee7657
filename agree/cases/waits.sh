# Time that a program waits for its disk, and means of its system calls: bpftrace.
needs fio fio
filled filled 64m

# waits NAME ARG…: fio with these, one I/O at a time.
waits() {
    name=$1
    shift
    starts fio --output=/dev/null --name=a --ioengine=psync --bs=4k --thread --size=64m --time_based --runtime=3600 \
        --filename=filled "$@"
    pid=$(tail -n 1 background.pids)
    sleep 1
    calls=
    for call in pread64 pwrite64 fsync; do
        calls+="
            tracepoint:syscalls:sys_enter_$call /pid == $pid/ { @at[tid] = nsecs; }
            tracepoint:syscalls:sys_exit_$call /@at[tid]/ {
                @took[\"$call\"] = sum(nsecs - @at[tid]);
                @calls[\"$call\"] = count();
                delete(@at[tid]);
            }"
    done
    rm -rf record
    # Longer than the other, which begins later.
    "$FATHOM" watch --json --record=record -t "$((TIME + 3))s" -p "$pid" >watch.json &
    ours=$!
    sampling $ours
    traces "$calls"'
        tracepoint:sched:sched_switch /pid == '"$pid"' && (args->prev_state & 2)/ { @slept[args->prev_pid] = nsecs; }
        tracepoint:sched:sched_wakeup /@slept[args->pid]/ {
            @disk["all"] = sum(nsecs - @slept[args->pid]);
            delete(@slept[args->pid]);
        }
        interval:s:'"$TIME"' { print(@disk); print(@took); print(@calls); exit(); }'
    wait $! $ours
    ends
    share=$(jq -s '[.[1:][].machine.threads | values] |
        ([.[].times[]? | select(.state == "disk" or .state == "flush") | .ns] | add // 0) / ([.[].elapsed_ns] | add)' \
        record/samples.ndjson)
    theirs=$(traced disk | jq --argjson t "$TIME" '.all / 1e9 / $t')
    row "$name: waits for the disk" "$share" "$theirs" 0.05
    jq -rs --arg name "$name" --argjson took "$(traced took)" --argjson count "$(traced calls)" '
        [.[].machine.calls | values] | last | .calls[] | select($count[.call]) |
        ([.latency.buckets[][1]] | add) as $n | select($n > 0) |
        ["\($name): \(.call), mean µs of \($n) sampled", .latency.sum_ns / $n / 1e3,
            $took[.call] / $count[.call] / 1e3, 0, 10] | @tsv' record/samples.ndjson
}
waits "psync reads" --rw=randread --direct=1
waits "writes with fsync" --rw=randwrite --fsync=1 --overwrite=1
