//! Verification of data.

use crate::job::Job;
use crate::value::{KeyValue, verify_pattern};
use fathom_model::cpus;
use fathom_model::plan::VerifyMethod;

keys! { Verify;
    value("METHOD") "verify": "Verify data: how wrong data is recognized",
        "Wrong data is described: zeroes, an older write, another place, torn, single bits."
        @off "none" = method;
    any "do_verify": "Read back what was written, once all is" -> verification.read_back;
    any "verify_only": "Read back what the job would write, without writing it"
        -> verification.only;
    value("SIZE") "verify_interval": "Give every SIZE bytes of an I/O a header of their own"
        => verification.interval = count32(0, 1 << 30);
    value("BYTES") "verify_offset": "Where in each interval the header is"
        => verification.header_offset = count32(0, 1 << 30);
    value("BYTES") "verify_pattern": "Write this repeating pattern, with %o for the offset of the block",
        "A pattern, with the files in it, has at most 1 MiB."
        = pattern;
    value("SIZE") "verify_pattern_interval": "Begin the pattern again, with a new offset, every SIZE bytes"
        => verification.pattern_interval = count32(0, 1 << 30);
    value("N") "verify_backlog": "Read back after every N writes, not only at the end",
        "I/Os in flight complete first."
        => verification.backlog = count32(0, u32::MAX);
    value("N") "verify_backlog_batch": "Read back so many writes then, not all"
        => verification.backlog_batch = count32(0, u32::MAX);
    any "verify_fatal": "End the job at the first wrong block, whatever continue_on_error says"
        -> verification.fatal;
    any "verify_write_sequence": "Require the number of the last write of each block"
        => |job, v| job.verify_sequence = Some(v.flag()?);
    any "verify_header_seed": "Require the seed of the last write of each block"
        => |job, v| job.verify_seed = Some(v.flag()?);
    any "verify_state_save": "At the end, write to a file which writes took place",
        "local-NAME-NUMBER-verify.state, in the format of fio, in the working directory or that of --aux-path; without \
         the key, only if started as fio."
        => |job, v| job.verify_state_save = Some(v.flag()?);
    any "verify_state_load": "Verify only the writes that such a file has" -> verification.load_state;
    value("completed|fsynced") "verify_policy": "Which writes go into that file: all that completed, or those before the last flush",
        "What the job itself reads back is flushed before, and is all it wrote."
        => verification.fsynced = choice(&[("completed", false), ("fsynced", true)]);
    value("PERCENT") "trim_percentage": "Trim this percentage of the written blocks, before they are verified",
        "Needs trim_backlog." => verify_trims.percent = percent();
    value("N") "trim_backlog": "After how many writes to trim" => verify_trims.backlog = count(0, u64::MAX);
    value("N") "trim_backlog_batch": "How many blocks to trim then", "By default trim_backlog."
        => verify_trims.batch = count(0, u64::MAX);
    any "trim_verify_zero": "Require zeroes of trimmed blocks, which are not read otherwise" -> verify_trims.zero;
    any "experimental_verify": "Generate the writes once more, to know what they were", "No effect: it is known."
        = super::accept_flag;
    any "verifysort": "Read back in the order of offsets", "No effect: always so, but for verify_backlog."
        = super::accept_flag;
    value("N") "verifysort_nr": "Blocks to sort at once", "No effect: all are."
        => |_, v| {
            v.count32(0, u32::MAX)?;
        };
    value("N") "verify_async": "Threads that check data beside the worker, which share the I/Os that complete together",
        "The worker checks, too, and I/Os that complete alone. More than iodepth have nothing to do."
        => verification.threads = count(0, 1 << 10);
    value("LIST") "verify_async_cpus": "CPUs of those threads; by default those of the job"
        => |job, v| job.verification.thread_cpus = cpus::parse(v.text)?;
    any "verify_dump": "Write wrong blocks to FILE.OFFSET.received, and what they should be to FILE.OFFSET.expected",
        "Of the wrong blocks that the result lists. In the working directory, or that of --aux-path. Files that fathom did \
         not write are not replaced."
        => |job, v| job.verification.dump = v.flag()?.then(String::new);
}

fn method(job: &mut Job, v: KeyValue<'_>) -> Result<(), String> {
    let names = VerifyMethod::ALL.map(|method| (method.name(), Some(method)));
    let more = [("0", None), ("none", None), ("crc32c-intel", Some(VerifyMethod::Crc32c))];
    job.verify_method = Some(v.choice(&[names.as_slice(), &more].concat())?);
    Ok(())
}

fn pattern(job: &mut Job, v: KeyValue<'_>) -> Result<(), String> {
    (job.verification.pattern, job.verification.offsets) = verify_pattern(v.text)?;
    Ok(())
}
