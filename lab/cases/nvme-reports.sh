# What records hold of NVMe controllers and queues is what nvme-cli and lsblk -t show.
# kernels: 7
# when: all
# same WHAT FILE FILTER FILTER: what nvme-cli or lsblk shows in FILE, and what the record holds.
same() {
    theirs=$(jq -c "$3" "$2") ours=$(jq -c "$4" ours)
    check "$1: $ours" [ "$ours" = "$theirs" ]
}

# The last has blocks of 4 KiB.
for number in 0 3; do
    disk=$(disk $number)
    nvme smart-log "$disk" -o json >before
    fathom run --name=job --filename="$disk" --rw=randread --bs=4k --number_ios=10 --record=run$number >out
    nvme smart-log "$disk" -o json >smart
    nvme id-ctrl "$disk" -o json >ctrl
    nvme id-ns "$disk" -o json >ns
    lsblk -t -J -b "$disk" >topology
    jq '.facts.inspection.disks[0] | .nvme + {device, ahead: .files.texts["queue/read_ahead_kb"]}' \
        run$number/record.json >ours

    same "names" ctrl '[.mn, .sn, .fr] | map(sub(" +$"; ""))' '[.model, .serial, .firmware]'
    same "version" ctrl '.ver | [. / 65536, . / 256 % 256, . % 256] | map(floor | tostring) | join(".")' '.version'
    same "longest transfer" ctrl 'if .mdts == 0 then null else 4096 * pow(2; .mdts) end' '.transfer_max_bytes'
    same "write cache" ctrl '.vwc % 2 == 1' '.has_volatile_cache'
    same "temperature limits" ctrl '[.wctemp, .cctemp] | map(. - 273)' '[.warning_celsius, .critical_celsius]'
    same "power states" ctrl '[.psds[] | [.max_power * 10, .entry_lat, .exit_lat]]' \
        '[.power_states[] | [.milliwatts, .entry_us, .exit_us]]'
    same "health" smart \
        '[.critical_warning, .temperature - 273, .avail_spare, .spare_thresh, .percent_used, .power_on_hours,
          .unsafe_shutdowns, .media_errors, .num_err_log_entries, .warning_temp_time, .critical_comp_time,
          .thm_temp1_trans_count, .thm_temp2_trans_count, .thm_temp1_total_time, .thm_temp2_total_time] | map(tonumber)' \
        '.smart | [.critical_warning, .celsius, .spare_percent, .spare_threshold_percent, .used_percent,
          .power_on_hours, .unsafe_shutdowns, .media_errors, .error_log_entries, .warning_minutes, .critical_minutes,
          .throttle_counts[], .throttle_seconds[]]'
    # fathom looks between the two.
    read_bytes=$(jq .smart.read_bytes ours)
    check "bytes read: $read_bytes" [ "$read_bytes" -ge "$(jq '(.data_units_read | tonumber) * 512000' before)" -a \
        "$read_bytes" -le "$(jq '(.data_units_read | tonumber) * 512000' smart)" ]
    same "namespace" ns '[.nsze, .nuse, .flbas % 16, .noiob]' \
        '.namespace | [.size_blocks, .used_blocks, .format, .optimal_boundary_blocks]'
    same "formats" ns '[.lbafs[] | [pow(2; .ds), .ms, .rp]]' \
        '[.namespace.formats[] | [.block_bytes, .metadata_bytes, .relative_performance]]'
    same "queue" topology \
        '.blockdevices[0] | [."phy-sec", ."log-sec", .rota, .sched, ."rq-size", .ra]' \
        '[(.device | .physical_block, .logical_block, .rotational, .scheduler, .nr_requests), (.ahead | tonumber)]'
    keep run$number
done
