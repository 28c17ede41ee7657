# A disk of another NUMA node is named by topo and doctor where fathom may run on no CPU of that node, and only there.
# kernels: 7
# machine: nvme=2 lba=512 disk=64 roots=2 nodes=2
# when: all
near= far=
for number in 0 1; do
    node=$(cat "/sys/class/nvme/$(controller $number)/device/numa_node")
    [ "$node" = 1 ] && far=$(disk $number) || near=$(disk $number)
done
check "one disk is on each node" [ -n "$near" -a -n "$far" ]
remote="[.findings[] | select(.rule == \"remote-disk\")]"
fathom topo --json >all.json
is all.json "$remote | length" 0
taskset -c 0 fathom topo --json >one.json
is one.json "$remote | length" 1
is one.json "$remote | .[0].summary | contains(\"${far#/dev/}\")" true
for disk in "$near" "$far"; do
    taskset -c 0 fathom doctor --json "$disk" >"doctor.${disk#/dev/}" || true
done
says "doctor.${far#/dev/}" '"numa-local"'
is "doctor.${near#/dev/}" '[.. | .rule? | select(. == "numa-local")] | length' 0
keep all.json one.json doctor.*
