//! What `fathom run` reports when it did nothing.

use crate::output::{self, Destination};
use crate::stdio::{Kind, error};
use fathom_model::outcome::{Outcome, RecordKind};
use fathom_model::record::Header;
use fathom_model::{Facts, RunRecord};
use fathom_runner::new_header;
use fathom_spec::Spec;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::process::ExitCode;

/// Whether a command line that cannot be parsed requests JSON.
pub fn asks_for_json(args: &[String]) -> bool {
    let names = |list: &str| list.split(',').any(|word| word.starts_with("json"));
    let mut args = args.iter().map(|arg| arg.trim_start_matches('-')).peekable();
    while let Some(option) = args.next() {
        let next = args.peek().copied().unwrap_or_default();
        let list = match option {
            "json" => return true,
            "output-format" | "format" => Some(next),
            _ => option.strip_prefix("output-format=").or(option.strip_prefix("format=")),
        };
        if list.is_some_and(names) {
            return true;
        }
    }
    false
}

/// Prints why nothing was done, all but the last error, which it returns. If JSON is requested, it is also written as
/// JSON, to the destination of the results of `request`; `job_files` were read for it.
///
/// # Errors
/// Always: the last error.
pub fn explain<E: ToString>(
    errors: Vec<E>,
    request: &Spec,
    job_files: &[String],
    json: bool,
) -> Result<ExitCode, String> {
    let mut errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
    if json {
        let outcome = Outcome::Refused { because: errors.join("; ") };
        let header = new_header(RecordKind::Run, Facts::default());
        let header = Header { outcome, ..header };
        let record = RunRecord { header, ..RunRecord::default() };
        let text = fathom_report::fio_json::render(&record, false);
        let to = destination(request, job_files);
        // The errors matter more than one of printing them.
        let _ = output::emit(&text, Kind::Json, to.as_ref());
    }
    let last = errors.pop().unwrap_or_default();
    errors.iter().for_each(|error| error!("{error}"));
    Err(last)
}

/// The file of `--output`, unless it may be anything but the result of another run: what could not be
/// understood may have been its use as a target.
fn destination(request: &Spec, job_files: &[String]) -> Option<Destination> {
    let file = request.output.file.as_ref()?;
    let targets = request.target_paths().ok()?;
    let targets = targets.iter().map(|target| &target.path);
    let used = targets.chain(job_files).map(String::as_str);
    let to = Destination::open(file, used).ok()?;
    let mut first = [0];
    let is_result = match File::open(file).and_then(|mut file| file.read(&mut first)) {
        Ok(read) => read == 0 || first == [b'{'],
        Err(error) => error.kind() == ErrorKind::NotFound,
    };
    (is_result || !matches!(to, Destination::File(..))).then_some(to)
}
