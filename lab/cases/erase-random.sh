# Random stacks of device mapper, md, partitions and loop devices, partly in use: nothing in use is written.
# modules: dm_mod raid1 loop
# limit: 400
# when: all
stacks=6
first=$(disk 0) second=$(disk 1)
watched="0 1"

# random N: a number below N.
random() { echo $(($(od -An -N2 -tu2 /dev/urandom) % $1)); }

# mapped NAME: the kernel's node of a device-mapper device.
mapped() { echo "/dev/$(dmsetup info -c --noheadings -o blkdevname "$1")"; }

# stack DEVICE KIND LEVEL: sets up something on it, and prints the new device.
stack() {
    case $1:$2 in
        *:0) loop=$(losetup -f) && losetup -o 65536 "$loop" "$1" && echo "$loop" ;;
        *:1) loop=$(losetup -f) && losetup "$loop" "$1" && echo "$loop" ;;
        *) echo "0 $(($(blockdev --getsz "$1") / 2)) linear $1 0" | dmsetup create "lab$3" && dmsetup mknodes &&
            mapped "lab$3" ;;
    esac
}

# base KIND: the device at the bottom, and at the top of all_devices whatever it consists of.
base() {
    case $1 in
        0) devices="$first" ;;
        1) echo "0 65536 linear $first 0" | dmsetup create labbase && dmsetup mknodes
            devices="$first $(mapped labbase)" ;;
        2) mdadm --create /dev/md0 --run --level=1 --assume-clean --metadata=1.2 --raid-devices=2 "$first" "$second" 2>&1
            devices="$first $second /dev/md0" ;;
        *) printf 'label: gpt\n,16M\n,\n' | sfdisk -q "$first"
            devices="$first ${first}p1" ;;
    esac
}

# Writing is tried through every node, with every permission. The device on top of all is free where
# nothing uses it.
attacks=0
attack() {
    for node in $devices; do
        size=$(blockdev --getsize64 "$node")
        serial=$(cat "/sys/block/${node#/dev/}/device/serial" 2>/dev/null | xargs || true)
        for rw in write trim; do
            expect 1 fathom run --no-record --name=attack --rw=$rw --bs=64k --filename="$node" --erase="$node" \
                --erase="$node@${serial:-$size}"
            # A device may know no trims, which is said first.
            [ $rw = trim ] || says err "in use"
            attacks=$((attacks + 1))
        done
    done
    check "nothing has changed" unchanged
}

for number in $(seq $stacks); do
    set +x
    base "$(random 4)"
    bottom=${devices##* }
    top=$bottom
    for level in $(seq $((1 + $(random 3)))); do
        top=$(stack "$top" "$(random 3)" $level)
        devices="$devices $top"
    done
    # What is used: anything but what something exclusive lies on.
    used=$(echo "$devices" | tr ' ' '\n' | tail -n +$((1 + $(random "$(echo "$devices" | wc -w)"))) | while read -r node; do
        mkswap "$node" >/dev/null 2>&1 && swapon "$node" 2>/dev/null && echo "$node" && break
    done)
    echo "stack $number: $devices; in use: $used"
    [ -n "$used" ]
    # Some time after the last write, md marks its members as clean.
    [ ! -e /sys/block/md0 ] || sleep 1
    before=$(sums)
    attack
    swapoff "$used"
    for node in $(echo "$devices" | tr ' ' '\n' | tac); do
        case $node in
            /dev/loop*) losetup -d "$node" ;;
            /dev/dm-*) dmsetup remove "$(cat "/sys/block/${node#/dev/}/dm/name")" ;;
            /dev/md*) mdadm --stop "$node" ;;
        esac
    done
    blkdiscard -f "$first"
    blkdiscard -f "$second"
    set -x
done
check "each way was tried ($attacks)" [ $attacks -ge $((4 * stacks)) ]

# Volumes that share a disk but no bytes are free.
for name in one two; do
    [ $name = one ] && start=0 || start=32768
    echo "0 32768 linear $first $start" | dmsetup create lab$name --uuid LVM-lab$name
done
dmsetup mknodes
mkswap /dev/mapper/labone
swapon /dev/mapper/labone
fathom run --name=free --rw=write --bs=64k --size=1m --filename=/dev/mapper/labtwo \
    --erase=/dev/mapper/labtwo@16777216
swapoff /dev/mapper/labone
dmsetup remove labtwo
# The same, but nobody says that their bytes differ.
echo "0 32768 linear $first 32768" | dmsetup create labtwo
dmsetup mknodes
swapon /dev/mapper/labone
before=$(sums)
refused write /dev/mapper/labtwo "is stacked on" --erase=/dev/mapper/labtwo
