# cause: A client of a local postgres server that commits small updates: it waits for the server, which computes and waits for flushes.
# expect: own-cpu, flush
# busy: own-cpu, flush, other-cpu
# vague: peer
# mentions: postgres
# peers: postgres
# packages: postgresql postgresql-contrib
prepare() {
    postgres_server -c shared_buffers=512MB
    pgbench -i -q -s 10 2>/dev/null
    psql -qc checkpoint
}
program() { exec pgbench -T 5 -N -c 1; }
clean() { ends; }
