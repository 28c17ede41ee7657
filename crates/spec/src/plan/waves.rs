//! When jobs start: waves and groups, from `stonewall`, `new_group` and `wait_for`.

use crate::job::Job;
use std::collections::HashMap;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Start {
    pub wave: u32,
    pub group: u32,
}

#[derive(Debug, Default)]
pub(super) struct Waves {
    wave: u32,
    group: u32,
    /// Whether the current wave or group has a job.
    begun: bool,
    /// The wave of the last job of each name.
    of_name: HashMap<String, u32>,
    names: Vec<String>,
    /// The current wave exists because of `wait_for`, so jobs that wait for nothing belong to the
    /// wave before.
    waits: bool,
}

impl Waves {
    pub fn next(&mut self, job: &Job) -> Result<Start, String> {
        if self.begun && (job.stonewall || job.new_group) {
            self.group += 1;
        }
        if self.begun && job.stonewall {
            self.advance(false);
        }
        match &job.wait_for {
            Some(name) => self.wait(name)?,
            None if self.waits => {
                return Err(
                    "this job waits for nothing, but the job before it has wait_for, and fathom \
                     starts jobs in waves; move it first, or add stonewall or wait_for"
                        .to_string(),
                );
            }
            None => {}
        }
        self.begun = true;
        self.names.push(job.name.clone());
        self.of_name.insert(job.name.clone(), self.wave);
        Ok(Start { wave: self.wave, group: self.group })
    }

    fn wait(&mut self, name: &str) -> Result<(), String> {
        let wave = *self.of_name.get(name).ok_or_else(|| {
            format!("wait_for={name}: no earlier job has this name; check the name")
        })?;
        if wave < self.wave {
            return Ok(());
        }
        if self.names.iter().any(|other| other != name) {
            return Err(format!(
                "wait_for={name}: other jobs run alongside '{name}', and fathom starts jobs in \
                 waves; use stonewall"
            ));
        }
        self.advance(true);
        Ok(())
    }

    fn advance(&mut self, waits: bool) {
        self.wave += 1;
        self.waits = waits;
        self.names.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn starts(jobs: &[(&str, &str)]) -> Result<Vec<(u32, u32)>, String> {
        let mut waves = Waves::default();
        jobs.iter()
            .map(|(name, how)| {
                let mut job = Job::new();
                job.name = (*name).into();
                match *how {
                    "stonewall" => job.stonewall = true,
                    "new_group" => job.new_group = true,
                    "" => {}
                    name => job.wait_for = Some(name.into()),
                }
                waves.next(&job).map(|start| (start.wave, start.group))
            })
            .collect()
    }

    #[test]
    fn stonewall_begins_wave_and_group() {
        let jobs = [("a", "stonewall"), ("b", ""), ("c", "stonewall"), ("d", "new_group")];
        assert_eq!(starts(&jobs).unwrap(), [(0, 0), (0, 0), (1, 1), (1, 2)]);
    }

    #[test]
    fn wait_for_is_a_wave_where_it_can_be() {
        assert_eq!(starts(&[("a", ""), ("b", "a"), ("c", "b")]).unwrap(), [(0, 0), (1, 0), (2, 0)]);
        assert_eq!(starts(&[("a", ""), ("b", "a"), ("c", "a")]).unwrap(), [(0, 0), (1, 0), (1, 0)]);
        assert!(starts(&[("a", ""), ("b", ""), ("c", "a")]).unwrap_err().contains("stonewall"));
        assert!(starts(&[("a", ""), ("b", "a"), ("c", "")]).unwrap_err().contains("waits for"));
        assert!(starts(&[("a", "z")]).unwrap_err().contains("no earlier job has this name"));
    }
}
