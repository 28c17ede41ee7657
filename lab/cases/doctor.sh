# doctor and records contain what an NVMe controller reports, as sysfs does; --fix changes settings and restore undoes it.
# kernels: 6.1 7
disk=$(disk 0)
name=${disk#/dev/}
ctrl=$(controller 0)
attribute() { sed 's/ *$//' "/sys/class/nvme/$ctrl/$1"; }
queue=/sys/block/$name/queue

fathom run --name=job --filename="$disk" --rw=randread --bs=4k --number_ios=10 --record=run >out
nvme='.facts.inspection.disks[0].nvme'
is run/record.json "$nvme.serial" LAB0
is run/record.json "$nvme.controller" "$ctrl"
is run/record.json "$nvme.model" "$(attribute model)"
is run/record.json "$nvme.firmware" "$(attribute firmware_rev)"
is run/record.json "$nvme | .namespace.size_blocks * .namespace.formats[.namespace.format].block_bytes" \
    "$(blockdev --getsize64 "$disk")"
is run/record.json "$nvme | .namespace.formats[.namespace.format].block_bytes" "$(cat "$queue/logical_block_size")"
# QEMU's drive is at 323 K, its warning threshold 343 K and its critical one 373 K (hw/nvme/nvme.h).
is run/record.json "$nvme.smart.celsius" 50
is run/record.json "$nvme.warning_celsius" 70
is run/record.json "$nvme.critical_celsius" 100
is run/record.json "$nvme.smart.media_errors" 0
is run/record.json "$nvme.power_state" 0
cache=$(cat "$queue/write_cache")
is run/record.json "$nvme.volatile_cache_enabled" "$([ "$cache" = "write back" ] && echo true || echo false)"
keep run

echo mq-deadline >"$queue/scheduler"
expect 1 fathom doctor --strict --json "$disk"
is out ".findings[] | select(.finding.rule == \"scheduler\") | .subject, .found, .wanted" "$name
mq-deadline
none"
expect 1 fathom doctor --fix "$disk"
says err "confirm the changes with --yes"
expect 0 fathom doctor --fix --yes "$disk"
check "the scheduler is none" grep -q '\[none\]' "$queue/scheduler"
expect 0 fathom restore
check "it is restored" grep -q '\[mq-deadline\]' "$queue/scheduler"

as_nobody fathom doctor "$disk" >out
says out "/dev/$ctrl: needs root"
expect 1 fathom doctor /proc/version
says err "is not on a block device"
