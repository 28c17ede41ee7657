//! What threads were doing: a table for people, or JSON.

use fathom_analysis::threads::{Column, Group, Groups};
use fathom_model::escape;
use fathom_model::watch::{Missing, SamplerCost};
use serde::Serialize;
use serde_json::{Map, Value, json};

/// Characters of the longest bar.
const BAR: f64 = 20.0;
/// Characters of a cell but the last of a row; more is cut off.
const CELL_MAX: usize = 48;

/// What is told of the threads that were looked at.
#[derive(Debug)]
pub struct Report<'a> {
    /// When it was made, in nanoseconds since 1970 (UTC).
    pub unix_ns: u64,
    /// Whether it is of all that was seen, and not of an interval.
    pub total: bool,
    /// Time between the first and the last look, in seconds.
    pub seconds: f64,
    /// Looks per second that were wanted.
    pub hz: u32,
    /// What was seen.
    pub groups: &'a Groups,
    /// What looking cost.
    pub cost: &'a SamplerCost,
    /// What could not be seen.
    pub missing: &'a [Missing],
    /// The most groups shown.
    pub rows: usize,
    /// Threads in all states were asked for.
    pub all_states: bool,
}

impl Report<'_> {
    /// The groups, the largest first, with the average number of threads in each.
    #[must_use]
    pub fn table(&self) -> String {
        let groups = self.groups;
        let mut text = format!(
            "{:.1} s, {} looks, {:.0} threads, of which on average {:.2} {}\n\n",
            self.seconds,
            groups.looks,
            groups.average(groups.seen),
            groups.average(groups.active),
            if self.all_states { "are shown" } else { "did something or waited for I/O" },
        );
        let all = groups.largest_first();
        if all.is_empty() {
            return text;
        }
        let shown = &all[..all.len().min(self.rows)];
        let mut rows = vec![self.header()];
        rows.extend(shown.iter().map(|group| self.row(group)));
        text += &align(&rows);
        let rest = &all[shown.len()..];
        if !rest.is_empty() {
            let count = rest.iter().map(|group| group.count).sum();
            let average = groups.average(count);
            text += &format!("{average:>8.2}  in {} smaller groups\n", rest.len());
        }
        text.push('\n');
        text
    }

    /// What looking cost, and what it could not see.
    #[must_use]
    pub fn footer(&self) -> String {
        let groups = self.groups;
        let cost = self.cost;
        let mut text = format!(
            "cost: {:.1} µs of processor time for each thread and look, {:.2}% of one processor\n",
            self.us_per_thread_sample(),
            self.cost_share() * 100.0,
        );
        if cost.missed > 0 {
            let all = cost.looks + cost.missed;
            text +=
                &format!("late: {} of {all} looks came too late and were left out\n", cost.missed);
        }
        if groups.torn > 0 {
            text += &format!(
                "torn: {:.2}% of what is shown: the thread went on while it was looked at\n",
                groups.torn as f64 / groups.active.max(1) as f64 * 100.0,
            );
        }
        for missing in self.missing {
            text += &format!("not seen: {missing}\n");
        }
        text
    }

    /// All of it as JSON, with a line end.
    #[must_use]
    pub fn json(&self) -> String {
        let groups = self.groups;
        let names: Vec<&str> = groups.columns().iter().map(|column| column.name()).collect();
        let shown = groups.largest_first();
        let cost = Cost {
            cpu_ns: self.cost.cpu_ns,
            us_per_thread_sample: self.us_per_thread_sample(),
            share_of_a_processor: self.cost_share(),
        };
        let value = json!({
            "unix_ns": self.unix_ns,
            "total": self.total,
            "seconds": self.seconds,
            "hz": self.hz,
            "looks": groups.looks,
            "looks_missed": self.cost.missed,
            "thread_samples": groups.seen,
            "thread_samples_active": groups.active,
            "thread_samples_torn": groups.torn,
            "groups": shown.iter().map(|group| object(&names, group)).collect::<Vec<Value>>(),
            "cost": cost,
            "missing": self.missing,
        });
        format!("{value}\n")
    }

    fn us_per_thread_sample(&self) -> f64 {
        self.cost.cpu_ns as f64 / 1000.0 / self.groups.seen.max(1) as f64
    }

    fn cost_share(&self) -> f64 {
        if self.seconds > 0.0 { self.cost.cpu_ns as f64 / 1e9 / self.seconds } else { 0.0 }
    }

    fn header(&self) -> Vec<String> {
        let fixed = ["active", "share", ""].map(String::from);
        let columns = self.groups.columns().iter().map(|column| column.name().to_string());
        fixed.into_iter().chain(columns).collect()
    }

    fn row(&self, group: &Group) -> Vec<String> {
        let bar = "█".repeat((group.share * BAR).round() as usize);
        let fixed = [format!("{:.2}", group.average), format!("{:.1}%", group.share * 100.0), bar];
        let columns = self.groups.columns();
        let cells = group.values.iter().zip(columns).enumerate().map(|(at, (value, column))| {
            let value = if *column == Column::State { self.state(value) } else { value.clone() };
            let value = escape::text(&value).into_owned();
            if at + 1 < columns.len() { cut(&value) } else { value }
        });
        fixed.into_iter().chain(cells).collect()
    }

    fn state(&self, letter: &str) -> String {
        let words = match letter {
            "R" => "on a processor",
            "Q" => "waits for a processor",
            "D" => "uninterruptible",
            "S" if self.all_states => "asleep",
            "S" => "waits for I/O",
            "I" => "idle",
            "T" => "stopped",
            "t" => "traced",
            "P" => "parked",
            "Z" => "ended",
            _ => "",
        };
        format!("{letter} {words}")
    }
}

/// What looking cost.
#[derive(Serialize)]
struct Cost {
    cpu_ns: u64,
    us_per_thread_sample: f64,
    share_of_a_processor: f64,
}

fn object(names: &[&str], group: &Group) -> Value {
    let mut object = Map::new();
    for (name, value) in names.iter().zip(&group.values) {
        object.insert((*name).to_string(), Value::from(value.as_str()));
    }
    object.insert("samples".into(), Value::from(group.count));
    object.insert("average".into(), Value::from(group.average));
    object.insert("share".into(), Value::from(group.share));
    object.insert("threads".into(), Value::from(group.threads));
    Value::Object(object)
}

fn cut(text: &str) -> String {
    if text.chars().count() <= CELL_MAX {
        return text.to_string();
    }
    text.chars().take(CELL_MAX - 1).chain(['…']).collect()
}

/// The first two columns to the right, the others to the left, as wide as they need to be; an empty
/// cell is `-`, but for bars.
fn align(rows: &[Vec<String>]) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |at: usize| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(|at| width(at).max(1)).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (at, cell) in row.iter().enumerate() {
            let width = if at == 0 { widths[at].max(8) } else { widths[at] };
            match at {
                0 => line += &format!("{cell:>width$}"),
                1 => line += &format!("  {cell:>width$}"),
                2 => line += &format!("  {cell:<width$}"),
                _ => line += &format!("  {:<width$}", if cell.is_empty() { "-" } else { cell }),
            }
        }
        text += line.trim_end();
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_model::watch::{ThreadCount, ThreadsSample};

    fn thread(comm: &str, state: char, syscall: &str, count: u32) -> ThreadCount {
        let (comm, syscall) = (comm.into(), syscall.into());
        ThreadCount { comm, state, syscall, count, ..ThreadCount::default() }
    }

    fn groups() -> Groups {
        let mut groups = Groups::new(&[Column::Comm, Column::State, Column::Syscall]);
        let active = vec![
            thread("fio", 'S', "io_uring_enter", 150),
            thread("cc", 'Q', "", 40),
            thread("cc", 'R', "", 10),
        ];
        groups.add(&ThreadsSample { looks: 100, seen: 10_000, active, ..ThreadsSample::default() });
        groups
    }

    fn report<'a>(groups: &'a Groups, cost: &'a SamplerCost, missing: &'a [Missing]) -> Report<'a> {
        let (rows, all_states) = (2, false);
        let (unix_ns, total) = (1, true);
        Report { unix_ns, total, seconds: 5.0, hz: 20, groups, cost, missing, rows, all_states }
    }

    #[test]
    fn a_table() {
        let groups = groups();
        let cost = SamplerCost { cpu_ns: 50_000_000, looks: 100, missed: 0, ..Default::default() };
        let missing = [Missing { what: "a".into(), why: "b".into(), allow: "c".into() }];
        let report = report(&groups, &cost, &missing);
        let want = "\
5.0 s, 100 looks, 100 threads, of which on average 2.00 did something or waited for I/O

  active  share                   comm  state                    syscall
    1.50  75.0%  ███████████████  fio   S waits for I/O          io_uring_enter
    0.40  20.0%  ████             cc    Q waits for a processor  -
    0.10  in 1 smaller groups

";
        assert_eq!(report.table(), want);
        let want = "\
cost: 5.0 µs of processor time for each thread and look, 1.00% of one processor
not seen: a: b; c
";
        assert_eq!(report.footer(), want);
    }

    #[test]
    fn what_was_late_or_torn_is_said() {
        let mut groups = Groups::new(&[Column::Wchan]);
        let torn = ThreadCount { torn: true, ..thread("fio", 'D', "", 1) };
        let active = vec![torn, thread("fio", 'D', "", 99)];
        groups.add(&ThreadsSample { looks: 100, seen: 100, active, ..ThreadsSample::default() });
        let cost = SamplerCost { missed: 3, looks: 97, ..Default::default() };
        let footer = report(&groups, &cost, &[]).footer();
        assert!(footer.contains("late: 3 of 100 looks"), "{footer}");
        assert!(footer.contains("torn: 1.00% of what"), "{footer}");
    }

    #[test]
    fn json_holds_all_groups() {
        let groups = groups();
        let cost = SamplerCost { cpu_ns: 50_000_000, looks: 100, ..Default::default() };
        let value: Value = serde_json::from_str(&report(&groups, &cost, &[]).json()).unwrap();
        assert_eq!(value["groups"].as_array().unwrap().len(), 3);
        assert_eq!(value["groups"][0]["syscall"], "io_uring_enter");
        assert_eq!(value["groups"][0]["average"], 1.5);
        assert_eq!((&value["unix_ns"], &value["total"]), (&1.into(), &true.into()));
        assert_eq!(value["cost"]["us_per_thread_sample"], 5.0);
    }

    #[test]
    fn nothing_seen_is_a_table_too() {
        let groups = Groups::new(&[Column::Comm]);
        let cost = SamplerCost::default();
        let report = report(&groups, &cost, &[]);
        assert!(report.table().starts_with("5.0 s, 0 looks, 0 threads"));
        assert!(report.footer().starts_with("cost: 0.0 µs"));
    }
}
