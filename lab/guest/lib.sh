# What cases are written with. A case runs with `set -eu` in an empty folder in memory; the first
# command that fails ends it.

# check WHAT COMMAND…: the case fails unless the command succeeds; WHAT says what should hold.
check() {
    what=$1
    shift
    if "$@"; then
        echo "holds: $what"
    else
        echo "DOES NOT HOLD: $what ($*)"
        exit 1
    fi
}

# expect STATUS COMMAND…: the command must end with that exit status. What it prints is in `out`
# and `err`.
expect() {
    wanted=$1
    shift
    got=0
    "$@" >out 2>err || got=$?
    if [ "$got" != "$wanted" ]; then
        echo "EXIT STATUS $got, not $wanted: $*"
        cat out err
        exit 1
    fi
}

# says FILE TEXT: the file holds the text.
says() {
    if ! grep -q -F -e "$2" "$1"; then
        echo "NOT SAID in $1: $2"
        cat "$1"
        exit 1
    fi
}

# value FILE FILTER: what jq finds; null where there is nothing.
value() { jq -r "$2" "$1"; }

# is FILE FILTER WANTED: what jq finds there is that.
is() {
    got=$(jq -r "$2" "$1")
    if [ "$got" != "$3" ]; then
        echo "IN $1: $2 is $got, not $3"
        exit 1
    fi
}

# Disks are counted as the case's machine names them: 0, 1, … The kernel may number them otherwise.
controller() {
    path=$(grep -l "^LAB$1 *$" /sys/class/nvme/nvme*/serial)
    path=${path%/serial}
    echo "${path##*/}"
}
disk() {
    path=$(grep -l -x "LAB$1" /sys/block/vd*/serial 2>/dev/null) || { echo "/dev/$(controller "$1")n1" && return; }
    path=${path%/serial}
    echo "/dev/${path##*/}"
}
passthrough() { disk "$1" | sed 's,/dev/nvme,/dev/ng,'; }

# null_blk NAME KEY=VALUE…: makes a null_blk device of 16 MiB with these attributes, and prints its node.
null_blk() {
    modprobe null_blk nr_devices=0
    folder=/sys/kernel/config/nullb/lab$1
    shift
    mkdir "$folder"
    for attribute in size=16 memory_backed=1 "$@" power=1; do
        echo "${attribute#*=}" >"$folder/${attribute%%=*}"
    done
    # Kernels since 6.6 name it as its folder.
    node=/dev/nullb$(cat "$folder/index")
    [ -b "$node" ] || node=/dev/${folder##*/}
    echo "$node"
}

# scsi_disk CLASS: makes a SCSI disk of 16 MiB, and sets `disk` to its node and `generic` to the name of its device in
# that class: scsi_generic or bsg.
scsi_disk() {
    modprobe scsi_debug dev_size_mb=16 lbpu=1 delay=0
    for try in $(seq 200); do
        model=$(grep -l scsi_debug /sys/block/sd*/device/model 2>/dev/null || true)
        generic=$([ -z "$model" ] || ls "${model%model}$1" 2>/dev/null || true)
        disk=/dev/$(echo "$model" | cut -d/ -f4)
        [ -n "$generic" ] && [ -b "$disk" ] && { [ -c "/dev/$generic" ] || [ -c "/dev/bsg/$generic" ]; } && return
        usleep 20000
    done
    return 1
}

# bad_disk: maps 16 MiB of disk 0 as /dev/mapper/labbad; the fifth MiB of it is bad: 16 blocks of 64 KiB.
bad_disk() {
    dmsetup create labbad <<END
0 8192 linear $(disk 0) 0
8192 2048 error
10240 22528 linear $(disk 0) 10240
END
    [ -e /dev/mapper/labbad ] || dmsetup mknodes
}

# settle: waits until the disks that are being found are there.
settle() {
    for try in $(seq 500); do
        ready=yes
        for slot in /sys/bus/pci/devices/*; do
            [ "$(cat "$slot/class" 2>/dev/null)" = 0x010802 ] || continue
            set -- "$slot"/nvme/nvme*/nvme*n1
            [ -e "$1" ] && [ -b "/dev/${1##*/}" ] || ready=no
        done
        [ $ready = yes ] && return
        usleep 20000
    done
    echo "the disks did not come"
    return 1
}

# reload MODULE PARAMETER=VALUE…: nvme and its kind again with other parameters. nvme gets its own
# back after the case.
reload() {
    modprobe -r "$1" || true # It fails when a module that this one needed has other users.
    [ ! -d "/sys/module/$1" ] || { echo "$1 stays loaded"; return 1; }
    : >/run/reloaded
    modprobe "$@"
    (set +x; settle)
}

# interrupts_of CONTROLLER: all that arrived so far for its I/O queues; q0 is for administration.
interrupts_of() {
    awk -v name="^$1q[1-9][0-9]*\$" '$NF ~ name { for (i = 2; $i ~ /^[0-9]+$/; i++) sum += $i } END { print sum + 0 }' \
        /proc/interrupts
}

# disk_sum N: the checksum of disk N, by the host, which is quicker.
disk_sum() {
    blockdev --flushbufs "$(disk "$1")"
    host sum "nvme$1"
}

# sums: the checksums of the disks whose numbers are in `watched`.
sums() {
    (set +x; for each in $watched; do disk_sum "$each"; done)
}

# unchanged: the disks in `watched` are as they were at `before=$(sums)`.
unchanged() { [ "$(sums)" = "$before" ]; }

# refused RW PATH TEXT ARGUMENT…: `fathom run` ends with status 1 and one error, which names the path
# and holds TEXT; the disks are unchanged.
refused() {
    refused_rw=$1 refused_path=$2 refused_text=$3
    shift 3
    expect 1 fathom run --name=refused --rw="$refused_rw" --bs=64k --filename="$refused_path" "$@"
    check "it names the target" grep -q -F -e "$(echo "$refused_path" | tr : '\n')" err
    says err "$refused_text"
    check "it is one error, and no result" [ "$(cat out err | wc -l)" = 1 ]
    check "no disk has changed" unchanged
}

# confirmed DEVICE KEY…: DEVICE as --erase takes it if it holds something, with its serial number or size, from the
# message of a run with those keys.
confirmed() {
    device=$1 escaped=$(echo "$1" | sed 's/:/\\:/g')
    shift
    fathom run --name=ask --rw=write --bs=64k --filename="$escaped" --erase="$device@?" "$@" 2>&1 |
        sed -n 's/.*, which is --erase=\(.*\); check.*/\1/p'
}

# host ACTION…: requests an action that a guest cannot do itself; docs/lab.md lists them.
host() {
    echo "host $*" >&3
    read -r answer <&3
    case $answer in
    ok*) answer=${answer#ok} && echo "${answer# }" ;;
    *) echo "host $*: $answer" >&2 && return 1 ;;
    esac
}

# remember TEXT: kept by the lab over a power cut, where /run/known holds all such lines.
remember() { echo "remember $*" >&3; }

# keep PATH…: stored on the host in target/lab/records/KERNEL/CASE.
keep() {
    # Whole lines at a time, as what the case prints goes the same way.
    tar -cf - "$@" | base64 | awk '{ print "keep " $0; fflush() }' >&3
    echo kept >&3
}

# case_run NAME: a case by hand, in the shell.
case_run() {
    mkdir -p "/tmp/$1"
    (cd "/tmp/$1" && LAB_STAGE=0 sh -eux -c '. /lab/lib.sh; . "$0"' "/lab/cases/$1.sh")
}

# uptime_s: seconds since boot, by a clock that nobody sets.
uptime_s() { cut -d. -f1 /proc/uptime; }

# as_nobody COMMAND…: without root. busybox's setpriv cannot do that.
as_nobody() { /usr/bin/setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; }

# nothing_left: no fathom runs any more, and no temporary file lies here.
nothing_left() {
    check "no fathom is left" [ -z "$(pidof fathom)" ]
    check "no file is left" [ -z "$(find . -name '.fathom-*' -o -name '*.part')" ]
}

# working DIR [N]: waits until the run that records in DIR has N samples (1) with I/Os.
working() {
    (
        set +x
        for try in $(seq 300); do
            samples=$(grep -c '"ios":[1-9]' "$1/samples.ndjson" 2>/dev/null) || samples=0
            [ "$samples" -lt "${2:-1}" ] || exit 0
            usleep 100000
        done
        echo "the run in $1 does nothing"
        exit 1
    )
}
