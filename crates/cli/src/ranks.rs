//! fathom as one of several that a launcher started: rank 0 reads the command and the job files for all, all begin at the same
//! time, and rank 0 prints one result.

use crate::Command;
use crate::page::{self, PageArgs};
use crate::signals::Signals;
use crate::stdio::{self, error};
use fathom_analysis::hosts::{HostsReport, InspectedHost};
use fathom_analysis::ranks::{OfRank, merge, over_time};
use fathom_analysis::watch::Observed;
use fathom_engine::clock::unix_ns;
use fathom_machine::{Roots, device};
use fathom_model::facts::{HeldBy, TargetFacts, TargetKind};
use fathom_model::plan::Target;
use fathom_model::record::RunRecord;
use fathom_model::{Dir, Facts, Plan, Progress, escape, list, split_mix};
use fathom_runner::ranks::{ClockBounds, Gate, Given, Lost, Ranks, Reading, Status, Together};
use fathom_spec::{Output, Share};
use std::cell::{Cell, RefCell};
use std::time::Duration;

/// The launcher's variable without which there are no ranks.
const FD: &str = "PMI_FD";
/// Rank 0 reads standard input or a slow file system in this time.
const READ: Duration = Duration::from_secs(120);
/// A record is merged and sent within this time.
const GATHER: Duration = Duration::from_secs(120);

/// This rank, until the jobs are resolved.
pub struct Joined {
    ranks: Ranks,
    signals: Signals,
    clock: ClockBounds,
}

/// This rank, while its run is prepared and in progress.
pub struct Member {
    together: RefCell<Together>,
    /// Between two runs.
    pub ranks: RefCell<Option<Ranks>>,
    pub rank: u32,
    pub size: u32,
    host: String,
    clock: Cell<ClockBounds>,
    pub signals: Signals,
}

/// Whether a launcher started this one, and it is not to ignore that.
pub fn is_one_of_several(no_ranks: bool) -> bool {
    !no_ranks && std::env::var_os(FD).is_some()
}

/// Joins the other ranks, if there are any and `args` do not say otherwise.
pub fn join(args: &[String]) -> Result<Option<Joined>, String> {
    let var = |name: &str| std::env::var(name).ok();
    if var(FD).is_none() || args.iter().any(|arg| arg == "--no-ranks") {
        return Ok(None);
    }
    let signals = Signals::take()?;
    signals.ignore_loss()?;
    let Some(ranks) = Ranks::join(var, signals.cancel_token())? else { return Ok(None) };
    Ok(Some(Joined { ranks, signals, clock: ClockBounds::NONE }))
}

/// The same for other commands than `run`: this rank, rank 0's command line, and the `text` that rank 0 makes for all.
pub fn joined(
    no_ranks: bool,
    last: Gate,
    text: &dyn Fn() -> String,
) -> Result<Option<(Member, Vec<String>, String)>, String> {
    if !is_one_of_several(no_ranks) {
        return Ok(None);
    }
    let own = crate::utf8(std::env::args_os().collect())?;
    let Some(mut joined) = join(&own)? else { return Ok(None) };
    let first = joined.is_first().then(|| Reading::default().given(&own, text()));
    let Some(given) = joined.share(first)? else {
        return Err("rank 0 has no command".into());
    };
    joined.begin(given, last).map(|(member, args, received)| Some((member, args, received.text)))
}

/// How each rank's host differs from the others, printed by rank 0: `own` is the JSON of one. `None` without ranks; otherwise
/// whether all were inspected, and the report.
pub fn compare_hosts(
    name: &str,
    no_ranks: bool,
    page: &PageArgs,
    own: impl FnOnce(&Command) -> Result<String, String>,
) -> Result<Option<(bool, HostsReport)>, String> {
    let joined = joined(no_ranks, Gate::Done, &String::new)?;
    let Some((member, args, _)) = joined else { return Ok(None) };
    let is_first = member.rank == 0;
    let to = if is_first { page.destination(None) } else { Ok(None) };
    let found = to.map(|to| {
        let parsed = crate::parsed_again(&args);
        (to, parsed.and_then(|command| own(&command)))
    });
    let Some(((to, found), mut ranks)) = member.in_step(Gate::Done, found) else {
        return Ok(Some((false, HostsReport::default())));
    };
    let host = fathom_machine::host(&Roots::default()).hostname;
    let all = ranks.gather(&(host, found), GATHER).map_err(|lost| lost.to_string());
    // The launcher may have gone already.
    let _ = ranks.leave();
    let (mut hosts, mut failed) = (Vec::new(), Vec::new());
    for (host, found) in all? {
        let json = found.and_then(|text| serde_json::from_str(&text).map_err(|e| e.to_string()));
        let read =
            |json| InspectedHost::of_json(&host, &json).ok_or("its result is damaged".into());
        match json.and_then(read) {
            Ok(inspected) => hosts.push(inspected),
            Err(why) => failed.push((host, why)),
        }
    }
    let report = HostsReport::of(&hosts).with_failed(&failed);
    if is_first {
        page::print_hosts(name, &report, page, to.as_ref())?;
    }
    Ok(Some((failed.is_empty(), report)))
}

impl Joined {
    pub fn is_first(&self) -> bool {
        self.ranks.rank == 0
    }

    /// Ends in order, without a run.
    pub fn leave(mut self) {
        // The launcher may have gone already.
        let _ = self.ranks.leave();
    }

    /// What rank 0 has read for all, its `own`. `None` if it could not parse it.
    pub fn share(&mut self, own: Option<Given>) -> Result<Option<Given>, String> {
        let own = own.unwrap_or_default();
        let who = format!("rank {} of {}", self.ranks.rank, self.ranks.size);
        let told = |lost: Lost| format!("{who}: {lost}");
        let given = self.ranks.broadcast(&own, READ).map_err(told)?;
        if given.is_refused {
            return Ok(None);
        }
        self.clock = self.ranks.compare_clocks(READ).map_err(told)?;
        Ok(Some(given))
    }

    /// Begins to tell the others how far this rank is, until all have reached the gate `last`; the command line, and the sources
    /// of its jobs.
    pub fn begin(self, given: Given, last: Gate) -> Result<(Member, Vec<String>, Reading), String> {
        let (rank, size) = (self.ranks.rank, self.ranks.size);
        let host = fathom_machine::host(&Roots::default()).hostname;
        let (args, received) = given.received(rank, size, &host);
        let together = Together::begin(self.ranks, &host, self.signals.cancel_token(), last)?;
        let Self { signals, clock, .. } = self;
        let (together, clock, ranks) =
            (RefCell::new(together), Cell::new(clock), RefCell::default());
        let member = Member { together, ranks, rank, size, host, clock, signals };
        Ok((member, args, received))
    }
}

impl Member {
    /// Waits at `gate` for the others, with what this rank got there. `None` if one of them cannot take part: rank 0 says why.
    ///
    /// # Errors
    /// On rank 0, the reasons of all ranks.
    pub fn reach<T>(
        &self,
        gate: Gate,
        own: Result<T, Vec<String>>,
    ) -> Result<Option<T>, Vec<String>> {
        let (own, refusals) = match own {
            Ok(own) => (Some(own), Vec::new()),
            Err(refusals) => (None, refusals),
        };
        match self.together.borrow().reach(gate, refusals) {
            Ok(()) => Ok(own),
            Err(all) if self.rank == 0 => Err(all),
            Err(_) => Ok(None),
        }
    }

    /// The same, where rank 0 prints the reasons.
    pub fn pass<T>(&self, gate: Gate, own: Result<T, String>) -> Option<T> {
        self.reach(gate, own.map_err(|why| vec![why])).unwrap_or_else(|all| {
            all.iter().for_each(|why| error!("{why}"));
            None
        })
    }

    /// Waits until all ranks have reached the last gate, where this one has `own`; then they do everything in step. `None` if one
    /// of them cannot take part: rank 0 has said why.
    pub fn in_step<T>(self, last: Gate, own: Result<T, String>) -> Option<(T, Ranks)> {
        let own = self.pass(last, own)?;
        match self.together.borrow().end() {
            (Some(ranks), None) => Some((own, ranks)),
            (_, lost) => {
                lost.iter().for_each(|lost| error!("{lost}"));
                None
            }
        }
    }

    /// Gives this rank its share of the plan's regions, and tells the others what it would write where they might.
    pub fn share(&self, plan: &mut Plan, facts: &Facts, output: &Output) -> Result<(), String> {
        let share = output.share;
        if share == Some(Share::Split) {
            split(plan, self.rank, self.size)?;
        }
        if self.rank > 0 {
            // Not all read the same blocks at the same time, which would come from a cache.
            let unverified = plan.jobs.iter_mut().filter(|job| job.verify.is_none());
            unverified.for_each(|job| {
                job.access.seed = split_mix::nth(job.access.seed, self.rank.into())
            });
        }
        let is_checked = matches!(share, None | Some(Share::Own));
        let writers = plan.jobs.iter().filter(|job| job.used_dirs().any(Dir::modifies));
        let written = writers
            .flat_map(|job| &job.regions)
            .filter_map(|region| facts.targets.get(region.target));
        let (shared, here): (Vec<&TargetFacts>, Vec<&TargetFacts>) =
            written.partition(|target| target.held_by == HeldBy::Hidden);
        let devices = here.iter().filter_map(|target| on_other_hosts(target));
        let shared = shared.into_iter().map(|target| target.resolved.clone()).chain(devices);
        let shared = shared.filter(|_| is_checked).collect::<Vec<_>>();
        let here = here.into_iter().chain(laid_out(plan, facts));
        let host = &facts.host;
        let boot = host.boot_id.get(..8).unwrap_or(&host.boot_id);
        let here = here.map(|target| {
            let path = if target.resolved.is_empty() { &target.path } else { &target.resolved };
            format!("{path} (on {}, boot {boot})", host.hostname)
        });
        let journal = output.journal.iter().map(|dir| format!("--journal={dir}"));
        let all = shared.into_iter().chain(here).chain(journal);
        self.together.borrow().writes(list::ascending(all));
        Ok(())
    }

    /// Waits until all ranks are ready, and then until the common start.
    pub fn start(&self) -> Result<(), String> {
        let together = self.together.borrow();
        together.reach(Gate::Ready, Vec::new()).map_err(|why| why.join("; "))?;
        let start = together.start_unix_ns().unwrap_or(0);
        let start = start.saturating_add_signed(self.clock.get().offset_ns());
        std::thread::sleep(Duration::from_nanos(start.saturating_sub(unix_ns())));
        Ok(())
    }

    pub fn progress(&self, progress: &Progress) {
        let counts =
            || progress.jobs.iter().flat_map(|job| job.dirs.iter().map(|(_, counts)| counts));
        self.together
            .borrow()
            .progress(counts().map(|c| c.ios).sum(), counts().map(|c| c.bytes).sum());
    }

    /// What all ranks did so far, for the progress line of rank 0.
    pub fn all(&self) -> Vec<Status> {
        self.together.borrow().all()
    }

    /// Makes `record` that of all ranks, on rank 0; whether none was lost. What `observed` holds of its jobs over time comes with
    /// it.
    pub fn merge(&self, record: &mut RunRecord, observed: &Observed) -> bool {
        let together = self.together.borrow();
        let reached = together.reach(Gate::Done, Vec::new());
        let own = || OfRank {
            record: record.clone(),
            over_time: over_time(&observed.jobs_over_time.spans()),
            clock_offset_ns: self.clock.get().offset_ns(),
            clock_error_ns: self.clock.get().error_ns(),
        };
        let (ranks, lost) = together.end();
        let gathered = match (reached, ranks, lost) {
            (Ok(()), Some(mut ranks), None) => ranks.gather(&own(), GATHER).inspect(|_| {
                *self.ranks.borrow_mut() = Some(ranks);
            }),
            (_, ranks, Some(lost)) => {
                // A launcher may kill the others once one ends without a word.
                let _ = ranks.map(|mut ranks| ranks.leave());
                Err(lost)
            }
            (reached, ..) => {
                let why = reached.err().filter(|why| !why.is_empty());
                let why = why.unwrap_or_else(|| vec!["another rank ended without a result".into()]);
                Err(Lost::Ended(why.join("; ")))
            }
        };
        match gathered {
            Ok(all) => {
                if let Some(merged) = merge(all) {
                    *record = merged;
                }
                true
            }
            Err(lost) => {
                self.report_lost(&lost);
                false
            }
        }
    }

    /// Begins another run of all, if this rank and all others want one; whether there is one.
    pub fn again(&self, wants: bool) -> Result<bool, String> {
        let Some(mut ranks) = self.ranks.take() else { return Ok(false) };
        let mut agree = || {
            let all = ranks.gather(&wants, GATHER)?;
            let goes_on = ranks.broadcast(&all.iter().all(|wants| *wants), GATHER)?;
            let clock = if goes_on { ranks.compare_clocks(GATHER)? } else { self.clock.get() };
            Ok((goes_on, clock))
        };
        let (goes_on, clock) = agree().map_err(|lost: Lost| lost.to_string())?;
        if !goes_on {
            *self.ranks.borrow_mut() = Some(ranks);
            return Ok(false);
        }
        let together = Together::begin(ranks, &self.host, self.signals.cancel_token(), Gate::Done)?;
        *self.together.borrow_mut() = together;
        self.clock.set(clock);
        Ok(true)
    }

    pub fn leave(&self) {
        // The launcher may have gone already.
        let _ = self.ranks.take().map(|mut ranks| ranks.leave());
    }

    /// Says that this rank has the result of its own host only, and on rank 0 how far the others were.
    fn report_lost(&self, lost: &Lost) {
        let host = escape::text(&self.host);
        error!("{lost}; {host} (rank {} of {}) has its own result only", self.rank, self.size);
        if self.rank > 0 {
            return;
        }
        for (rank, status) in self.all().iter().enumerate().skip(1) {
            let (host, ios) = (escape::text(&status.host), status.ios);
            stdio::info(&format!("fathom: {host} (rank {rank}): {ios} I/Os when last heard of"));
        }
    }
}

/// Leaves of each region the part of one rank, in whole blocks.
fn split(plan: &mut Plan, rank: u32, size: u32) -> Result<(), String> {
    for job in &mut plan.jobs {
        let block = job.block_max().max(1);
        let whole: u64 = job.regions.iter().map(|region| region.len).sum();
        for region in &mut job.regions {
            let part = region.len / u64::from(size) / block * block;
            if part == 0 {
                return Err(format!(
                    "--share=split: job '{}' has no block of {block} bytes for each of {size} ranks; use a larger size",
                    job.name
                ));
            }
            (region.start, region.len) = (region.start + part * u64::from(rank), part);
        }
        // As many passes as over the whole.
        let own: u64 = job.regions.iter().map(|region| region.len).sum();
        let share =
            |bytes: u64| (u128::from(bytes) * u128::from(own) / u128::from(whole.max(1))) as u64;
        job.until.bytes = job.until.bytes.map(share);
    }
    Ok(())
}

/// The name of a device that other hosts may have, too.
fn on_other_hosts(target: &TargetFacts) -> Option<String> {
    let is_device = target.kind == TargetKind::BlockDevice || target.kind.is_generic();
    let device = target.device.as_ref().filter(|_| is_device)?;
    let node = device::Node::named(&Roots::default(), &device.name)?;
    node.world_wide_name().map(|name| format!("device {name}"))
}

/// The files that are created or extended before the first I/O.
fn laid_out<'a>(plan: &'a Plan, facts: &'a Facts) -> impl Iterator<Item = &'a TargetFacts> {
    let found = |target: &'a Target| {
        let found = facts.targets.iter().find(|found| found.path == target.path)?;
        (target.create_size? > found.size_bytes && !target.create_on_open).then_some(found)
    };
    plan.targets.iter().filter_map(found)
}

/// Refuses what is of a single machine.
pub fn unsuited(output: &Output) -> Result<(), String> {
    if output.steady_state {
        return Err(
            "--steady-state is not supported with several ranks yet; remove it, or use --no-ranks for a run of each by itself"
                .into(),
        );
    }
    if output.journal.is_some() && output.share == Some(Share::Same) {
        return Err(
            "--journal does not know what other ranks write; use --share=split or own instead of same"
                .into(),
        );
    }
    Ok(())
}
