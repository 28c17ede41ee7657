//! Where the wall-clock time of a program's threads went.

use crate::doc::{DataColumn, Document, Text, named, number, of, percent, time};
use fathom_analysis::account::{Account, AccountGroup, AccountPart, KINDS};
use fathom_analysis::watch::Observed;
use fathom_model::watch::ThreadState;

const GROUPS_MAX: usize = 8;
/// Shares that round to 0 are omitted.
const SHARE_MIN: f64 = 0.0005;

/// The table of groups by what their threads did, and their waits on devices and for peers.
pub(super) fn account(page: &mut Document, seen: &Observed) {
    let Some(account) = seen.account.account() else { return };
    let mut shown: Vec<&AccountGroup> = account.that_matter().take(GROUPS_MAX).collect();
    // What is watched is never left out in favour of its peers.
    if shown.iter().all(|group| group.peer) {
        shown.truncate(GROUPS_MAX - 1);
        shown.extend(account.groups.iter().find(|group| !group.peer));
    }
    let idle = account.groups.len() - shown.len();
    let all = (account.groups.len() > 1).then_some(&account.all);
    let kinds: Vec<_> = KINDS
        .iter()
        .filter(|(_, states)| {
            let groups = shown.iter().map(|group| &group.parts);
            groups.chain(all).any(|parts| share(parts, states) >= SHARE_MIN)
        })
        .collect();
    let mut columns = vec![DataColumn::text("threads of"), DataColumn::number("threads")];
    columns.extend(kinds.iter().map(|(name, _)| DataColumn::number(name)));
    let row = |name: String, parts: &[AccountPart]| -> Vec<Text> {
        let threads: f64 = parts.iter().map(|part| part.mean_threads).sum();
        let mut cells: Vec<Text> = vec![name.into(), number(threads).into()];
        cells.extend(kinds.iter().map(|(_, states)| match share(parts, states) {
            share if share >= SHARE_MIN => percent(share * 100.0).into(),
            _ => Text::default(),
        }));
        cells
    };
    let mut body = Document::default();
    let of_group = |group: &&AccountGroup| {
        let peer = if group.peer { " (peer)" } else { "" };
        row(format!("{}{peer}", group.name()), &group.parts)
    };
    let sum = all.map(|parts| row("all".into(), parts));
    body.table(columns, shown.iter().map(of_group).chain(sum).collect());
    for group in &shown {
        let waits = waits(group);
        if !waits.is_empty() {
            body.entry(&group.name(), waits);
        }
    }
    basis(&mut body, &account, idle);
    page.section(
        "where the time went, in % of each group's wall-clock time",
        Text::default(),
        body,
    );
}

fn share(parts: &[AccountPart], states: &[ThreadState]) -> f64 {
    let parts = parts.iter().filter(|part| states.contains(&part.state));
    parts.map(|part| part.share).sum()
}

/// How often the threads of a group waited, and for how long.
fn waits(group: &AccountGroup) -> Text {
    let waits = group
        .parts
        .iter()
        .filter(|part| is_detailed(part.state) && part.share >= 0.01 && part.waits_per_s.is_some());
    let waits = waits.map(|part| {
        let is_lock = part.state == ThreadState::FutexBrief;
        let name = if is_lock { "lock" } else { part.state.name() };
        let rate = named(name, of(number(part.waits_per_s.unwrap_or(0.0)), "waits/s"));
        Text::join([rate, named("of", time(part.mean_wait_ns.unwrap_or(0.0)))], " ")
    });
    Text::join(waits, ", ")
}

/// What the account rests on, and what of it the verdict divides; `idle` groups are left out of the table.
fn basis(body: &mut Document, account: &Account, idle: usize) {
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
    let unknown = share(&account.all, &[ThreadState::Unknown]);
    let bound = match (unknown >= SHARE_MIN, 1.0 - account.recorded_share) {
        (true, bound) if bound >= 0.005 => {
            format!("; unknown: what it was in the {:.0}% not recorded", bound * 100.0)
        }
        _ => String::new(),
    };
    body.paragraph(format!("{source}{bound}{others}{idle}"));
    let (wall, threads) =
        (account.wall(), account.all.iter().map(|part| part.mean_threads).sum::<f64>());
    if wall < 0.99 * threads {
        body.paragraph(format!(
            "The verdict divides the time of {wall:.2} of these {threads:.2} threads: not that of idle ones, nor waits for \
             another thread, process or peer whose time is counted"
        ));
    }
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
