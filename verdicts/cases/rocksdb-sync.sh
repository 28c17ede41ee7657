# cause: RocksDB flushes its log after each write.
# expect: flush
# busy: flush, other-cpu
# packages: rocksdb-tools
program() { exec db_bench --benchmarks=fillrandom --db="$DIR/db" --sync=1 --num=100000000 --duration=5; }
