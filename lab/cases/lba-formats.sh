# Disks with logical blocks of 512 and 4096 bytes are read and written; smaller blocks are refused.
# when: all
for number in 0 3; do
    disk=$(disk $number)
    lba=$(cat "/sys/block/${disk#/dev/}/queue/logical_block_size")
    for rw in write read randrw; do
        fathom run --name=$rw --filename="$disk" --erase="$disk" --rw=$rw --bs="$lba" --direct=1 --iodepth=4 \
            --number_ios=200 --output-format=json >$rw.json
        is $rw.json '.jobs[0] | .read.total_ios + .write.total_ios' 200
        is $rw.json '.jobs[0].error' 0
    done
done
check "the last disk has blocks of 4096 bytes" [ "$lba" = 4096 ]
before=$(disk_sum 3)
expect 1 fathom run --name=small --filename="$disk" --erase="$disk" --rw=write --bs=512 --direct=1 --number_ios=1
says err 4096
check "nothing was written" [ "$(disk_sum 3)" = "$before" ]
