# cause: Four threads of RocksDB write faster than its one compaction thread merges: they are stopped until it has.
# expect: own-cpu, lock
# busy: own-cpu, lock, other-cpu
# mentions: rocksdb:low
# packages: rocksdb-tools
program() {
    exec db_bench --benchmarks=fillrandom --db="$DIR/db" --num=100000000 --duration=6 --threads=4 --disable_wal=1 \
        --compression_type=zstd --write_buffer_size=1000000 --max_background_compactions=1 --max_background_flushes=1 \
        --level0_file_num_compaction_trigger=2 --level0_slowdown_writes_trigger=4 --level0_stop_writes_trigger=4
}
