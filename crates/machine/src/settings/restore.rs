//! Restores the settings in a journal.

use super::cgroup;
use super::effects::Effects;
use super::journal::{Journal, JournalEntry, JournalSlot, SlotKind};
use std::fmt;
use std::io;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restored {
    pub what: String,
    pub how: RestoredHow,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RestoredHow {
    Restored {
        from: String,
        to: String,
    },
    Unchanged,
    /// Another program changed it meanwhile, so it was left unchanged.
    ChangedByOthers {
        found: String,
        old: String,
    },
    Gone,
    /// It could not be restored, and stays in the journal.
    Failed(String),
}

impl Restored {
    pub(super) fn failed(what: String, error: &dyn fmt::Display) -> Self {
        Self { what, how: RestoredHow::Failed(error.to_string()) }
    }

    pub fn is_failure(&self) -> bool {
        matches!(self.how, RestoredHow::Failed(_))
    }
}

impl fmt::Display for Restored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = &self.what;
        match &self.how {
            RestoredHow::Restored { from, to } => write!(f, "{what} restored: {from} → {to}"),
            RestoredHow::Unchanged => write!(f, "{what} already has its old value"),
            RestoredHow::ChangedByOthers { found, old } => write!(
                f,
                "{what} was changed by another program to {found} and left unchanged; it was {old} before fathom changed it"
            ),
            RestoredHow::Gone => write!(f, "{what} not restored: it no longer exists"),
            RestoredHow::Failed(why) => write!(f, "{what} not restored: {why}"),
        }
    }
}

impl Effects {
    /// Restores the settings in a journal. Those that cannot be restored stay in it; all others are removed.
    pub fn restore(
        &self,
        slot: &JournalSlot,
        kind: SlotKind,
        mut journal: Journal,
    ) -> Vec<Restored> {
        let mut results = Vec::new();
        if let Some(group) = &journal.group
            && let Some(result) = cgroup::leave(self, group, journal.pid)
        {
            results.push(result);
        } else {
            journal.group = None;
        }
        let mut left = self.drop_foreign(&mut journal, &mut results);
        journal.restoring = true;
        // Restoring matters more than noting that it has begun.
        let mut saved = match journal.entries.is_empty() {
            true => Ok(()),
            false => self.save(slot, kind, &journal),
        };
        // Writing `scheduler` resets these attributes: restore them after it.
        for consequences in [false, true] {
            for entry in journal.entries.iter().rev() {
                if entry.is_consequence == consequences && !left.contains(entry) {
                    self.put_back(entry, &mut left, &mut results);
                }
            }
        }
        journal.entries = left;
        saved = saved.and(match journal.entries.is_empty() && journal.group.is_none() {
            true => self.remove(slot, kind),
            false => self.save(slot, kind, &journal),
        });
        if let Err(error) = saved {
            results.push(Restored::failed(format!("settings of {}", slot.key), &error));
        }
        results
    }

    /// Removes entries that need no restoring; returns those that cannot be read.
    fn drop_foreign(
        &self,
        journal: &mut Journal,
        results: &mut Vec<Restored>,
    ) -> Vec<JournalEntry> {
        let mut unreadable = Vec::new();
        let mut foreign_scheduler = false;
        let restoring = journal.restoring;
        let mut say =
            |entry: &JournalEntry, how| results.push(Restored { what: entry.what(), how });
        // A scheduler comes before its consequences.
        journal.entries.retain(|entry| match self.read(entry) {
            Ok(_) if entry.is_reset_by_scheduler() && foreign_scheduler => false,
            Ok(found) if entry.is_ours(&found) || entry.is_consequence && restoring => true,
            Ok(found) => {
                foreign_scheduler |=
                    entry.setting == Some(fathom_model::setting::Setting::Scheduler);
                say(entry, RestoredHow::ChangedByOthers { found, old: entry.old.clone() });
                false
            }
            // It may come back with the scheduler.
            Err(_) if entry.is_reset_by_scheduler() => !foreign_scheduler,
            Err(error) if is_gone(&error) => {
                say(entry, RestoredHow::Gone);
                false
            }
            Err(error) => {
                say(entry, RestoredHow::Failed(error.to_string()));
                unreadable.push(entry.clone());
                true
            }
        });
        unreadable
    }

    fn put_back(
        &self,
        entry: &JournalEntry,
        left: &mut Vec<JournalEntry>,
        results: &mut Vec<Restored>,
    ) {
        let mut say = |how| results.push(Restored { what: entry.what(), how });
        let outcome = self.read(entry).and_then(|from| {
            if entry.is_old(&from) {
                return Ok(None);
            }
            self.write(&entry.file, &entry.old)?;
            let now = self.read(entry)?;
            if entry.is_old(&now) {
                return Ok(Some(from));
            }
            Err(io::Error::other(format!("wrote {}, but the value is {now}", entry.old)))
        });
        match outcome {
            Ok(_) if !entry.is_requested => {}
            Ok(None) => say(RestoredHow::Unchanged),
            Ok(Some(from)) => say(RestoredHow::Restored { from, to: entry.old.clone() }),
            Err(error) if is_gone(&error) && entry.is_consequence => {}
            Err(error) if is_gone(&error) => say(RestoredHow::Gone),
            Err(error) => {
                say(RestoredHow::Failed(error.to_string()));
                left.push(entry.clone());
            }
        }
    }
}

fn is_gone(error: &io::Error) -> bool {
    let no_device = error.raw_os_error() == Some(rustix::io::Errno::NODEV.raw_os_error());
    no_device || error.kind() == io::ErrorKind::NotFound
}
