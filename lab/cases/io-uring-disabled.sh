# Where a sysctl disables io_uring, the error names the sysctl and an alternative engine.
# kernels: 6.12 7
truncate -s 1M file
chmod 777 .
chmod 644 file
set -- --name=job --filename=file --rw=read --bs=4k --number_ios=10 --output-format=json --no-record

echo 1 >/proc/sys/kernel/io_uring_disabled
expect 0 fathom run "$@"
expect 1 as_nobody fathom run "$@"
says err "kernel.io_uring_disabled is 1"
says err "run as root"
says err --ioengine=libaio
is out type object

echo 2 >/proc/sys/kernel/io_uring_disabled
for who in env as_nobody; do
    expect 1 $who fathom run "$@"
    says err "kernel.io_uring_disabled is 2"
    says err "sysctl kernel.io_uring_disabled=0"
    is out type object
    expect 0 $who fathom run "$@" --ioengine=libaio
    is out '.jobs[0].read.total_ios' 10
done
expect 1 fathom limit --quick --no-record file
says err "kernel.io_uring_disabled is 2"
nothing_left
