# Limits of a cgroup are reported, how often they were hit, and reclaim by buffered reads beyond its memory limit.
# kernels: 6.1 7
# when: all
echo "+memory +cpu +io" >/sys/fs/cgroup/cgroup.subtree_control
group=/sys/fs/cgroup/labwatch
mkdir $group
disk=$(disk 2)
echo 32M >$group/memory.max
echo 60000 100000 >$group/cpu.max
echo "$(cat "/sys/block/${disk#/dev/}/dev") riops=100000" >$group/io.max

# The group is entered while the command is watched already.
fathom watch -i 500ms --record seen -- sh -c 'echo $$ >/sys/fs/cgroup/labwatch/cgroup.procs; exec "$@"' within \
    fathom run --name=job --filename="$disk" --rw=read --bs=128k --iodepth=4 --size=80m --no-record --sampling=off \
    --output-format=json >out
is out .jobs[0].read.io_bytes 83886080
jq -s 'last.machine.system' seen/samples.ndjson >last
is last '.cgroup | [.path, .cpu_limit, .memory_limit, .io_limits[]] | tojson' \
    "[\"/labwatch\",0.6,33554432,\"/labwatch ${disk#/dev/} riops=100000\"]"
stat() { awk -v key="$2" '$1 == key { print $2 }' "$group/$1"; }
check "it was throttled" [ "$(stat cpu.stat nr_throttled)" -gt 0 ]
# The period in which the command ended may be counted after the last sample.
late() { echo $(($(stat cpu.stat "$1") - $(jq ".cgroup.$2" last))); }
periods=$(late nr_throttled throttled_periods) us=$(late throttled_usec throttled_us)
check "how often is seen, but for $periods" [ "$periods" -ge 0 -a "$periods" -le 1 ]
check "and for how long, but for $us us of one period" [ "${us#-}" -le 100000 ]
check "its memory was full" [ "$(stat memory.events max)" -gt 0 ]
is last .cgroup.memory_hits "$(stat memory.events max)"

# 48 MiB are 12288 pages, and what it needs for itself.
freed=$(stat memory.stat pgsteal)
check "pages were reclaimed ($freed)" [ "$freed" -ge 12288 ]
grown() { jq -s "map(.machine.system.paging.$1) | last - first" seen/samples.ndjson; }
check "they are seen as freed" [ "$(grown steal_file)" -ge "$freed" ]
check "and as looked at" [ "$(grown scan_file)" -ge "$(grown steal_file)" ]
check "and as read" [ "$(grown in_kib)" -ge 81920 ]
fathom top --replay seen --json >lines
check "reclaim is a layer" [ "$(jq -s "[.[].layers.layers[]? | select(.layer == \"reclaim\").samples] | add" lines)" -gt 0 ]
keep seen
