# cause: A postgres server with one client on this machine and all data in memory: its backend computes, then waits for the client.
# expect: own-cpu, peer
# busy: own-cpu, other-cpu, peer
# peers: pgbench
# packages: postgresql postgresql-contrib
# watch: 5s
prepare() {
    postgres_server -c shared_buffers=512MB
    pgbench -i -q -s 10 2>/dev/null
    psql -qc checkpoint
    psql -qc "select sum(abalance) from pgbench_accounts" >/dev/null
}
program() {
    starts pgbench -T 60 -S -c 1
    sleep 0.5
    postgres_pid
}
clean() { ends; }
