#!/bin/busybox sh
# The guest's first program: sets the machine up, then runs the cases that the lab names.
B=/bin/busybox
$B mount -t devtmpfs dev /dev
$B mount -t proc proc /proc
$B mount -t sysfs sys /sys
$B mkdir -p /busybox /dev/pts /dev/shm /sbin
$B --install -s /busybox
# QEMU keeps the code that it has translated by address: a program starts several times faster where it was before.
echo 0 >/proc/sys/kernel/randomize_va_space
export PATH=/lab/bin:/usr/sbin:/usr/bin:/sbin:/bin:/busybox HOME=/root
mount -t devpts devpts /dev/pts
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /tmp
mount -t tracefs tracefs /sys/kernel/tracing 2>/dev/null
mount -t debugfs debugfs /sys/kernel/debug 2>/dev/null
mount -t cgroup2 cgroup2 /sys/fs/cgroup 2>/dev/null
ln -sf /proc/self/fd /dev/fd
ln -sf /proc/mounts /etc/mtab
ln -sf /busybox/modprobe /sbin/modprobe
# jq itself takes the emulated CPU longer to start than fathom takes for a run.
ln -sf /usr/bin/gojq /usr/bin/jq
ulimit -n 65536
ip link set lo up 2>/dev/null

modprobe virtio_pci
modprobe virtio_console
modprobe nvme
modprobe configfs
mount -t configfs configfs /sys/kernel/config

# One of several guests on a network, who run what the others send.
number=$(sed -n 's/.*lab\.guest=\([0-9]*\).*/\1/p' /proc/cmdline)
if [ -n "$number" ]; then
    modprobe virtio_net
    hostname "node$number"
    ip addr add "10.0.0.$((number + 1))/24" dev eth0
    ip link set eth0 up
    # shellcheck disable=SC2016
    while :; do nc -l -p 514 -e sh -c 'read -r line; cd /root; eval "$line" <&0 &'; done &
fi

if grep -q lab.shell /proc/cmdline; then
    . /lab/lib.sh
    settle
    cd /root
    echo "The lab's guest, kernel $(uname -r). fathom is there; 'case_run NAME' runs a case; exit ends it."
    setsid -c sh -i -c 'ENV=/lab/lib.sh exec sh -i' </dev/ttyS0 >/dev/ttyS0 2>&1
    poweroff -f
fi

channel() {
    for port in /sys/class/virtio-ports/*; do
        [ "$(cat "$port/name" 2>/dev/null)" = lab ] && echo "/dev/${port##*/}" && return
    done
    return 1
}
for try in $(seq 500); do
    port=$(channel) && [ -c "$port" ] && break
    usleep 20000
done
[ -c "$port" ] || { echo "no channel to the lab"; poweroff -f; }
exec 3<>"$port"
. /lab/lib.sh
settle
echo "ready $(uname -r)" >&3

# Ends everything but this program, and puts away what a case left behind.
tidy() {
    cd /
    # Kernel threads are unaffected.
    for process in /proc/[0-9]*; do
        case ${process#/proc/} in 1 | "$reader") ;; *) kill -9 "${process#/proc/}" ;; esac
    done
    wait
    swapoff -a
    for try in 1 2 3; do
        awk '$2 ~ "^/(mnt|tmp/.)" { gsub(/\\040/, " ", $2); print $2 }' /proc/mounts | tac | tr '\n' '\0' | xargs -0r umount -l
    done
    dmsetup remove_all --force
    for md in /sys/block/md*; do [ -e "$md" ] && mdadm --stop "/dev/${md##*/}"; done
    for loop in /sys/block/loop*; do [ -e "$loop/loop" ] && losetup -d "/dev/${loop##*/}"; done
    for zram in /sys/block/zram*; do [ -e "$zram/reset" ] && echo 1 >"$zram/reset"; done
    rmdir /sys/kernel/config/nullb/* /sys/fs/cgroup/lab*
    for module in null_blk scsi_debug; do
        [ -d "/sys/module/$module" ] && modprobe -r "$module"
    done
    if [ -e /run/reloaded ]; then
        rm /run/reloaded
        modprobe -r nvme
        modprobe nvme
        settle
    fi
    for disk in /dev/nvme*n1; do
        [ -b "$disk" ] || continue
        blkdiscard -f "$disk"
        blockdev --rereadpt "$disk"
    done
    echo 0 >/proc/sys/kernel/io_uring_disabled
    rm -rf /tmp/* /mnt/* /run/known
    mkdir -p /mnt /tmp
} >/dev/null 2>&1

# case NAME STAGE LIMIT MODULE…
run_case() {
    name=$1 stage=$2 limit=$3
    shift 3
    mkdir -p "/tmp/$name"
    cd "/tmp/$name"
    mkfifo /run/output
    while IFS= read -r line || [ -n "$line" ]; do echo "out $line"; done </run/output >&3 &
    reader=$!
    {
        for module in "$@"; do modprobe "$module" || exit 1; done
        LAB_STAGE=$stage timeout -s KILL "$limit" sh -eux -c '. /lab/lib.sh; . "$0"' "/lab/cases/$name.sh"
    } >/run/output 2>&1 </dev/null &
    wait $!
    status=$?
    tidy
    rm -f /run/output
    echo "end $status" >&3
}

while read -r what rest <&3; do
    case $what in
    known) echo "$rest" >>/run/known ;;
    case) run_case $rest ;;
    off) poweroff -f ;;
    esac
done
poweroff -f
