# cause: gzip reads a pipe that another program fills slowly.
# expect: peer, timer
# mentions: perl
# packages: gzip
prepare() {
    mkfifo pipe
    starts perl -e '$| = 1; open my $pipe, ">", "pipe"; select($pipe); $| = 1; while (1) { print "x" x 1000; select(undef, undef, undef, 0.05) }'
}
program() { for_s 6 gzip -c pipe >/dev/null; }
clean() { ends; }
