# What fathom wrote and flushed before the power went is there afterwards.
# boot: own
disk=$(disk 0)
if [ "$LAB_STAGE" = 0 ]; then
    fathom run --name=first --filename="$disk" --erase="$disk" --rw=write --bs=16k --size=32m --direct=1 \
        --iodepth=8 --buffer_pattern=0x11 --end_fsync=1 --output-format=json >first.json
    is first.json '.jobs[0].write.io_bytes' 33554432
    remember flushed
    # The power goes while more is being written behind it.
    fathom run --name=more --filename="$disk" --erase="$disk" --rw=randwrite --bs=16k --offset=32m --direct=1 \
        --iodepth=8 --buffer_pattern=0x22 --time_based --runtime=30 >/dev/null &
    sleep 2
    kill -0 $!
    host powercut
fi
check "this is after the cut" [ "$LAB_STAGE" = 1 ]
says /run/known flushed
check "all that was flushed is there" [ "$(head -c 33554432 "$disk" | tr -d '\21' | wc -c)" = 0 ]
check "what was being written got there in part" \
    [ "$(tail -c +33554433 "$disk" | tr -d '\0' | head -c 1 | wc -c)" = 1 ]
