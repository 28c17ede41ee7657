//! Priorities of single I/Os.

use crate::job::{JobSpec, PriorityShare};
use crate::value::{KeyValue, triple};
use fathom_model::plan::CommandPriority;
use fathom_model::{Dir, PerDir};

const ENGINES: &str = "For libaio and io_uring.";

keys! {
    value("PERCENT[,PERCENT]") "cmdprio_percentage": "Percentage of reads and writes with a priority of their own",
        ENGINES = |job, v| triple(v, &mut job.priorities.percent, |v| v.percent());
    value("CLASS[,CLASS]") "cmdprio_class": "Their class: 0 none, 1 real time (the default), 2 best effort, 3 idle"
        = |job, v| triple(v, &mut job.priorities.class, |v| small(v, 3));
    value("LEVEL[,LEVEL]") "cmdprio": "Their level, 0 (the highest) to 7"
        = |job, v| triple(v, &mut job.priorities.level, |v| small(v, 7));
    value("HINT[,HINT]") "cmdprio_hint": "Their hint, 0 to 1023"
        = |job, v| triple(v, &mut job.priorities.hint, |v| small(v, 1023));
    value("SIZE/PERCENT[/CLASS/LEVEL[/HINT]]:…[,…]") "cmdprio_bssplit": "Percentage of the I/Os of each block size \
         with a priority of their own",
        ENGINES = |job, v| triple(v, &mut job.priorities.split, split);
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

impl JobSpec {
    pub(crate) fn command_priorities(&self) -> PerDir<Vec<CommandPriority>> {
        let spec = &self.priorities;
        PerDir::from_fn(|dir| {
            // As in ioprio_set(2).
            let value = |[class, level, hint]: [u16; 3]| class << 13 | hint << 3 | level;
            let default = [spec.class[dir], spec.level[dir], spec.hint[dir]];
            let all = (None, spec.percent[dir], None);
            let split =
                spec.split[dir].iter().map(|part| (Some(part.block), part.percent, part.own));
            let rules = split
                .chain([all])
                .filter(|(_, percent, _)| *percent > 0 && dir != Dir::Trim)
                .map(|(block, percent, own)| CommandPriority {
                    block,
                    percent,
                    value: value(own.unwrap_or(default)),
                });
            rules.collect()
        })
    }
}
