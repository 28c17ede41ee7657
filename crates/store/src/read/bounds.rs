//! Limits on the resources needed to read a record from an untrusted source.

use fathom_model::progress::{JOBS_SAMPLED_MAX, JobSample};
use fathom_model::watch::Stack;
use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::borrow::Cow;
use std::fmt;
use std::io;

/// Maximum bytes of consecutive damaged lines. A crash leaves some MiB.
const DAMAGE_MAX: u64 = 64 << 20;
/// The cost of skipping a short line, in bytes.
const LINE_LEAST: u64 = 16 << 10;
/// Histograms of the block layer and of calls in a line, or what could be one: a list of pairs. Each takes 37 KiB of memory however
/// short it is; a sample has two for each device, and a list for each of the busiest tasks.
const HISTOGRAMS_MAX: u64 = 4096;
/// Lengths of a line's lists, each squared, added up: comparing two samples takes that many steps. 8192 CPUs
/// and 8192 interrupts come to a sixteenth of it.
const STEPS_MAX: u64 = 1 << 31;
/// Shorter lines cannot hold so much.
const SHORT: usize = 16 << 10;

#[derive(Default)]
pub struct Damage(u64);

impl Damage {
    /// Adds a line of `len` bytes.
    pub fn add(&mut self, len: u64) -> io::Result<()> {
        self.0 = self.0.saturating_add(len.max(LINE_LEAST));
        if self.0 <= DAMAGE_MAX {
            return Ok(());
        }
        let why = format!("no sample in {} or more consecutive lines", DAMAGE_MAX / LINE_LEAST);
        Err(io::Error::new(io::ErrorKind::InvalidData, why))
    }
}

/// The contents of a line; `None` if it is damaged.
pub fn parse<T: DeserializeOwned>(line: &[u8]) -> io::Result<Option<T>> {
    if line.len() > SHORT {
        let Ok(CountedLine { machine: MachineCost { histograms, steps } }) =
            serde_json::from_slice(line)
        else {
            return Ok(None);
        };
        let refuse = |why| Err(io::Error::new(io::ErrorKind::InvalidData, why));
        if histograms > HISTOGRAMS_MAX {
            return refuse(format!(
                "a line has {histograms} histograms, more than the limit of {HISTOGRAMS_MAX}"
            ));
        }
        if steps > STEPS_MAX {
            return refuse(format!(
                "the lists of a line are too long: comparing them takes {steps} steps, more than the limit of \
                 {STEPS_MAX}"
            ));
        }
    }
    Ok(serde_json::from_slice(line).ok())
}

/// The jobs of a sample, unless they are many.
pub struct FewJobs(pub Vec<JobSample>);

impl<'de> Deserialize<'de> for FewJobs {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Few;
        impl<'de> Visitor<'de> for Few {
            type Value = FewJobs;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                write!(f, "up to {JOBS_SAMPLED_MAX} jobs")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut all: A) -> Result<FewJobs, A::Error> {
                let mut jobs = Vec::new();
                while let Some(job) = all.next_element()? {
                    if jobs.len() == JOBS_SAMPLED_MAX {
                        return Err(serde::de::Error::invalid_length(JOBS_SAMPLED_MAX + 1, &self));
                    }
                    jobs.push(job);
                }
                Ok(FewJobs(jobs))
            }
        }
        from.deserialize_seq(Few)
    }
}

pub fn memory_bytes(stack: &Stack) -> u64 {
    let names = stack.kernel.iter().chain(&stack.user);
    // Allocations are multiples of 16 bytes, with a header.
    let of_names: usize = names.map(|name| size_of::<String>() + name.len().max(16) + 16).sum();
    (size_of::<Stack>() + of_names) as u64
}

/// The part of a line that is counted.
#[derive(Deserialize)]
struct CountedLine {
    #[serde(default)]
    machine: MachineCost,
}

/// The cost of a sample of the machine. It must be an object: serde also accepts lists, which fathom does not write.
#[derive(Default)]
struct MachineCost {
    histograms: u64,
    steps: u64,
}

impl<'de> Deserialize<'de> for MachineCost {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(OfMachine)
    }
}

struct OfMachine;

impl<'de> Visitor<'de> for OfMachine {
    type Value = MachineCost;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<MachineCost, A::Error> {
        let mut machine = MachineCost::default();
        while let Some(key) = map.next_key::<Cow<'de, str>>()? {
            // These are not compared, and can be long on a busy machine.
            if key == "threads" || key == "stacks" {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            let lists: Lists = map.next_value()?;
            machine.steps = machine.steps.saturating_add(lists.steps);
            if key == "blocks" || key == "calls" {
                machine.histograms += lists.of_lists;
            }
        }
        Ok(machine)
    }
}

/// The lists in a JSON value, counted without allocating their contents.
#[derive(Default)]
struct Lists {
    /// Number of lists of lists.
    of_lists: u64,
    /// Sum of the squares of their lengths.
    steps: u64,
    is_list: bool,
}

impl<'de> Deserialize<'de> for Lists {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Count)
    }
}

impl Lists {
    fn add(&mut self, inner: &Self) {
        self.of_lists += inner.of_lists;
        self.steps = self.steps.saturating_add(inner.steps);
    }
}

struct Count;

impl<'de> Visitor<'de> for Count {
    type Value = Lists;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Lists, A::Error> {
        let mut sum = Lists::default();
        while let Some((IgnoredAny, value)) = map.next_entry()? {
            sum.add(&value);
        }
        Ok(sum)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Lists, A::Error> {
        let (mut sum, mut len, mut has_list) = (Lists::default(), 0_u64, false);
        while let Some(value) = seq.next_element()? {
            sum.add(&value);
            has_list |= value.is_list;
            len += 1;
        }
        sum.of_lists += u64::from(has_list);
        sum.steps = sum.steps.saturating_add(len * len);
        Ok(Lists { is_list: true, ..sum })
    }

    fn visit_bool<E>(self, _: bool) -> Result<Lists, E> {
        Ok(Lists::default())
    }

    fn visit_u64<E>(self, _: u64) -> Result<Lists, E> {
        Ok(Lists::default())
    }

    fn visit_i64<E>(self, _: i64) -> Result<Lists, E> {
        Ok(Lists::default())
    }

    fn visit_f64<E>(self, _: f64) -> Result<Lists, E> {
        Ok(Lists::default())
    }

    fn visit_str<E>(self, _: &str) -> Result<Lists, E> {
        Ok(Lists::default())
    }

    fn visit_unit<E>(self) -> Result<Lists, E> {
        Ok(Lists::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_counted_wherever_they_are() {
        let count = |text: &str| {
            let lists = serde_json::from_str::<Lists>(text).unwrap();
            (lists.of_lists, lists.steps)
        };
        assert_eq!(count(r#"{"a":[1,-1,1.5,null,true,"[[]]",{"b":{}}],"c":[]}"#), (0, 49));
        // A histogram as an object and as a list.
        assert_eq!(count(r#"{"buckets":[[1,1]]}"#), (1, 5));
        assert_eq!(count(r#"{"a":[1,1,1,1,[[1,1],[2,2]]]}"#), (2, 37));
    }

    /// Whether a line is read, or `None` where it counts as damaged.
    fn is_read(line: &str) -> Option<bool> {
        match parse::<IgnoredAny>(line.as_bytes()) {
            Ok(line) => line.map(|_| true),
            Err(_) => Some(false),
        }
    }

    #[test]
    fn lines_that_would_take_too_much_are_refused() {
        let line = |part: &str, item: &str, number: usize| {
            format!("{{\"machine\":{{\"{part}\":[{}]}}}}", vec![item; number].join(","))
        };
        let histograms = |number| line("blocks", "[[]]", number);
        assert!(histograms(4096).len() > SHORT, "a short line may hold this many");
        assert_eq!(is_read(&histograms(4095)), Some(true));
        assert_eq!(is_read(&histograms(4096)), Some(false));
        assert_eq!(is_read(&histograms(4096)[..SHORT + 1]), None);
        assert_eq!(is_read(&histograms(4096).replace("blocks", "b\\u006cocks")), Some(false));
        assert_eq!(is_read(&histograms(9999).replace("machine", "jobs")), Some(true));
        assert_eq!(is_read(&format!("{{\"machine\":[0,{}]}}", histograms(4096))), None);
        // 46,341 squared is more than 2^31.
        assert_eq!(is_read(&line("system", "0", 46_340)), Some(true));
        assert_eq!(is_read(&line("system", "0", 46_341)), Some(false));
        for part in ["threads", "stacks"] {
            assert_eq!(is_read(&line(part, "0", 99_999)), Some(true));
        }
    }

    #[test]
    fn a_stopped_machine_leaves_less_damage_than_is_refused() {
        let mut damage = Damage::default();
        (0..4).for_each(|_| damage.add(super::super::lines::LINE_MAX as u64).unwrap());
        assert!(damage.add(1).is_err());
    }
}
