# cause: A postgres server with eight clients that commit small updates: they wait for flushes of the log, or on a fast disk for a CPU, whichever takes longer.
# expect: flush, own-cpu
# busy: flush, own-cpu, other-cpu
# vague: lock
# peers: pgbench
# packages: postgresql postgresql-contrib
# watch: 5s
prepare() {
    postgres_server -c shared_buffers=512MB
    pgbench -i -q -s 10 2>/dev/null
    psql -qc checkpoint
}
program() {
    starts pgbench -T 60 -N -c 8 -j 2
    sleep 0.5
    postgres_pid
}
clean() { ends; }
