//! Where the wall-clock time of a program's threads went.

use crate::doc::{DataColumn, Document, Text, named, number, of, percent, time};
use fathom_analysis::account::{AccountGroup, KINDS};
use fathom_analysis::watch::Observed;
use fathom_model::watch::ThreadState;

const GROUPS_MAX: usize = 8;
/// Shares that round to 0 are omitted.
const SHARE_MIN: f64 = 0.0005;

/// The table of groups by what their threads did, and their waits on devices and for peers.
pub(super) fn account(page: &mut Document, seen: &Observed) {
    let Some(account) = seen.account.account() else { return };
    let groups: Vec<&AccountGroup> = account.that_matter().collect();
    let shown = &groups[..groups.len().min(GROUPS_MAX)];
    let idle = account.groups.len() - shown.len();
    let share = |group: &AccountGroup, states: &[ThreadState]| -> f64 {
        let parts = group.parts.iter().filter(|part| states.contains(&part.state));
        parts.map(|part| part.share).sum()
    };
    let kinds: Vec<_> = KINDS
        .iter()
        .filter(|(_, states)| shown.iter().any(|group| share(group, states) >= SHARE_MIN))
        .collect();
    let mut columns = vec![DataColumn::text("threads of"), DataColumn::number("threads")];
    columns.extend(kinds.iter().map(|(name, _)| DataColumn::number(name)));
    let row = |group: &&AccountGroup| -> Vec<Text> {
        let peer = if group.peer { " (peer)" } else { "" };
        let mut cells: Vec<Text> =
            vec![format!("{}{peer}", group.name()).into(), number(group.mean_threads).into()];
        cells.extend(kinds.iter().map(|(_, states)| match share(group, states) {
            share if share >= SHARE_MIN => percent(share * 100.0).into(),
            _ => Text::default(),
        }));
        cells
    };
    let mut body = Document::default();
    body.table(columns, shown.iter().map(row).collect());
    for group in shown {
        let waits = group.parts.iter().filter(|part| {
            is_detailed(part.state) && part.share >= 0.01 && part.waits_per_s.is_some()
        });
        let waits = waits.map(|part| {
            let rate =
                named(part.state.name(), of(number(part.waits_per_s.unwrap_or(0.0)), "waits/s"));
            Text::join([rate, named("of", time(part.mean_wait_ns.unwrap_or(0.0)))], " ")
        });
        let waits = Text::join(waits, ", ");
        if !waits.is_empty() {
            body.entry(&group.name(), waits);
        }
    }
    let source = match account.recorded_share {
        0.0 => "from the scheduler's statistics and samples".into(),
        share if share >= 0.95 => "from the scheduler's statistics and all context switches".into(),
        share => format!(
            "from the scheduler's statistics, and context switches in {:.0}% of the time",
            share * 100.0
        ),
    };
    let idle = match idle {
        0 => String::new(),
        1 => "; 1 group of less active threads is left out".into(),
        n => format!("; {n} groups of less active threads are left out"),
    };
    let others = match account.others {
        0 => String::new(),
        n => format!("; up to {n} further threads are known only together, from samples"),
    };
    body.paragraph(format!("{source}{others}{idle}"));
    page.section(
        "where the time went, in % of each group's wall-clock time",
        Text::default(),
        body,
    );
}

/// Whether number and time of such waits are of interest.
fn is_detailed(state: ThreadState) -> bool {
    use ThreadState as S;
    matches!(
        state,
        S::Disk
            | S::Flush
            | S::PageFault
            | S::KernelLock
            | S::FutexBrief
            | S::Socket
            | S::Poll
            | S::Pipe
    )
}

/// Without an account no section is written.
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_said_without_threads() {
        let mut page = Document::default();
        account(&mut page, &Observed::default());
        assert!(page.blocks.is_empty());
    }
}
