# Settings are restored even if fathom is killed at any moment while it changes them.
# kernels: 7 6.1
# modules: null_blk
node=$(null_blk one)
queue=/sys/block/${node#/dev/}/queue
echo mq-deadline >"$queue/scheduler"
echo 64 >"$queue/nr_requests"
echo 321 >"$queue/iosched/read_expire"
echo 0 >"$queue/rq_affinity"
echo 0 >"$queue/iostats"
# From 6.12 on, a change of iostats raises it.
echo 0 >"$queue/read_ahead_kb"
state() { (set +x; cd "$queue"; cat scheduler nr_requests iosched/read_expire read_ahead_kb rq_affinity iostats); }
before=$(state)

# Once without a kill: all of it is changed, and restored with what the scheduler reset.
expect 0 fathom doctor --fix --yes "$node"
check "the scheduler is changed" [ "$(sed 's/.*\[//; s/\].*//' "$queue/scheduler")" = none ]
check "statistics are on" [ "$(cat "$queue/iostats")" = 1 ]
expect 0 fathom restore --list
says out "scheduler of ${node#/dev/}=none"
expect 0 fathom restore
check "everything is as before" [ "$(state)" = "$before" ]
expect 0 fathom restore
says out "no settings are changed"

for round in $(seq 24); do
    fathom doctor --fix --yes "$node" >fixed 2>&1 &
    usleep $((round * 15000))
    kill -9 $! || true
    wait $! || true
    # Interrupted changes are restored by the next command, those to keep on request.
    fathom restore >restored 2>&1
    check "round $round: everything is as before" [ "$(state)" = "$before" ]
done

# Changes by other programs meanwhile are kept.
expect 0 fathom doctor --fix --yes "$node"
echo 256 >"$queue/read_ahead_kb"
expect 0 fathom restore
says out "read_ahead_kb of ${node#/dev/} was changed by another program to 256"
check "it is left alone" [ "$(cat "$queue/read_ahead_kb")" = 256 ]
nothing_left
