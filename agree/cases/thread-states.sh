# Time on a CPU or runnable of threads that sleep for different times, computing for a quarter of it: bpftrace.
names=
for us in 20 200 2000 20000 100000; do
    starts perl -MTime::HiRes=time,usleep -e '
        my $us = shift;
        $0 = "every-${us}us";
        while (1) {
            my $until = time + $us / 4e6;
            1 while time < $until;
            usleep $us;
        }' $us
    names+=" every-${us}us"
done
sleep 0.5
# Longer than the other, which begins later.
"$FATHOM" threads --json --no-record -t "$((TIME + 3))s" -g comm2,state -n 1000 -p "$(paste -sd, background.pids)" \
    >threads.json &
ours=$!
sampling $ours
# From being woken to going to sleep, it runs, or waits for a CPU.
traces '
    tracepoint:sched:sched_wakeup /strncmp(args->comm, "every-", 6) == 0/ { @woken[args->pid] = nsecs; }
    tracepoint:sched:sched_switch
    /strncmp(args->prev_comm, "every-", 6) == 0 && (args->prev_state & 0xff) && @woken[args->prev_pid]/ {
        @ran[args->prev_comm] = sum(nsecs - @woken[args->prev_pid]);
        delete(@woken[args->prev_pid]);
    }
    interval:s:'"$TIME"' { print(@ran); clear(@ran); exit(); }'
wait $! $ours
for name in $names; do
    ours=$(jq --arg name "$name" '[.groups[] | select(.comm2 == $name and (.state | . == "R" or . == "Q")) | .average] |
        add // 0' threads.json)
    theirs=$(traced ran | jq --arg name "$name" --argjson t "$TIME" '(.[$name] // 0) / 1e9 / $t')
    row "$name: on CPU or runnable" "$ours" "$theirs" 0.05
done
