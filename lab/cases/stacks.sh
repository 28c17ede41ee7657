# dm-linear and md RAID0 over two disks are written and read; the members' counters add up.
# modules: dm_mod raid0
# when: all
one=$(disk 0) two=$(disk 1)
mib=2048 # sectors

# counts COLUMN: what both members counted so far; columns of /sys/block/*/stat begin at 1.
counts() { cat "/sys/block/${one#/dev/}/stat" "/sys/block/${two#/dev/}/stat" | awk "{ sum += \$$1 } END { print sum }"; }

# load NODE NAME: writes and reads 16 MiB of it and compares with what both members counted.
load() {
    erase=$(confirmed "$1")
    for rw in randread randwrite; do
        [ $rw = randread ] && column=1 || column=5
        ios=$(counts $column) sectors=$(counts $((column + 2)))
        fathom run --name=$rw --filename="$1" --erase="$erase" --rw=$rw --bs=16k --size=16m --direct=1 --iodepth=16 \
            --buffer_pattern=0xa5 --output-format=json --record=$2-$rw >out.json
        ios=$(($(counts $column) - ios)) sectors=$(($(counts $((column + 2))) - sectors))
        is $2-$rw/record.json '.jobs[0] | [.dirs.read.counts.ios + .dirs.write.counts.ios, .error] | tojson' '[1024,null]'
        is $2-$rw/record.json '.facts.targets[0].device.members | sort | join(" ")' "$members"
        # Before it starts, fathom reads what is on the disk: up to 4 MiB, by few large reads.
        [ $rw = randread ] && more=8192 || more=0
        check "$2 $rw: 32768 sectors at the members ($sectors)" in_range $sectors 32768 $((32768 + more))
        # Occasionally the kernel adds one of its own, without sectors.
        check "$2 $rw: 1024 I/Os at the members, but for merged ones ($ios)" in_range $ios 900 $((1026 + more / 64))
    done
    check "$2: all of it was written" [ "$(head -c 16777216 "$1" | tr -d '\245' | wc -c)" = 0 ]
}
in_range() { [ "$1" -ge "$2" ] && [ "$1" -le "$3" ]; }

members=$(printf '%s\n' "${one#/dev/}" "${two#/dev/}" | sort | xargs)
dmsetup create lab <<END
0 $((8 * mib)) linear $one 0
$((8 * mib)) $((8 * mib)) linear $two 0
END
[ -b /dev/mapper/lab ] || dmsetup mknodes
load /dev/mapper/lab dm
dmsetup remove lab

mdadm --create /dev/md0 --run --level=0 --raid-devices=2 --chunk=64 --metadata=1.2 "$one" "$two"
load /dev/md0 md
keep dm-* md-*
