# The machine's figures under load: iostat, mpstat, vmstat and perf stat.
needs iostat sysstat && needs perf linux-perf

filled filled 128m
zram=$(cat /sys/class/zram-control/hot_add 2>/dev/null || :)
release_zram() {
    [ -n "$zram" ] || return 0
    # udev may have the device open.
    for _ in $(seq 20); do
        if { echo 1 >"/sys/block/zram$zram/reset" && echo "$zram" >/sys/class/zram-control/hot_remove; } 2>/dev/null; then
            return
        fi
        sleep 0.1
    done
    echo "/dev/zram$zram is still in use; release it with zramctl -r" >&2
}
trap 'ends; release_zram' EXIT
if [ -n "$zram" ]; then
    echo 64M >"/sys/block/zram$zram/disksize"
    head -c 64M /dev/urandom >"/dev/zram$zram"
fi
starts bash -c '
    again() { while :; do "$@"; done; }
    again dd if=filled of=/dev/null bs=64k iflag=direct &
    again dd if=filled of=copied bs=128k conv=fsync &
    again nice dd if=/dev/zero of=/dev/null bs=1M count=2000 &
    [ -z "$1" ] || again dd if=/dev/zram$1 of=/dev/null bs=4k iflag=direct &
    wait' bash "$zram"
sleep 2

# perf counts events of all devices.
used=$(awk '$4 + $8 > 0 { print $3 }' /proc/diskstats)
devices=$(for name in $used; do [ ! -e "/sys/block/$name" ] || echo "$name"; done)
events=context-switches,page-faults
for event in bio_queue bio_backmerge bio_frontmerge rq_merge split rq_issue rq_requeue rq_complete unplug; do
    events+=,block:block_$event
done
at_once=()
along() {
    "$@" </dev/null &
    at_once+=($!)
}
along "$FATHOM" top --json -i "${TIME}s" -n 1 >top.json
along "$FATHOM" blocks --json --no-record --sample-every 0 -t "${TIME}s" $devices >blocks.json
for pid in "${at_once[@]}"; do sampling "$pid"; done
along iostat -x -y -p ALL -o JSON "$TIME" 1 >iostat.json
along mpstat -P ALL -u -I SUM,CPU,SCPU -o JSON "$TIME" 1 >mpstat.json
along vmstat -n "$TIME" 2 >vmstat
along tracing perf stat -a -x, -o perf.csv -e "$events" sleep "$TIME"
for pid in "${at_once[@]}"; do wait "$pid"; done

# The third line is since boot.
awk 'NR == 2 { split($0, name) } NR == 4 { for (i in name) print "{\"" name[i] "\":" $i "}" }' vmstat >vmstat.json
awk -F, '$1 ~ /^[0-9]/ { print "{\"" $3 "\":" $1 "}" }' perf.csv >perf.json
jq -rn --argjson t "$TIME" --slurpfile top top.json --slurpfile blocks blocks.json --slurpfile iostat iostat.json \
    --slurpfile mpstat mpstat.json --slurpfile vmstat vmstat.json --slurpfile perf perf.json '
    $top[0].system as $system | ($vmstat | add) as $vmstat | ($perf | add) as $perf |
    $mpstat[0].sysstat.hosts[0].statistics[0] as $mpstat |
    # Ticks of 10 ms, and what iostat prints.
    0.5 as $share | 0.011 as $digits | (2 / $t) as $events |
    (
        $iostat[0].sysstat.hosts[0].statistics[0].disk[] | . as $disk |
        $top[0].disks[] | select(.name == $disk.disk_device) |
        (
            ({r: .read, w: .write, d: .discard} | to_entries[] | .key as $dir | .value | ((.size // 0) / 1024) as $kib |
                ["\($dir)/s", .ios, $events], ["\($dir)kB/s", .bytes / 1024, $events * $kib],
                ["\($dir)rqm/s", .merges, $events], ["\($dir)rqm", .merged, $share],
                ["\($dir)_await", .wait_ms // 0, $digits], ["\($dir)areq-sz", $kib, $digits]),
            ["f/s", .flush.ios, $events], ["f_await", .flush.wait_ms // 0, $digits],
            ["aqu-sz", .queue, $digits], ["util", .util, $share]
        ) | ["iostat \($disk.disk_device) \(.[0])", .[1], $disk[.[0]] // 0, .[2]]
    ),
    (
        $mpstat["cpu-load"][] | .cpu as $cpu | . as $theirs |
        (if $cpu == "all" then $system.cpu else $system.cpus[] | select("\(.cpu)" == $cpu) | .shares end) |
        # mpstat excludes guests from the first two.
        (["usr+guest", .user], ["nice+gnice", .nice], ["sys", .system], ["iowait", .iowait], ["irq", .irq],
            ["soft", .softirq], ["steal", .steal], ["idle", .idle]) |
        ["mpstat cpu \($cpu) \(.[0])", .[1], ([$theirs[.[0] / "+" | .[]] // 0] | add), $share]
    ),
    ["mpstat intr/s", $system.interrupts, $mpstat["sum-interrupts"][0].intr, $events],
    (
        (["individual-interrupts", $system.interrupts_by], ["soft-interrupts", $system.soft_interrupts_by]) |
        .[1] as $ours | $mpstat[.[0]][]? | .cpu as $cpu | .intr[]? | . as $theirs |
        [$ours[] | select(.irq == $theirs.name) | .cpus[] | select("\(.[0])" == $cpu) | .[1]] |
        ["mpstat cpu \($cpu) \($theirs.name)/s", add // 0, $theirs.value, 5 / $t]
    ),
    (
        # It prints whole numbers.
        $system | (["in", .interrupts], ["cs", .context_switches], ["bi", .paging.in_bytes / 1024],
            ["bo", .paging.out_bytes / 1024], ["si", .paging.swap_in], ["so", .paging.swap_out]) |
        ["vmstat \(.[0])", .[1], $vmstat[.[0]], ([$events, 1] | max)]
    ),
    (
        $system | (["context-switches", .context_switches], ["page-faults", .paging.faults]) |
        ["perf \(.[0])/s", .[1], $perf[.[0]] / $t, $events]
    ),
    (
        $blocks[-1] | . as $blocks | def sum(of): [$blocks.devices[] | of] | add;
        (["bio_queue", sum(.queued)], ["bio_backmerge+bio_frontmerge+rq_merge", sum(.merged)], ["split", sum(.split)],
            ["rq_issue", sum(.issued)], ["rq_requeue", sum(.requeued)],
            ["rq_complete", sum(if .bio_based then 0 else .completed end)], ["unplug", ([.unplugs[][1]] | add)]) |
        ([.[0] / "+" | .[] | $perf["block:block_\(.)"]] | add) as $theirs |
        ["perf \(.[0])/s", (.[1] // 0) / $t, $theirs / $t, 5 / $t]
    ) | @tsv' | shown 10
