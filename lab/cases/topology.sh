# `fathom topo` shows each disk at its root complex and port, with the link, payload, interrupts and queues of the kernel.
# kernels: 7
# modules: dm_mod
# byte DEVICE OFFSET: a byte of its configuration space.
byte() { od -An -tu1 -j "$2" -N 1 "/sys/bus/pci/devices/$1/config" | tr -d ' '; }

# payload DEVICE: the max payload size in Device Control of the PCI Express capability.
payload() {
    at=$(byte "$1" 52)
    while [ "$(byte "$1" "$at")" != 16 ]; do at=$(byte "$1" $((at + 1))); done
    echo $((128 << ($(byte "$1" $((at + 8))) >> 5)))
}

# hop NAME: a jq filter for the device of this name.
hop() { echo ".topology.roots[] | recurse(.children[]?) | select(.name == \"$1\")"; }

fathom topo --json >topo.json
complexes=
for number in 0 1 2 3; do
    controller=$(controller $number)
    disk=$(disk $number)
    disk=${disk#/dev/}
    device=$(cat "/sys/class/nvme/$controller/address")
    sys=$(readlink -f "/sys/bus/pci/devices/$device")
    port=$(basename "${sys%/*}")
    complex=$(basename "${sys%/*/*}")
    complexes="$complexes $complex"
    way=".topology.roots[] | select(.name == \"$complex\") | .children[] | select(.name == \"$port\")"
    is topo.json "$way | .kind" root_port
    is topo.json "$way | .children[] | select(.name == \"$device\") | .children[].name" "$controller"
    is topo.json "$(hop "$controller") | .disks | join(\" \")" "$disk"

    for at in "$device" "$port"; do
        [ -e "/sys/bus/pci/devices/$at/current_link_width" ] || continue
        speed=$(cut -d' ' -f1 "/sys/bus/pci/devices/$at/current_link_speed")
        lanes=$(cat "/sys/bus/pci/devices/$at/current_link_width")
        is topo.json "$(hop "$at") | .link.current | .speed_mts == $speed * 1000 and .lanes == $lanes" true
        is topo.json "$(hop "$at") | .payload_max_bytes" "$(payload "$at")"
    done

    is topo.json "$(hop "$device") | [.irqs[].number] | sort | join(\" \")" \
        "$(ls "$sys/msi_irqs" | sort -n | xargs)"
    for irq in $(ls "$sys/msi_irqs"); do
        cpus=$(tr , ' ' <"/proc/irq/$irq/effective_affinity_list")
        is topo.json "$(hop "$device") | .irqs[] | select(.number == $irq) | .cpus | join(\" \")" "$cpus"
        is topo.json "$(hop "$device") | .irqs[] | select(.number == $irq) | .name" \
            "$(cat "/sys/kernel/irq/$irq/actions")"
    done
    for queue in "/sys/block/$disk/mq"/*; do
        [ -e "$queue" ] || continue
        is topo.json ".topology.volumes[] | select(.name == \"$disk\") | .queues[${queue##*/}] | join(\", \")" \
            "$(cat "$queue/cpu_list")"
    done
done
check "the disks are on several root complexes" [ "$(echo "$complexes" | xargs -n 1 | sort -u | wc -l)" -gt 1 ]
is topo.json '[.loads[.topology.roots[] | select(.kind == "root_complex").name].disks] | add' 4
is topo.json '[.findings[].rule] | index("crowded-root-complex")' null

# A device stacked on two disks is listed below both.
dmsetup create lab <<END
0 16384 linear $(disk 0) 0
16384 16384 linear $(disk 1) 0
END
mapped=$(basename "$(readlink -f /sys/block/dm-*)")
fathom topo --json "$mapped" >stacked.json
is stacked.json ".topology.volumes[] | select(.name == \"$mapped\") | .members | length" 2
is stacked.json '[.topology.roots[] | recurse(.children[]?) | .disks[]?] | length' 2
dmsetup remove lab

# The page and the picture name every disk.
fathom topo >page
fathom topo -o topo.html
for number in 0 1 2 3; do
    disk=$(disk $number)
    says page "${disk#/dev/}"
    says topo.html "${disk#/dev/}"
done
keep topo.json page topo.html
