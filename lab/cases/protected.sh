# Namespaces with protection information are read and written, which the controller adds and removes, or fathom makes and checks.
# machine: nvme=2 lba=512,4096 disk=64,64 disks=protected
# kernels: 6.1 7
for number in 0 1; do
    disk=$(disk $number)
    ng=$(passthrough $number)
    lba=$(blockdev --getss "$disk")
    cmd="--filename=$ng --ioengine=io_uring_cmd --cmd_type=nvme --iodepth=4 --output-format=json"
    # run OPTION…: on 1 MiB, in blocks of 16 KiB
    run() { fathom run --name=job $cmd --bs=16k --size=1m "$@" >run.json; }
    writes="--erase=$ng@LAB$number --rw=write --buffer_pattern=0xa5"
    ones() { head -c 1048576 "$disk" | tr -d '\0' | wc -c; }

    run $writes
    is run.json '.jobs[0].error' 0
    blockdev --flushbufs "$disk"
    check "what passthrough wrote, the kernel reads, with its checks" [ "$(ones)" = 1048576 ]
    run --rw=randread --pi_chk=GUARD,REFTAG
    is run.json '.jobs[0].error' 0
    run --rw=randread --pi_act=0 --pi_chk=GUARD,REFTAG,APPTAG
    is run.json '.jobs[0].error' 0
    run --rw=randread --pi_act=0 --pi_chk=APPTAG --apptag=0x4321 || true
    is run.json '.jobs[0].error' 84
    run --rw=randread --pi_act=0 --pi_chk=APPTAG --apptag=0x4334 --apptag_mask=0xff
    is run.json '.jobs[0].error' 0

    run $writes --pi_act=0 --apptag=0x4321 --buffer_pattern=0x5a --md_per_io_size=1024
    is run.json '.jobs[0].error' 0
    # Without checks, the controller would not have compared what fathom made.
    run --rw=read --pi_chk=GUARD,REFTAG,APPTAG --apptag=0x4321
    is run.json '.jobs[0].error' 0
    blockdev --flushbufs "$disk"
    check "the kernel accepts what fathom made" [ "$(head -c 1048576 "$disk" | tr -d 'Z' | wc -c)" = 0 ]
    run --rw=read --pi_chk=APPTAG || true
    is run.json '.jobs[0].error' 84

    # Headers of verify, within protected blocks of the namespace's size.
    run $writes --bs="$lba" --pi_act=0 --pi_chk=GUARD --verify=crc32c
    is run.json '.jobs[0] | .error + .verify_errors' 0
done
