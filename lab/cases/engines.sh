# libaio, psync, sync, pvsync and pvsync2 write and read the same data as io_uring; hipri is reported only where in effect.
reload nvme poll_queues=1
disk=$(disk 0)
set -- --filename="$disk" --erase="$disk@LAB0" --bs=16k --direct=1 --size=1m --output-format=json
number=0
for engine in io_uring libaio psync sync pvsync pvsync2; do
    number=$((number + 1))
    fathom run --name=$engine "$@" --ioengine=$engine --iodepth=8 --rw=randwrite --buffer_pattern=0x1$number >out.json
    is out.json '.jobs[0] | "\(.write.total_ios) \(.error)"' '64 0'
    check "$engine wrote all" [ "$(head -c 1048576 "$disk" | tr -d "\\02$number" | wc -c)" = 0 ]
    fathom run --name=$engine "$@" --ioengine=$engine --iodepth=8 --rw=randread --record=$engine >out.json 2>$engine.err
    is $engine/record.json '.jobs[0].dirs.read.counts | "\(.ios) \(.bytes) \(.errors)"' '64 1048576 0'
    is $engine/record.json '.disks[0].sectors.read >= 2048' true
done
is libaio/record.json '.jobs[0].depth.in_flight_max' 8
is psync/record.json '.jobs[0].depth.in_flight_max' 1
says psync.err "runs at queue depth 1"

# Polled calls bring no interrupts. Where the kernel ignores the flag, the record says that nothing polled.
before=$(interrupts_of "$(controller 0)")
fathom run --name=hipri "$@" --ioengine=pvsync2 --hipri=1 --rw=randread --record=hipri >hipri.json
interrupts=$(($(interrupts_of "$(controller 0)") - before))
is hipri/record.json '.jobs[0].dirs.read.counts.ios' 64
if [ "$(value hipri/record.json '[.findings[].rule] | any(. == "not-polled")')" = true ]; then
    check "not polled, as it says ($interrupts)" [ $interrupts -ge 32 ]
else
    check "polled, as it says ($interrupts)" [ $interrupts -le 4 ]
fi
keep libaio psync hipri
