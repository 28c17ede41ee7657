# Discards on NVMe and null_blk reach the kernel's counters, and discarded blocks read as zeros.
# kernels: 7 6.1
null=$(null_blk null discard=1)

# discards NODE: how many the kernel counted.
discards() { awk '{ print $12 }' "/sys/block/${1#/dev/}/stat"; }

for node in "$(disk 0)" "$null"; do
    name=${node#/dev/}
    for rw in trim randtrim; do
        tr '\0' Z </dev/zero | dd of="$node" bs=64k count=17 iflag=fullblock conv=fsync 2>/dev/null
        before=$(discards "$node")
        fathom run --name=$rw --filename="$node" --rw=$rw --bs=16k --size=1m --direct=1 --iodepth=8 \
            --erase="$(confirmed "$node")" --output-format=json --record=$name-$rw >out.json
        record=$name-$rw/record.json
        is $record '.jobs[0].dirs.trim.counts | "\(.ios) \(.bytes) \(.errors)"' '64 1048576 0'
        is $record '.disks[0] | "\(.ios.trim + .merges.trim) \(.sectors.trim)"' '64 2048'
        check "$name: the kernel counted discards" [ "$(($(discards "$node") - before))" -ge 1 ]
        # io_uring has discards of block devices since 6.12.
        case $(uname -r) in 6.1.*) alone=true ;; *) alone=false ;; esac
        is $record '.plan.notes | any(test("discards run one at a time"))' $alone
        is $record ".jobs[0].depth.in_flight_max $([ $alone = true ] && echo '== 1' || echo '> 1')" true
        blockdev --flushbufs "$node"
        check "$name: what was discarded is zero" [ "$(head -c 1048576 "$node" | tr -d '\0' | wc -c)" = 0 ]
        check "$name: nothing else is" [ "$(tail -c +1048577 "$node" | head -c 65536 | tr -d Z | wc -c)" = 0 ]
    done
    keep "$name"-*
done
