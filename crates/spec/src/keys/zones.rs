//! Zones.

use crate::job::ZoneMode;
use crate::value::KeyValue;

keys! { Access;
    value("MODE") "zonemode": "Zones: none, strided (a part of the file at a time), or zbd (writes at write pointers, as \
         zoned devices need)",
        "By default strided with zonesize, otherwise none. With zbd, a region consists of whole zones, read-only ones are not \
         written, and writes to a zone are in flight one at a time where engine or kernel may reorder them."
        => |job, v| job.zone_mode = Some(v.choice(&[
            ("none", ZoneMode::None), ("strided", ZoneMode::Strided), ("zbd", ZoneMode::Device), ("0", ZoneMode::None)
        ])?);
    value("SIZE") "zonesize": "With strided, bytes to transfer before the next part; with zbd, length of a zone, by default \
         the device's"
        => zone_size = bytes();
    value("SIZE") "zonerange": "Length of a part (strided); by default zonesize",
        "No I/O leaves the file: a part of random I/O that would is left out."
        => zone_range = bytes();
    value("SIZE") "zonecapacity": "Bytes of a zone that can be written, where the target has no zones of its own (zbd)"
        => zone_capacity = bytes();
    value("SIZE|Nz") "zoneskip": "Bytes to leave out after each zone; with zbd, sequential I/O only"
        => zone_skip = size_or_percent();
    flag "read_beyond_wp": "Also read above write pointers (zbd)" -> zone_rules.reads_beyond;
    flag "write_zone_remainder": "Write the rest of a zone that is too short for a block, instead of finishing the zone (zbd)"
        -> zone_rules.writes_rest;
    value("COUNT") "max_open_zones": "Zones of a target that all jobs together write at a time (zbd)",
        "By default the device's limit, also that on active zones." => zone_rules.open_max = count32(0, 4096);
    value("COUNT") "job_max_open_zones": "Of these, those that one clone opens (zbd)"
        => zone_rules.own_open_max = count32(0, 4096);
    flag "ignore_zone_limits": "Ignore the device's limit on open zones (zbd)" -> ignore_zone_limits;
    value("FRACTION") "zone_reset_threshold": "Part of the region that must hold data before zones are reset early (zbd)"
        => |job, v| job.zone_rules.reset_threshold = fraction(v)?;
    value("FRACTION") "zone_reset_frequency": "Part of the writes before which a zone is reset then (zbd)"
        => |job, v| job.zone_rules.reset_frequency = fraction(v)?;
    flag "recover_zbd_write_error": "Go on at the write pointer after a failed write; needs continue_on_error",
        "Always so: after an error, the write pointer is read from the device again." = super::accept_flag;
}

fn fraction(v: KeyValue<'_>) -> Result<f64, String> {
    let fraction = v.text.parse::<f64>().ok().filter(|n| (0.0..=1.0).contains(n));
    fraction.ok_or_else(|| format!("invalid fraction '{}'; use a number from 0 to 1", v.text))
}
