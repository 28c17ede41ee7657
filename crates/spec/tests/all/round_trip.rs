//! A job file printed as a command line parses to the same jobs.

use crate::common::{OneFile, job};
use fathom_spec::{Given, Job, parse};
use proptest::prelude::*;

/// Keys with valid values.
const SAMPLES: &[(&str, &[&str])] = &[
    ("rw", &["read", "randwrite", "randrw:8", "read:-8k", "trim"]),
    ("bs", &["4k", "4k,8k", ",16k", "4kib", "512"]),
    ("iodepth", &["1", "32", "128"]),
    ("numjobs", &["1", "4"]),
    ("filename", &["/dev/disk", "a:b", "c\\:d", "${DISK}1"]),
    ("directory", &["/data", "x:y"]),
    ("size", &["1g", "10%", "4096"]),
    ("filesize", &["1m", "1m-2m"]),
    ("kb_base", &["1000", "1024"]),
    ("runtime", &["10", "5ms", "1h"]),
    ("time_based", &["", "0", "1"]),
    ("rate", &["1m", ",500k", "500k,"]),
    ("random_distribution", &["zipf:1.2", "random", "zoned:60/10:40/90", "normal:10"]),
    ("ioengine", &["libaio", "psync", "nop", "io_uring_cmd"]),
    ("buffer_pattern", &["0xdeadbeef", "\"abc\"", "-1"]),
    ("cpus_allowed", &["0-3", "1,2"]),
    ("percentile_list", &["50:99:99.9"]),
    ("ignore_error", &["EIO,28:ENOSPC"]),
    ("stonewall", &["", "1"]),
    ("startdelay", &["1", "1-5"]),
    ("overwrite", &["1", "0"]),
    ("name", &["other", "with blank"]),
    ("description", &["a = b"]),
];

fn lines() -> impl Strategy<Value = Vec<String>> {
    let line = (0..SAMPLES.len(), any::<prop::sample::Index>()).prop_map(|(key, value)| {
        let (key, values) = SAMPLES[key];
        match values[value.index(values.len())] {
            "" => key.to_string(),
            value => format!("{key}={value}"),
        }
    });
    prop::collection::vec(line, 0..6)
}

fn job_file() -> impl Strategy<Value = String> {
    let section = (any::<bool>(), lines());
    prop::collection::vec(section, 1..6).prop_map(|sections| {
        let mut text = String::new();
        for (number, (global, lines)) in sections.into_iter().enumerate() {
            let name = if global { "global".to_string() } else { format!("job {number}") };
            text.push_str(&format!("[{name}]\n{}\n", lines.join("\n")));
        }
        text
    })
}

/// The jobs without the list of keys as given.
fn bare(jobs: &[Job]) -> Vec<Job> {
    jobs.iter().map(|job| Job { given: Vec::<Given>::new(), place: None, ..job.clone() }).collect()
}

#[test]
fn a_size_keeps_the_base_of_its_section() {
    let text = "[global]\nbs=4k\n[global]\nbs=,16k\nkb_base=1000\n[a]\nfilename=x\nsize=1m\n";
    let spec = job(text).unwrap();
    let again = parse(&spec.show_command(), &OneFile("")).unwrap();
    assert_eq!(bare(&again.jobs), bare(&spec.jobs));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn shown_commands_read_back(text in job_file()) {
        // Files with conflicting keys are errors.
        if let Ok(spec) = job(&text) {
            let command = spec.show_command();
            let again = parse(&command, &OneFile("")).unwrap();
            prop_assert_eq!(bare(&again.jobs), bare(&spec.jobs), "{:?}", command);
        }
    }

    #[test]
    fn any_command_line_is_read_or_refused(args in prop::collection::vec("(--?)?[a-z_]{0,12}(=\\PC{0,12})?", 0..8)) {
        let _ = parse(&args, &OneFile("[a]\nbs=4k"));
    }
}
