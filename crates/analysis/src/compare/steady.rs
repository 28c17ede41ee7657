//! When rounds of a run are steady, by the criteria of SNIA's Solid State Storage Performance Test Specification
//! (2.0.1, "steady state"): over five rounds in a row, a figure stays within a range, and a line through it is almost flat.

use super::Measured;
use schemars::JsonSchema;
use serde::Serialize;

/// Rounds in a row that must be steady.
pub const STEADY_ROUNDS: usize = 5;
/// What greatest and least of them may differ by, relative to their mean.
pub const STEADY_RANGE_MAX: f64 = 0.20;
/// What the line through them may rise or fall by, relative to their mean.
pub const STEADY_SLOPE_MAX: f64 = 0.10;

/// How steady the last rounds of a run are.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct Steadiness {
    /// The number of the first and last of these rounds, from 1.
    pub rounds: (usize, usize),
    /// Every job.
    pub jobs: Vec<JobSteadiness>,
}

/// How steady the IOPS of a job are.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct JobSteadiness {
    /// Its name.
    pub name: String,
    /// IOPS of each round so far.
    pub iops: Vec<f64>,
    /// Mean of the last ones.
    pub mean: f64,
    /// Difference between greatest and least, relative to the mean.
    pub range: f64,
    /// What the line through them rises by, relative to the mean; negative if it falls.
    pub slope: f64,
}

impl JobSteadiness {
    fn of(name: &str, iops: Vec<f64>) -> Self {
        let last = &iops[iops.len().saturating_sub(STEADY_ROUNDS)..];
        let count = last.len() as f64;
        let mean = last.iter().sum::<f64>() / count;
        let middle = (count - 1.0) / 2.0;
        let at = |index: usize| index as f64 - middle;
        let products: f64 = last.iter().enumerate().map(|(i, value)| at(i) * value).sum();
        let squares: f64 = (0..last.len()).map(|i| at(i).powi(2)).sum();
        let greatest = last.iter().copied().fold(0.0, f64::max);
        let least = last.iter().copied().fold(f64::INFINITY, f64::min);
        let relative = |value: f64| if mean > 0.0 { value / mean } else { 0.0 };
        let rise = if squares > 0.0 { products / squares * (count - 1.0) } else { 0.0 };
        let (range, slope) = (relative(greatest - least), relative(rise));
        Self { name: name.to_string(), iops, mean, range, slope }
    }

    /// Whether enough rounds were within the limits.
    pub fn is_steady(&self) -> bool {
        self.iops.len() >= STEADY_ROUNDS
            && self.mean > 0.0
            && self.range <= STEADY_RANGE_MAX
            && self.slope.abs() <= STEADY_SLOPE_MAX
    }
}

impl Steadiness {
    /// Of the last rounds of `runs`, by the IOPS of the jobs that all rounds have.
    pub fn of(runs: &[Measured]) -> Self {
        let iops = |name: &String| -> Option<Vec<f64>> {
            let of = |run: &Measured| {
                let part = run.parts.iter().find(|part| part.name == *name)?;
                part.figures.get("iops").copied()
            };
            runs.iter().map(of).collect()
        };
        let mut jobs: Vec<JobSteadiness> = Vec::new();
        for part in runs.iter().take(1).flat_map(|run| &run.parts) {
            // The directions of a job follow it.
            let is_direction =
                jobs.iter().any(|job| part.name.starts_with(&format!("{} ", job.name)));
            if let Some(iops) = iops(&part.name).filter(|_| !is_direction) {
                jobs.push(JobSteadiness::of(&part.name, iops));
            }
        }
        Self { rounds: (runs.len().saturating_sub(STEADY_ROUNDS) + 1, runs.len()), jobs }
    }

    /// Whether all jobs are steady.
    pub fn is_attained(&self) -> bool {
        !self.jobs.is_empty() && self.jobs.iter().all(JobSteadiness::is_steady)
    }

    /// The job that is farthest from the limits, or that comes nearest to them.
    pub fn worst(&self) -> Option<&JobSteadiness> {
        let used = |job: &JobSteadiness| {
            (job.range / STEADY_RANGE_MAX).max(job.slope.abs() / STEADY_SLOPE_MAX)
        };
        self.jobs.iter().max_by(|a, b| used(a).total_cmp(&used(b)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::MeasuredPart;
    use super::*;

    fn rounds(of: &[(&str, &[f64])]) -> Vec<Measured> {
        let round = |index: usize| {
            let part = |(name, iops): &(&str, &[f64])| {
                MeasuredPart::new(name, [("iops", Some(iops[index]))])
            };
            Measured { parts: of.iter().map(part).collect(), ..Measured::default() }
        };
        (0..of[0].1.len()).map(round).collect()
    }

    fn attained(iops: &[f64]) -> bool {
        Steadiness::of(&rounds(&[("job", iops)])).is_attained()
    }

    #[test]
    fn range_and_slope_of_five_rounds() {
        assert!(attained(&[900.0, 100.0, 110.0, 100.0, 105.0, 100.0]));
        assert!(!attained(&[100.0; 4]));
        assert!(!attained(&[100.0, 100.0, 100.0, 100.0, 121.0]));
        // Within the range, but rising by 12% from the first to the last.
        assert!(!attained(&[94.0, 97.0, 100.0, 103.0, 106.0]));
        assert!(attained(&[96.0, 98.0, 100.0, 102.0, 104.0]));
        // The range alone is exceeded: the line is flat.
        assert!(!attained(&[100.0, 111.0, 89.0, 111.0, 100.0]));
        assert!(!attained(&[0.0; 5]));
        let one = Steadiness::of(&rounds(&[("job", &[5.0, 94.0, 97.0, 100.0, 103.0, 106.0])]));
        let job = &one.jobs[0];
        assert_eq!(one.rounds, (2, 6));
        assert!((job.slope - 0.12).abs() < 1e-9 && (job.range - 0.12).abs() < 1e-9);
        assert!((job.mean - 100.0).abs() < 1e-9);
    }

    #[test]
    fn each_job_must_be_steady_and_directions_are_part_of_theirs() {
        let (flat, rising) = ([100.0; 5], [60.0, 80.0, 100.0, 120.0, 140.0]);
        let both = Steadiness::of(&rounds(&[("a", &flat), ("a read", &rising), ("b", &flat)]));
        assert_eq!(both.jobs.len(), 2);
        assert!(both.is_attained());
        let one = Steadiness::of(&rounds(&[("a", &flat), ("b", &rising)]));
        assert!(!one.is_attained());
        assert_eq!(one.worst().map(|job| job.name.as_str()), Some("b"));
        assert!(!Steadiness::of(&[]).is_attained());
    }
}
