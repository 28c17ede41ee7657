use super::*;
use fathom_model::experiment::{Claim, WindowResult};

/// A machine with noise like that of a shared virtual machine: every window deviates by some percent, the level drifts
/// slowly, and some windows lose half their time to a stall.
struct Noisy {
    seed: u64,
    numbers: u64,
    level: f64,
}

impl Noisy {
    fn new(seed: u64) -> Self {
        Self { seed: seed.wrapping_mul(split_mix::STEP) ^ 0xabcd, numbers: 0, level: 0.0 }
    }

    fn uniform(&mut self) -> f64 {
        self.numbers += 1;
        (split_mix::nth(self.seed, self.numbers - 1) >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Normal: the sum of 12 uniforms.
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0
    }

    /// I/Os of a window of a second, of a condition that is `factor` as fast as the baseline.
    fn window(&mut self, factor: f64) -> WindowResult {
        self.level = 0.98 * self.level + 0.01 * self.normal();
        let stall = if self.uniform() < 0.03 { 0.5 } else { 1.0 };
        let noise = (self.level + 0.03 * self.normal()).exp();
        let ios = (1e5 * factor * noise * stall) as u64;
        WindowResult {
            elapsed_ns: 1_000_000_000,
            took_ns: 1_100_000_000,
            ios,
            ..WindowResult::default()
        }
    }
}

fn condition(name: &str, against: &[usize], repeats: Option<usize>) -> Condition {
    Condition { name: name.into(), against: against.to_vec(), repeats, ..Condition::default() }
}

fn pair() -> Experiment {
    let conditions = vec![
        condition("a", &[], None),
        condition("a again", &[], Some(0)),
        condition("b", &[0], None),
    ];
    Experiment { conditions, ..Experiment::default() }
}

fn ten_ios() -> WindowResult {
    WindowResult { ios: 10, elapsed_ns: 500_000_000, took_ns: 10, ..WindowResult::default() }
}

fn protocol(seed: u64) -> Protocol {
    Protocol {
        seconds: 3000.0,
        window_ns: 1_000_000_000,
        ramp_ns: 100_000_000,
        precision: 0.01,
        rounds_min: 10,
        rounds_warm: 1,
        seed,
    }
}

/// Runs an experiment to its end on a noisy machine; the factor of each condition is in `factors`.
fn run(experiment: Experiment, seed: u64, factors: &[f64]) -> Rounds {
    let mut machine = Noisy::new(seed);
    let mut design = Rounds::new(experiment, protocol(seed));
    while let Some(turn) = design.next() {
        design.observe(turn, Ok(&machine.window(factors[turn.condition])), false);
    }
    design
}

/// In how many of 50 experiments an effect of this size was claimed in its direction, and in the other one.
fn claims(factor: f64) -> (u32, u32) {
    let mut found = (0, 0);
    for seed in 0..50 {
        let effect = run(pair(), seed, &[1.0, 1.0, factor]).effect(2).unwrap();
        if effect.claim == Claim::Changed {
            match effect.ratio.unwrap().value < 1.0 {
                true => found.0 += 1,
                false => found.1 += 1,
            }
        }
    }
    found
}

#[test]
fn a_delay_of_5_percent_is_found() {
    let (slower, faster) = claims(0.95);
    assert!(slower >= 48 && faster == 0, "{slower} {faster}");
}

#[test]
fn a_delay_of_2_percent_is_found() {
    let (slower, faster) = claims(0.98);
    assert!(slower >= 48 && faster == 0, "{slower} {faster}");
}

#[test]
fn without_a_delay_none_is_found() {
    let (slower, faster) = claims(1.0);
    assert!(slower + faster <= 2, "{slower} {faster}");
}

#[test]
fn rounds_are_in_random_order_and_each_has_every_condition_once() {
    let mut design = Rounds::new(pair(), protocol(7));
    let mut orders = Vec::new();
    for _ in 0..8 {
        let mut order = Vec::new();
        for _ in 0..3 {
            let turn = design.next().unwrap();
            order.push(turn.condition);
            design.observe(turn, Ok(&ten_ios()), false);
        }
        let mut all = order.clone();
        all.sort_unstable();
        assert_eq!(all, [0, 1, 2]);
        orders.push(order);
    }
    orders.dedup();
    assert!(orders.len() > 3, "{orders:?}");
}

#[test]
fn the_same_windows_lead_to_the_same_turns() {
    let mut first = Rounds::new(pair(), protocol(3));
    let mut machine = Noisy::new(3);
    let mut windows = Vec::new();
    for _ in 0..20 {
        let turn = first.next().unwrap();
        let window = machine.window(1.0);
        first.observe(turn, Ok(&window), false);
        windows.push((turn, window));
    }
    let mut second = Rounds::new(pair(), protocol(3));
    for (turn, window) in &windows {
        assert_eq!(second.next(), Some(*turn));
        second.observe(*turn, Ok(window), false);
    }
    assert_eq!(second.next(), first.next());
    assert_eq!(second.effect(2), first.effect(2));
}

#[test]
fn a_condition_that_cannot_be_measured_is_left_out() {
    let mut design = Rounds::new(pair(), protocol(5));
    let mut turns = 0;
    while let Some(turn) = design.next() {
        turns += 1;
        match turn.condition {
            2 => design.observe(turn, Err("no such scheduler"), true),
            _ => design.observe(turn, Ok(&ten_ios()), false),
        }
    }
    assert_eq!(design.rejected(2), Some("no such scheduler"));
    // One warm-up round, ten that count, and the rejected window.
    assert_eq!(turns, 23);
    assert!(matches!(design.effect(2).unwrap().claim, Claim::Inconclusive(_)));
}

#[test]
fn a_whole_is_compared_with_the_sum_of_its_parts() {
    let conditions = vec![
        condition("x", &[], None),
        condition("y", &[], None),
        condition("both", &[0, 1], None),
    ];
    let experiment = Experiment { conditions, ..Experiment::default() };
    let effect = run(experiment, 1, &[1.0, 2.0, 1.5]).effect(2).unwrap();
    let ratio = effect.ratio.unwrap();
    assert!(ratio.low < 0.51 && ratio.high > 0.49, "{ratio:?}");
    assert_eq!(effect.claim, Claim::Changed);
}

#[test]
fn groups_end_when_they_are_known_and_time_ends_all() {
    let conditions = vec![
        condition("a", &[], None),
        condition("b", &[0], None),
        condition("c", &[], None),
        condition("d", &[2], None),
    ];
    let experiment = Experiment { conditions, ..Experiment::default() };
    let mut design = Rounds::new(experiment, Protocol { seconds: 200.0, ..protocol(1) });
    let (mut machine, mut counts) = (Noisy::new(1), [0; 4]);
    while let Some(turn) = design.next() {
        counts[turn.condition] += 1;
        // The first pair is free of noise.
        let exact = WindowResult {
            ios: 100,
            elapsed_ns: 500_000_000,
            took_ns: 10,
            ..WindowResult::default()
        };
        let window = if turn.condition < 2 { exact } else { machine.window(1.0) };
        design.observe(turn, Ok(&window), false);
    }
    assert_eq!(counts[..2], [11, 11]);
    assert!(counts[2] > 40, "{counts:?}");
    assert!(design.seconds_used() <= 201.0);
}

#[test]
fn the_mean_of_the_repetition_does_not_hold_up_the_end() {
    let mut design = Rounds::new(pair(), protocol(1));
    let mut turns = 0;
    while let Some(turn) = design.next() {
        turns += 1;
        // All drift alike, so that ratios are exact.
        let ios = 1000 + 100 * u64::from(turn.round % 5);
        let exact =
            WindowResult { ios, elapsed_ns: 500_000_000, took_ns: 10, ..WindowResult::default() };
        design.observe(turn, Ok(&exact), false);
    }
    assert_eq!(turns, 33);
}

#[test]
fn a_rejected_baseline_ends_its_group() {
    let mut design = Rounds::new(pair(), protocol(5));
    let mut turns = 0;
    while let Some(turn) = design.next() {
        turns += 1;
        match turn.condition {
            0 => design.observe(turn, Err("no such scheduler"), true),
            _ => design.observe(turn, Ok(&ten_ios()), false),
        }
    }
    assert!(turns <= 3, "{turns}");
}

/// A worker of a busy machine, which waits for a CPU for 0 to 60% of each window; corrected, windows deviate by 1%.
fn delayed(machine: &mut Noisy, factor: f64) -> WindowResult {
    let elapsed_ns = 1_000_000_000;
    let run_delay_ns = (elapsed_ns as f64 * 0.6 * machine.uniform()) as u64;
    let undelayed_ns = elapsed_ns - run_delay_ns;
    let noise = (0.01 * machine.normal()).exp();
    WindowResult {
        elapsed_ns,
        took_ns: elapsed_ns,
        ios: (undelayed_ns as f64 / 1e4 * factor * noise) as u64,
        run_delay_ns: Some(run_delay_ns),
        undelayed_ns: Some(undelayed_ns),
        ..WindowResult::default()
    }
}

/// An experiment of at most 60 windows, whose samples `change` changes.
fn busy(factors: [f64; 3], change: impl Fn(usize, &mut WindowResult)) -> Rounds {
    let mut machine = Noisy::new(11);
    let mut design = Rounds::new(pair(), Protocol { seconds: 66.0, ..protocol(11) });
    while let Some(turn) = design.next() {
        let mut sample = delayed(&mut machine, factors[turn.condition]);
        change(turn.condition, &mut sample);
        design.observe(turn, Ok(&sample), false);
    }
    design
}

#[test]
fn waiting_for_a_cpu_does_not_hide_an_effect() {
    let corrected = busy([1.0, 1.0, 0.95], |_, _| {});
    let effect = corrected.effect(2).unwrap();
    assert_eq!(effect.claim, Claim::Changed);
    assert!((0.94..0.96).contains(&effect.ratio.unwrap().value), "{effect:?}");
    assert!(corrected.corrected(2).unwrap().mean > corrected.estimate(2).mean);
    // Without the correction, windows deviate too much.
    let measured = busy([1.0, 1.0, 0.95], |_, sample| sample.undelayed_ns = None);
    assert!(matches!(measured.effect(2).unwrap().claim, Claim::Inconclusive(_)));
    assert_eq!(measured.corrected(2), None);
}

#[test]
fn waiting_that_is_the_effect_is_not_corrected() {
    // The variant has more workers than CPUs: they wait for each other, and the correction is not valid for it.
    let design = busy([1.0, 1.0, 1.0], |condition, sample| {
        let (run_delay_ns, undelayed_ns) = match condition {
            2 => (600_000_000, None),
            _ => (0, Some(sample.elapsed_ns)),
        };
        sample.ios = 100_000 - run_delay_ns / 10_000;
        (sample.run_delay_ns, sample.undelayed_ns) = (Some(run_delay_ns), undelayed_ns);
    });
    let effect = design.effect(2).unwrap();
    assert_eq!((&effect.claim, design.corrected(2)), (&Claim::Changed, None));
    assert!((0.39..0.41).contains(&effect.ratio.unwrap().value), "{effect:?}");
}

#[test]
fn hardly_any_waiting_is_not_corrected() {
    let design = busy([1.0, 1.0, 0.95], |_, sample| {
        let delay_ns = sample.elapsed_ns / 25;
        sample.run_delay_ns = Some(delay_ns);
        sample.undelayed_ns = Some(sample.elapsed_ns - delay_ns);
    });
    assert_eq!(design.corrected(2), None);
}
