//! Priorities of single I/Os.

use crate::job::PriorityShare;
use crate::value::{KeyValue, triple};

use fathom_model::plan::Engine;

const ENGINES: &str = "For libaio and io_uring.";

keys! { Schedule;
    value("PERCENT[,PERCENT]") "cmdprio_percentage": "Percentage of reads and writes with a priority of their own",
        ENGINES
        @(Engine::IoUring(_) | Engine::Libaio) = |job, v| triple(v, &mut job.cmdprio_percentage, KeyValue::percent);
    value("CLASS[,CLASS]") "cmdprio_class": "Their class: 0 none, 1 real time (the default), 2 best effort, 3 idle"
        = |job, v| triple(v, &mut job.cmdprio_class, |v| small(v, 3));
    value("LEVEL[,LEVEL]") "cmdprio": "Their level, 0 (the highest) to 7"
        = |job, v| triple(v, &mut job.cmdprio, |v| small(v, 7));
    value("HINT[,HINT]") "cmdprio_hint": "Their hint, 0 to 1023"
        = |job, v| triple(v, &mut job.cmdprio_hint, |v| small(v, 1023));
    value("SIZE/PERCENT[/CLASS/LEVEL[/HINT]]:…[,…]") "cmdprio_bssplit": "Percentage of the I/Os of each block size \
         with a priority of their own",
        ENGINES
        @(Engine::IoUring(_) | Engine::Libaio) = |job, v| triple(v, &mut job.cmdprio_bssplit, split);
}

fn small(v: KeyValue<'_>, max: u32) -> Result<u16, String> {
    Ok(v.count32(0, max)? as u16)
}

fn split(v: KeyValue<'_>) -> Result<Vec<PriorityShare>, String> {
    v.text.split(':').map(|entry| parse_entry(v, entry)).collect()
}

fn parse_entry(v: KeyValue<'_>, text: &str) -> Result<PriorityShare, String> {
    let fields: Vec<KeyValue<'_>> = text.split('/').map(|field| v.with(field.trim())).collect();
    let own = match fields.as_slice() {
        [_, _] => None,
        [_, _, class, level] => Some([small(*class, 3)?, small(*level, 7)?, 0]),
        [_, _, class, level, hint] => {
            Some([small(*class, 3)?, small(*level, 7)?, small(*hint, 1023)?])
        }
        _ => return Err(format!("invalid entry '{text}'; write it as 64k/50 or 64k/50/1/0")),
    };
    Ok(PriorityShare { block: fields[0].size()?, percent: fields[1].count32(0, 100)?, own })
}
