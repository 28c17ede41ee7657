# A command from a published report on millions of IOPS runs unchanged: three jobs poll one disk.
# kernels: 7
reload nvme poll_queues=1
fathom run --readonly --name=onessd --filename="$(disk 0)" --filesize=100% --bs=4k --direct=1 --overwrite=0 \
    --rw=randread --random_generator=lfsr --numjobs=3 --time_based=1 --runtime=5 --ioengine=io_uring --iodepth=32 \
    --registerfiles --fixedbufs --hipri --gtod_reduce=1 --fadvise_hint=0 --group_reporting \
    --output-format=json >onessd.json
is onessd.json '.jobs | length' 1
is onessd.json '.jobs[0].error' 0
check "three jobs read" [ "$(jq '.jobs[0].read.total_ios' onessd.json)" -ge 100 ]
