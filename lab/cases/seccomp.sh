# Where a seccomp filter denies io_uring, the error names the filter and an alternative engine.
truncate -s 1M file
set -- --name=job --filename=file --rw=read --bs=4k --number_ios=10 --output-format=json --no-record
not_permitted=1 no_such_call=38
for errno in $not_permitted $no_such_call; do
    expect 1 deny-io-uring $errno fathom run "$@"
    says err "a seccomp filter"
    says err "--ioengine=libaio"
    is out type object
    is out '.jobs[0].error' $errno
    expect 1 deny-io-uring $errno fathom limit --quick --no-record file
    says err "a seccomp filter"
    expect 0 deny-io-uring $errno fathom run "$@" --ioengine=libaio
    is out '.jobs[0].read.total_ios' 10
done
nothing_left
