# cause: Eight threads of RocksDB read random keys with direct reads: more requests than two CPUs can issue, or than the disk takes.
# expect: device, own-cpu, queue-depth
# busy: device, own-cpu, other-cpu, queue-depth
# packages: rocksdb-tools
prepare() { db_bench --benchmarks=fillseq,compact --db="$DIR/db" --num=4000000 --compression_type=none >/dev/null 2>&1; }
program() {
    exec db_bench --benchmarks=readrandom --use_existing_db=1 --db="$DIR/db" --num=4000000 --duration=5 --threads=8 \
        --use_direct_reads=1 --cache_size=1000000
}
