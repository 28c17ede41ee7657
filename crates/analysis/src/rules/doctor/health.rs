//! What a drive reports about its health.

#[cfg(test)]
use super::testing::{nvme, smart};
use super::{Answer, Disk, bad, bad_as, check, good, judged};
use fathom_model::finding::Severity;
use fathom_model::inspection::{NvmeReport, NvmeSmart};

/// Degrees below the warning temperature from which a load is likely to reach it.
const NEAR_CELSIUS: i32 = 5;
/// Endurance used from which a drive is near its end.
const WORN_PERCENT: u8 = 80;
/// Bits of the critical warning.
const WARNINGS: [&str; 6] = [
    "spare capacity is low",
    "temperature is out of range",
    "reliability is degraded",
    "media are read-only",
    "backup of the volatile memory failed",
    "persistent memory region is unreliable",
];

/// Judges an NVMe drive's health log.
fn with_log(disk: &Disk, judge: impl Fn(&NvmeReport, &NvmeSmart) -> Answer) -> Answer {
    let report = super::nvme::report(disk)?;
    let Some(report) = report else { return Ok(None) };
    let log = report.smart.as_ref().ok_or("the controller has no health log")?;
    judge(report, log)
}

check! { CRITICAL_WARNING: Disk, Error {
    id: "nvme-critical-warning",
    title: "critical warnings",
    reads: "SMART / health log, byte 0",
    says: "the drive reports: FOUND",
    good: "none",
    cost: "The drive reports that it is failing or being throttled.",
    why: "NVM Express Base Specification, SMART / Health Information",
    change: "save the data and replace the drive; if only the temperature is named, improve its cooling instead",
    fix: None,
    judge: |disk| with_log(disk, |_, log| {
        let set = WARNINGS.iter().enumerate().filter(|(bit, _)| log.critical_warning >> bit & 1 == 1);
        let names: Vec<&str> = set.map(|(_, name)| *name).collect();
        if log.critical_warning == 0 { good("none") } else { bad(names.join(", "), "none") }
    }),
    case: |i| smart(i).critical_warning = 4,
    near_miss: |i| smart(i).critical_warning = 0,
} }

check! { SPARE: Disk, Error {
    id: "nvme-spare",
    title: "spare capacity",
    reads: "SMART / health log, bytes 3 and 4",
    says: "spare capacity is FOUND; the drive's threshold is WANTED",
    good: "above the drive's threshold",
    cost: "The drive has almost no spare blocks left to replace failing ones.",
    why: "NVM Express Base Specification, Available Spare",
    change: "save the data and replace the drive",
    fix: None,
    judge: |disk| with_log(disk, |_, log| {
        let (spare, least) = (log.spare_percent, log.spare_threshold_percent);
        judged(spare < least, format!("{spare}%"), &format!("{least}% or more"))
    }),
    case: |i| smart(i).spare_percent = 9,
    near_miss: |i| smart(i).spare_percent = 10,
} }

check! { MEDIA_ERRORS: Disk, Warning {
    id: "nvme-media-errors",
    title: "unrecovered media errors",
    reads: "SMART / health log, bytes 160 to 175",
    says: "FOUND unrecovered media errors since the drive was made",
    good: "0",
    cost: "Data was lost, and retries on failing media make some I/Os slow.",
    why: "NVM Express Base Specification, Media and Data Integrity Errors",
    change: "check the data, and replace the drive if the number grows",
    fix: None,
    judge: |disk| with_log(disk, |_, log| judged(log.media_errors > 0, log.media_errors.to_string(), "0")),
    case: |i| smart(i).media_errors = 1,
    near_miss: |i| smart(i).media_errors = 0,
} }

check! { WEAR: Disk, Warning {
    id: "nvme-wear",
    title: "endurance used",
    reads: "SMART / health log, byte 5",
    says: "FOUND of the drive's rated endurance is used",
    good: "below 80%",
    cost: "Worn flash needs more retries and refreshes; above 100%, the drive is beyond its rated endurance.",
    why: "NVM Express Base Specification, Percentage Used",
    change: "plan to replace the drive",
    fix: None,
    judge: |disk| with_log(disk, |_, log| {
        let used = format!("{}%", log.used_percent);
        match log.used_percent {
            0..WORN_PERCENT => good(used),
            WORN_PERCENT..100 => bad_as(Severity::Info, used, "below 80%"),
            _ => bad(used, "below 100%"),
        }
    }),
    case: |i| smart(i).used_percent = 100,
    near_miss: |i| smart(i).used_percent = 79,
} }

check! { TEMPERATURE: Disk, Warning {
    id: "nvme-temperature",
    title: "temperature",
    reads: "SMART / health log, bytes 1 and 2",
    says: "the drive is at FOUND; before a load it should be WANTED",
    good: "more than 5 °C below the drive's warning temperature before a load",
    cost: "The drive is about to throttle itself, and throughput drops during the measurement.",
    why: "NVM Express Base Specification, Composite Temperature and WCTEMP",
    change: "improve the cooling, or wait until the drive has cooled down",
    fix: None,
    judge: |disk| with_log(disk, |report, log| {
        let now = format!("{} °C", log.celsius);
        match report.warning_celsius {
            Some(most) if log.celsius >= most => bad(now, format!("below {most} °C")),
            Some(most) if log.celsius >= most - NEAR_CELSIUS => {
                bad_as(Severity::Info, now, format!("below {} °C", most - NEAR_CELSIUS))
            }
            _ => good(now),
        }
    }),
    case: |i| smart(i).celsius = 80,
    near_miss: |i| smart(i).celsius = 74,
} }

check! { THROTTLING: Disk, Info {
    id: "nvme-throttling",
    title: "thermal throttling so far",
    reads: "SMART / health log, bytes 192 to 231",
    says: "the drive was FOUND",
    good: "never",
    cost: "The drive has overheated under load before; long measurements are likely to be throttled again.",
    why: "NVM Express Base Specification, Warning Composite Temperature Time and Thermal Management",
    change: "improve the cooling",
    fix: None,
    judge: |disk| with_log(disk, |_, log| {
        let times = log.throttle_counts.0.saturating_add(log.throttle_counts.1);
        let minutes = log.warning_minutes.saturating_add(log.critical_minutes);
        let found = format!("throttled {times} times and {minutes} min above its warning temperature");
        if times > 0 || minutes > 0 { bad(found, "never") } else { good("never") }
    }),
    case: |i| smart(i).throttle_counts = (1, 0),
    near_miss: |i| nvme(i).warning_celsius = None,
} }
