# cause: A program writes into a pipe whose reader takes 64 KiB ten times a second.
# expect: peer, timer
# mentions: perl
# peers: perl
# packages: perl
prepare() {
    mkfifo pipe
    starts perl -e 'open my $pipe, "<", "pipe"; while (sysread($pipe, my $data, 65536)) { select(undef, undef, undef, 0.1) }'
}
program() { for_s 6 dd if=/dev/zero of=pipe bs=64k status=none; }
clean() { ends; }
