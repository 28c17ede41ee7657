//! `docs/fio-compat.md` contains the tables generated from the code.

use fathom_spec::{Action, Key, KeyGroup, key_help, keys, run_manual, run_options};
use std::fmt::Write;
use std::path::Path;

const BEGIN: &str =
    "<!-- tables: begin; made by FATHOM_UPDATE_DOCS=1 cargo test -p fathom-spec the_document -->\n";
const END: &str = "<!-- tables: end -->\n";

fn compat_table() -> String {
    let mut text = String::new();
    for group in KeyGroup::ALL.into_iter().filter(|group| *group != KeyGroup::Refused) {
        let _ = write!(
            text,
            "### {}\n\n| key | value | description | difference from fio |\n|---|---|---|---|\n",
            group.name()
        );
        for key in keys().filter(|key| key.group == group) {
            let names: Vec<String> = key.names().map(|name| format!("`{name}`")).collect();
            let form = key.takes.form().replace('|', "\\|");
            let names = names.join(", ");
            let _ = writeln!(text, "| {names} | `{form}` | {} | {} |", key.doc, key.differs);
        }
        text.push('\n');
    }
    text.push_str(
        "### Refused keys\n\n| keys | description | reason, and alternative |\n|---|---|---|\n",
    );
    let refused: Vec<&Key> = keys().filter(|key| key.group == KeyGroup::Refused).collect();
    for same in refused.chunk_by(|a, b| a.doc == b.doc) {
        let Action::Refuse(why) = same[0].action else { continue };
        let names: Vec<String> = same.iter().map(|key| format!("`{}`", key.name)).collect();
        let _ = writeln!(text, "| {} | {} | {why} |", names.join(", "), same[0].doc);
    }
    text.push_str("\n### Options\n\n| option | description | reason if refused, and alternative |\n|---|---|---|\n");
    for option in run_options() {
        let refusal = option.refusal().unwrap_or_default();
        let _ = writeln!(text, "| `--{}` | {} | {refusal} |", option.name, option.doc);
    }
    text
}

/// With `FATHOM_UPDATE_DOCS=1`, updates the document instead.
#[test]
fn the_document_holds_the_tables() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/fio-compat.md");
    let text = std::fs::read_to_string(&path).unwrap();
    let (head, rest) = text.split_once(BEGIN).expect("the marker before the tables");
    let (tables, tail) = rest.split_once(END).expect("the marker after the tables");
    let current = format!("\n{}\n", compat_table());
    if std::env::var_os("FATHOM_UPDATE_DOCS").is_some() {
        std::fs::write(&path, format!("{head}{BEGIN}{current}{END}{tail}")).unwrap();
        return;
    }
    assert!(
        tables == current,
        "docs/fio-compat.md is out of date; run\n  \
         FATHOM_UPDATE_DOCS=1 cargo test -p fathom-spec the_document"
    );
}

#[test]
fn every_key_has_help() {
    for key in keys() {
        for name in key.names() {
            assert!(key_help(name).unwrap().contains(key.doc), "{name}");
        }
    }
    assert!(key_help("output").unwrap().contains("--output=FILE"));
    assert!(key_help("client").unwrap().contains("Refused"));
    assert!(key_help("iodeth").unwrap_err().to_string().contains("iodepth"));
    let manual = run_manual();
    let forms: Vec<&str> =
        manual.iter().flat_map(|(_, all)| all).map(|(f, _)| f.as_str()).collect();
    for word in ["--output-format=", "--erase=", "--overwrite=PATH", "iodepth=", "rw|readwrite="] {
        assert!(forms.iter().any(|form| form.contains(word)), "{word}");
    }
}

/// Keys that people's job files use: none of them is simply unknown.
const USED: &str = "rw readwrite ioengine bs blocksize size iodepth filename direct numjobs \
    stonewall runtime time_based group_reporting thread verify name norandommap filesize directory \
    nrfiles offset io_size buffered rwmixread rwmixwrite startdelay bssplit bsrange loops \
    number_ios ramp_time randrepeat randseed invalidate refill_buffers end_fsync fsync \
    fsync_on_close create_on_open create_only filename_format write_bw_log write_lat_log \
    write_iops_log log_avg_msec percentile_list lat_percentiles clat_percentiles gtod_reduce \
    description new_group exitall unlink fallocate overwrite rate rate_iops cpus_allowed \
    cpus_allowed_policy fixedbufs registerfiles hipri hybrid_iopoll sqthread_poll sqthread_poll_cpu nonvectored \
    force_async iodepth_batch iodepth_batch_submit iodepth_batch_complete_min \
    iodepth_batch_complete_max iodepth_low random_distribution random_generator zero_buffers \
    buffer_pattern buffer_compress_percentage dedupe_percentage do_verify verify_fatal \
    verify_backlog verify_pattern verify_dump verify_interval steadystate ss ss_dur ss_ramp \
    latency_target latency_window latency_percentile latency_run rate_process thinktime \
    disable_lat disable_clat disable_slat write_hist_log log_hist_msec log_unix_epoch \
    unified_rw_reporting kb_base unit_base clocksource continue_on_error ignore_error wait_for \
    offset_increment openfiles file_service_type fill_device fdatasync zonemode zonesize \
    max_open_zones numa_cpu_nodes numa_mem_policy per_job_logs allow_mounted_write read_iolog mem";

#[test]
fn keys_that_people_use_are_known() {
    for name in USED.split_whitespace() {
        assert!(fathom_spec::find_key(name).is_some(), "{name}");
    }
}
