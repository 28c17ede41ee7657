# Time of requests at the driver, of direct reads and of writes with fsync: perf record.
needs fio fio && needs perf linux-perf
filled filled 256m
starts fio --output=/dev/null --bs=4k --time_based --runtime=3600 --thread \
    --name=reads --ioengine=psync --rw=randread --direct=1 --filename=filled \
    --name=syncs --ioengine=psync --rw=randwrite --fsync=4 --size=64m --filename=written
# Some kernels report no completions on idle CPUs.
for _ in $(seq "$(nproc)"); do starts nice -n 19 sh -c 'while :; do :; done'; done
sleep 1
devices=$(awk '$4 + $8 > 0 { print $3 }' /proc/diskstats)
devices=$(for name in $devices; do [ ! -e "/sys/block/$name" ] || echo "$name"; done)
"$FATHOM" blocks --json --no-record -t "$((TIME + 1))s" $devices >blocks.json &
ours=$!
sampling $ours
tracing perf record -q -a -m 4M -e block:block_rq_issue,block:block_rq_complete -o perf.data sleep "$TIME"
wait $ours

# Pairs by device and sector, as milliseconds by operation. A flush has sector 0 when it is issued, and the highest number
# when it completes.
tracing perf script -F time,event,trace -i perf.data 2>/dev/null | awk '
    match($0, /block_rq_(issue|complete): /) {
        kind = substr($0, RSTART + 9, 1)
        split(substr($0, RSTART + RLENGTH), word, " ")
        op = word[2] ~ /W/ ? "write" : word[2] ~ /R/ ? "read" : word[2] ~ /F/ ? "flush" : ""
        for (at = 3; word[at] != "" && word[at] != "+"; at++);
        place = word[1] " " (op == "flush" ? "flush" : word[at - 1])
        if (op == "") next
        if (kind == "i") issued[place] = $1
        else if (place in issued) {
            print "{\"op\":\"" op "\",\"us\":" ($1 - issued[place]) * 1e6 "}"
            delete issued[place]
        }
    }' >perf.json
jq -rn --slurpfile perf perf.json --slurpfile blocks blocks.json '
    def median: sort_by(.[0]) | ([.[][1]] | add / 2) as $half |
        reduce .[] as $of ([0, null]; if .[1] then . elif .[0] + $of[1] >= $half then [.[0], $of[0]] else .[0] += $of[1] end) | .[1];
    ("read", "write", "flush") as $op |
    [$blocks[-1].devices[].ops[]? | select(.op == $op) | .driver | select(.buckets | length > 0)] as $ours |
    [$ours[].buckets[]] as $buckets | ([$buckets[][1]] | add // 0) as $n | select($n > 0) |
    [$perf[] | select(.op == $op) | .us] as $theirs | select($theirs | length > 0) |
    ["\($op)s, p50 µs of \($n) sampled", ($buckets | median) / 1e3, ($theirs | sort | .[length / 2 | floor]), 0, 10],
    ["\($op)s, mean µs", ([$ours[].sum_ns] | add) / $n / 1e3, ($theirs | add / length), 0, 10] | @tsv'
