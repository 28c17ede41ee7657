# After ten power cuts, `fathom verify` accuses none of ten honest disks and file systems, and finds each of three that ignore flushes.
# machine: nvme=14 lba=512 disk=320 roots=2 memory=1024 disks=virtio
# kernels: 6.12 7 6.1
# modules: virtio_blk ext4 xfs
# boot: own
# when: all
# limit: 600
cuts=10
journals=13 lying="10 11 12"

# how N: the job of disk N.
how() {
    case $1 in
    0) echo --direct=1 --iodepth=8 --bs=4k --fsync=8 ;;
    1) echo --direct=1 --ioengine=libaio --iodepth=4 --bs=4k --sync=dsync ;;
    2) echo --ioengine=psync --bs=16k --fsync=16 ;;
    # Its cache is off.
    3) echo --direct=1 --iodepth=4 --bsrange=4k-32k --norandommap --fsync=8 ;;
    4) echo --direct=1 --iodepth=8 --bs=4k --fsync=8 ;;
    5) echo --ioengine=psync --bs=8k --fdatasync=8 ;;
    6) echo --ioengine=mmap --bs=4k --fsync=8 ;;
    7) echo --direct=1 --iodepth=8 --bs=4k --fsync=8 ;;
    8) echo --ioengine=psync --bs=4k --sync=dsync ;;
    9) echo --direct=1 --iodepth=16 --bs=64k --verify_interval=4k --fdatasync=4 ;;
    10) echo --direct=1 --iodepth=8 --bs=4k --fsync=8 ;;
    11) echo --direct=1 --iodepth=4 --bs=4k --fsync=8 ;;
    12) echo --ioengine=psync --bs=16k --sync=dsync ;;
    esac
}
kind() {
    case $1 in
    4 | 5 | 6 | 11) echo ext4 ;;
    7 | 8 | 9) echo xfs ;;
    *) echo raw ;;
    esac
}
# target N STAGE: what the job writes.
target() { if [ "$(kind "$1")" = raw ]; then disk "$1"; else echo "/mnt/$1/file$2"; fi; }

known_disk() { eval "echo \$disk$1"; }
[ "$LAB_STAGE" = 0 ] || . /run/known
: "${honest:=0} ${found:=0} ${judged:=0} ${torn:=0}"

mkdir -p /mnt/j
if [ "$LAB_STAGE" = 0 ]; then
    for n in 4 5 6 11 "$journals"; do mkfs.ext4 -q -F "$(disk "$n")"; done
    for n in 7 8 9; do mkfs.xfs -q -f "$(disk "$n")"; done
fi
mount -t ext4 "$(disk "$journals")" /mnt/j

# What the last cut left.
if [ "$LAB_STAGE" -gt 0 ]; then
    for n in $(seq 0 12); do
        expected=0
        case " $lying " in *" $n "*) expected=1 ;; esac
        if [ "$(kind "$n")" = raw ]; then
            moved=--target=$(known_disk "$n")=$(disk "$n")
        else
            mkdir -p "/mnt/$n"
            moved=
            # A file system may not survive a lying disk at all.
            mount -t "$(kind "$n")" "$(disk "$n")" "/mnt/$n" || [ $expected = 1 ]
        fi
        status=0
        # shellcheck disable=SC2086
        fathom verify "/mnt/j/$n" $moved --json >out 2>err || status=$?
        [ "$n $LAB_STAGE" != "10 1" ] || fathom verify "/mnt/j/$n" $moved || true
        [ "$status" != 1 ] || value out '.jobs[0] | "lost: \(.blocks)"'
        if [ $expected = 1 ]; then
            # It cannot even tell if the file system is gone.
            check "liar $n is found after cut $LAB_STAGE" [ "$status" = 1 -o "$status$(kind "$n")" = 2ext4 ]
            found=$((found + 1))
        else
            [ "$status" = 0 ] || fathom verify "/mnt/j/$n" $moved || true
            check "disk $n is not accused after cut $LAB_STAGE" [ "$status" = 0 ]
            more=$(value out '.jobs[0].blocks | .as_acknowledged + .newer + .mixed')
            check "blocks were judged" [ "$more" -gt 50 ]
            value out '.jobs[0] | "\(.durable) durable \(.blocks)"'
            honest=$((honest + 1)) judged=$((judged + more)) torn=$((torn + $(value out '.jobs[0].blocks.mixed')))
        fi
        rm -r "/mnt/j/$n"
    done
    echo "after $LAB_STAGE cuts: $honest times honest, $judged blocks, $torn of them partly newer; $found times a liar found"
    remember "honest=$honest found=$found judged=$judged torn=$torn"
fi
if [ "$LAB_STAGE" = "$cuts" ]; then
    check "each liar was found each time" [ "$found" = $((3 * cuts)) ]
    check "writes that were not durable were torn ($torn)" [ "$torn" -gt 0 ]
    check "no honest disk was accused" [ "$honest" = $((10 * cuts)) ]
    exit 0
fi

# A new file system for the liar, which may have damaged it.
umount /mnt/11 2>/dev/null || true
mkfs.ext4 -q -F "$(disk 11)"
for n in 4 5 6 7 8 9 11; do
    mkdir -p "/mnt/$n"
    mountpoint -q "/mnt/$n" || mount -t "$(kind "$n")" "$(disk "$n")" "/mnt/$n"
    rm -f "/mnt/$n"/file*
done
cached=$(disk 3)
echo "write through" >"/sys/block/${cached##*/}/cache_type"
for n in $(seq 0 12); do
    to=$(target "$n" "$LAB_STAGE")
    remember "disk$n=$to"
    set -- --name="d$n" --filename="$to" --size=4m --rw=randwrite --verify=crc32c --time_based --runtime=500 \
        --randseed="$LAB_STAGE$n" --rate_iops=150 --journal="/mnt/j/$n" --no-record --sampling=off
    [ "$(kind "$n")" != raw ] || set -- "$@" --erase="$to@LAB$n"
    # shellcheck disable=SC2046
    fathom run "$@" $(how "$n") >"log$n" 2>&1 &
done
size() { stat -c %s "/mnt/j/$1/job-1.journal" 2>/dev/null || echo 0; }
for try in $(seq 120); do
    least=$(for n in $(seq 0 12); do size "$n"; done | sort -n | head -1)
    [ "$least" -lt 40000 ] || break
    sleep 0.5
done
[ "$least" -ge 40000 ] || cat log*
check "all jobs write ($least)" [ "$least" -ge 40000 ]
# shellcheck disable=SC2086
host powercut "$((LAB_STAGE * 7919 + 17))" $lying
