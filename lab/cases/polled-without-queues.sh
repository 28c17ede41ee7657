# Without poll queues, hipri is an error or a warning, never ignored silently.
# kernels: 6.12 6.1 7
check "the driver has no poll queues" [ "$(cat /sys/module/nvme/parameters/poll_queues)" = 0 ]
status=0
fathom run --name=polled --filename="$(disk 0)" --rw=randread --bs=4k --direct=1 --iodepth=8 --hipri=1 \
    --number_ios=200 --record=run >out 2>err || status=$?
# Older kernels silently wait for interrupts; later ones refuse each read.
check "reads were done, or failed, and nothing else went wrong ($status)" [ $status -le 1 ]
[ $status = 0 ] || says err nvme.poll_queues
says out "completions were not polled"
says out nvme.poll_queues
keep run
