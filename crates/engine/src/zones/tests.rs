use super::*;
use crate::queue::{Op, Request};
use fathom_model::plan::{BlockSizes, Distribution, Engine, Mix, Order, Region};
use fathom_model::{Dir, PerDir};
use proptest::prelude::*;
use std::sync::Mutex;

const ZONE: u64 = 64 << 10;
const BLOCK: u64 = 4096;

fn rules() -> ZoneRules {
    ZoneRules { zone_bytes: ZONE, capacity: ZONE, keeps_order: true, ..ZoneRules::default() }
}

fn job(rules: ZoneRules, zones: u64, mix: Mix, random: bool) -> JobPlan {
    let order = match random {
        true => Order::Random { distribution: Distribution::Uniform, run: 1 },
        false => Order::Sequential { skip: 0 },
    };
    let mut job = JobPlan::new("t", Engine::Null, mix, order);
    job.access.block_sizes = PerDir::splat(BlockSizes::Fixed(BLOCK));
    job.access.zoning = Some(Zoning::WritePointers(rules));
    job.virtual_regions = vec![Region { target: 0, start: 0, len: zones * ZONE }];
    job.until.bytes = Some(zones * ZONE);
    job
}

fn zone(number: u64, kind: ZoneKind, capacity: u64) -> Reported {
    let start = number * ZONE;
    let pointer = if kind == ZoneKind::Sequential { start } else { start + capacity };
    Reported { start, capacity, pointer, kind, is_open: false }
}

fn target(rules: &ZoneRules, zones: &[Reported]) -> BTreeMap<usize, Arc<ZonedTarget>> {
    BTreeMap::from([(0, Arc::new(ZonedTarget::new(rules, false, zones)))])
}

fn empty(count: u64) -> Vec<Reported> {
    (0..count).map(|number| zone(number, ZoneKind::Sequential, ZONE)).collect()
}

fn io(dir: Dir, offset: u64) -> Request {
    Request { op: Op::Io(dir), file: 0, offset, len: BLOCK as u32, buffer_offset: 0 }
}

fn at(placed: Placed) -> u64 {
    match placed {
        Placed::At(request) => request.offset,
        other => panic!("{other:?}"),
    }
}

#[test]
fn random_writes_go_to_the_write_pointer_and_reads_below_it() {
    let targets = target(&rules(), &empty(4));
    let job = job(rules(), 4, Mix::ReadWrite { read_percent: 50 }, true);
    let mut user = ZoneUser::new(&job, 0, &[], &targets).unwrap();
    assert!(matches!(user.place(&io(Dir::Read, ZONE)), Placed::End), "nothing was written");
    assert_eq!(at(user.place(&io(Dir::Write, ZONE + 5 * BLOCK))), ZONE);
    assert!(matches!(user.place(&io(Dir::Read, ZONE)), Placed::Wait), "it is in flight");
    user.completed(Dir::Write, 0, ZONE, true);
    assert_eq!(at(user.place(&io(Dir::Read, 3 * ZONE + 7 * BLOCK))), ZONE);
    assert_eq!(at(user.place(&io(Dir::Write, ZONE + 9 * BLOCK))), ZONE + BLOCK);
}

#[test]
fn a_full_zone_is_reset_when_no_one_reads_it() {
    let targets = target(&rules(), &empty(1));
    let mut writer =
        ZoneUser::new(&job(rules(), 1, Mix::Only(Dir::Write), true), 0, &[], &targets).unwrap();
    let mut reader =
        ZoneUser::new(&job(rules(), 1, Mix::Only(Dir::Read), true), 1, &[], &targets).unwrap();
    for number in 0..ZONE / BLOCK {
        assert_eq!(at(writer.place(&io(Dir::Write, 0))), number * BLOCK);
        writer.completed(Dir::Write, 0, number * BLOCK, true);
    }
    let read = at(reader.place(&io(Dir::Read, 0)));
    assert!(matches!(writer.place(&io(Dir::Write, 0)), Placed::Wait));
    assert!(matches!(reader.place(&io(Dir::Read, 0)), Placed::End), "it is about to be reset");
    reader.completed(Dir::Read, 0, read, true);
    assert_eq!((at(writer.place(&io(Dir::Write, 0))), writer.resets()), (0, 1));
}

#[test]
fn conventional_read_only_and_offline_zones() {
    let kinds =
        [ZoneKind::Conventional, ZoneKind::ReadOnly, ZoneKind::Offline, ZoneKind::Sequential];
    let zones: Vec<Reported> =
        (0..).zip(kinds).map(|(number, kind)| zone(number, kind, ZONE)).collect();
    let targets = target(&rules(), &zones);
    let job = job(rules(), 4, Mix::ReadWrite { read_percent: 50 }, true);
    let mut user = ZoneUser::new(&job, 0, &[], &targets).unwrap();
    assert_eq!(at(user.place(&io(Dir::Write, 3 * BLOCK))), 3 * BLOCK, "anywhere");
    assert_eq!(at(user.place(&io(Dir::Read, 9 * BLOCK))), 9 * BLOCK);
    // The last block of a conventional zone must not reach into the next one.
    let long = Request { len: 2 * BLOCK as u32, ..io(Dir::Write, ZONE - BLOCK) };
    match user.place(&long) {
        Placed::At(short) => {
            assert_eq!((short.offset, u64::from(short.len)), (ZONE - BLOCK, BLOCK))
        }
        other => panic!("{other:?}"),
    }
    for zone in [1, 2] {
        assert_eq!(
            at(user.place(&io(Dir::Write, zone * ZONE))) / ZONE,
            3,
            "zone {zone} takes no writes"
        );
    }
    assert_eq!(at(user.place(&io(Dir::Read, ZONE + 4 * BLOCK))), ZONE + 4 * BLOCK);
    assert_ne!(at(user.place(&io(Dir::Read, 2 * ZONE))) / ZONE, 2, "offline");
}

#[test]
fn sequential_writes_keep_to_the_capacity_and_end_with_the_region() {
    let rules = ZoneRules { capacity: 3 * BLOCK, ..rules() };
    let zones: Vec<Reported> =
        (0..2).map(|number| zone(number, ZoneKind::Sequential, 3 * BLOCK)).collect();
    let targets = target(&rules, &zones);
    let job = job(rules, 2, Mix::Only(Dir::Write), false);
    let mut user = ZoneUser::new(&job, 0, &[], &targets).unwrap();
    let mut offsets = Vec::new();
    while let Placed::At(placed) = user.place(&io(Dir::Write, 0)) {
        user.completed(Dir::Write, 0, placed.offset, true);
        offsets.push(placed.offset);
    }
    let mut wanted = [0, BLOCK, 2 * BLOCK].map(|offset| [offset, ZONE + offset]).concat();
    wanted.sort_unstable();
    assert_eq!((offsets, user.resets()), (wanted, 0));
}

#[test]
fn the_rest_of_a_zone_is_written_on_request() {
    let rules = ZoneRules { writes_rest: true, ..rules() };
    let zones = [0, 1].map(|number| zone(number, ZoneKind::Sequential, 4 * BLOCK + 512));
    let targets = target(&rules, &zones);
    let mut job = job(rules, 2, Mix::Only(Dir::Write), false);
    job.access.block_sizes = PerDir::splat(BlockSizes::Fixed(3 * BLOCK));
    let mut user = ZoneUser::new(&job, 0, &[], &targets).unwrap();
    let write = Request { len: 3 * BLOCK as u32, ..io(Dir::Write, 0) };
    let mut written = Vec::new();
    while let Placed::At(placed) = user.place(&write) {
        user.completed(Dir::Write, 0, placed.offset, true);
        written.push((placed.offset, u64::from(placed.len)));
    }
    let of_zone = |start| [(start, 3 * BLOCK), (start + 3 * BLOCK, BLOCK + 512)];
    assert_eq!(written, [of_zone(0), of_zone(ZONE)].concat());
}

#[test]
fn no_more_zones_are_open_than_allowed() {
    let rules = ZoneRules { open_max: 3, own_open_max: 2, ..rules() };
    let targets = target(&rules, &empty(16));
    let job = job(rules, 16, Mix::Only(Dir::Write), true);
    let users: Vec<_> =
        (0..2).map(|worker| ZoneUser::new(&job, worker, &[], &targets).unwrap()).collect();
    let mut open = std::collections::BTreeMap::<u64, u64>::new();
    let mut written = [std::collections::BTreeSet::new(), std::collections::BTreeSet::new()];
    for (worker, mut user) in users.into_iter().enumerate() {
        for number in 0..40 {
            let offset = at(user.place(&io(Dir::Write, number * 37 % 16 * ZONE)));
            user.completed(Dir::Write, 0, offset, true);
            let bytes = open.entry(offset / ZONE).or_default();
            *bytes += BLOCK;
            if *bytes == ZONE {
                open.remove(&(offset / ZONE));
            }
            written[worker].insert(offset / ZONE);
            assert!(open.len() <= 3, "{open:?}");
        }
    }
    // The first worker opens two at a time only.
    assert!(written[0].len() <= 4 && !written[1].is_empty(), "{written:?}");
}

#[test]
fn a_rest_too_short_for_a_block_is_finished() {
    let rules = ZoneRules { open_max: 1, ..rules() };
    let zones: Vec<Reported> =
        (0..2).map(|number| zone(number, ZoneKind::Sequential, BLOCK + 512)).collect();
    let targets = target(&rules, &zones);
    let job = job(rules, 2, Mix::Only(Dir::Write), true);
    let mut user = ZoneUser::new(&job, 0, &[], &targets).unwrap();
    for expected in [0, ZONE, 0] {
        let offset = match user.place(&io(Dir::Write, 0)) {
            Placed::Wait => at(user.place(&io(Dir::Write, 0))),
            placed => at(placed),
        };
        assert_eq!(offset, expected);
        user.completed(Dir::Write, 0, offset, true);
    }
    assert_eq!(user.resets(), 1);
}

#[test]
fn a_trim_resets_a_zone_with_data() {
    let targets = target(&rules(), &empty(4));
    let mut writer =
        ZoneUser::new(&job(rules(), 4, Mix::Only(Dir::Write), true), 0, &[], &targets).unwrap();
    let mut trimmer =
        ZoneUser::new(&job(rules(), 4, Mix::Only(Dir::Trim), true), 1, &[], &targets).unwrap();
    let trim = Request { len: ZONE as u32, ..io(Dir::Trim, 0) };
    assert!(matches!(trimmer.place(&trim), Placed::End), "all are empty");
    let offset = at(writer.place(&io(Dir::Write, 2 * ZONE)));
    assert!(matches!(trimmer.place(&trim), Placed::Wait), "a write is in flight");
    writer.completed(Dir::Write, 0, offset, true);
    match trimmer.place(&trim) {
        Placed::Done(done) => assert_eq!(done.offset, 2 * ZONE),
        other => panic!("{other:?}"),
    }
    assert_eq!((at(writer.place(&io(Dir::Write, 2 * ZONE))), trimmer.resets()), (2 * ZONE, 1));
}

#[test]
fn verified_data_is_not_reset() {
    let targets = target(&rules(), &empty(1));
    let mut job = job(rules(), 1, Mix::Only(Dir::Write), true);
    job.verify = Some(fathom_model::plan::Verify::default());
    let mut user = ZoneUser::new(&job, 0, &[], &targets).unwrap();
    let mut count = 0;
    while let Placed::At(placed) = user.place(&io(Dir::Write, 0)) {
        user.completed(Dir::Write, 0, placed.offset, true);
        count += 1;
    }
    assert_eq!((count, user.resets()), (ZONE / BLOCK, 0));
    user.begin().unwrap();
    assert_eq!((at(user.place(&io(Dir::Write, 0))), user.resets()), (0, 1));
}

/// The rule of sequential zones, as a device applies it: it sees each write in the order of submission.
#[derive(Default)]
struct Device {
    pointers: BTreeMap<u64, u64>,
    broken: Vec<(u64, u64)>,
}

impl Device {
    fn write(&mut self, offset: u64, len: u64) {
        let (zone, into) = (offset / ZONE, offset % ZONE);
        let pointer = self.pointers.entry(zone).or_default();
        // A write to the start of a zone follows a reset.
        if into != *pointer && into != 0 {
            self.broken.push((offset, *pointer));
        }
        *pointer = into + len;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn workers_together_keep_the_order_of_writes(
        depth in 1usize..9, open_max in 0u32..5, keeps_order: bool, random: [bool; 4], seed in any::<u64>(),
    ) {
        let rules = ZoneRules { open_max, keeps_order, ..rules() };
        let targets = target(&rules, &empty(8));
        let device = Mutex::new(Device::default());
        std::thread::scope(|scope| {
            for (worker, random) in random.into_iter().enumerate() {
                let (targets, device) = (&targets, &device);
                scope.spawn(move || {
                    let mut job = job(rules, 8, Mix::ReadWrite { read_percent: 30 }, random);
                    job.until.bytes = None;
                    let mut user = ZoneUser::new(&job, worker, &[], targets).unwrap();
                    let mut flight: Vec<(Dir, Request)> = Vec::new();
                    let (mut state, mut done) = (seed ^ worker as u64, 0);
                    let mut waits = 0;
                    while done < 400 && waits < 100_000 {
                        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                        let dir = if state >> 60 < 5 { Dir::Read } else { Dir::Write };
                        let request = io(dir, (state >> 33) % (8 * ZONE / BLOCK) * BLOCK);
                        // Placing and submitting is one step to the device: a worker submits in its order.
                        let mut seen = device.lock().unwrap();
                        let placed = user.place(&request);
                        if let (Placed::At(placed), Dir::Write) = (&placed, dir) {
                            seen.write(placed.offset, u64::from(placed.len));
                        }
                        drop(seen);
                        waits += 1;
                        if let Placed::At(placed) = placed {
                            flight.push((dir, placed));
                            (done, waits) = (done + 1, 0);
                        } else {
                            std::thread::yield_now();
                        }
                        if flight.len() >= depth || waits > 0 && !flight.is_empty() {
                            let (dir, io) = flight.remove(state as usize % flight.len());
                            user.completed(dir, 0, io.offset, true);
                        }
                    }
                    flight.into_iter().for_each(|(dir, io)| user.completed(dir, 0, io.offset, true));
                    assert!(done == 400, "stuck after {done}");
                });
            }
        });
        let device = device.into_inner().unwrap();
        prop_assert!(device.broken.is_empty(), "{:?}", device.broken);
    }
}

/// The offsets of I/Os in these directions, each of which completes at once.
fn offsets(user: &mut ZoneUser, dirs: &[Dir]) -> Vec<u64> {
    let mut placed = Vec::new();
    for dir in dirs {
        let Placed::At(request) = user.place(&io(*dir, 0)) else { break };
        user.completed(*dir, 0, request.offset, true);
        placed.push(request.offset);
    }
    placed
}

#[test]
fn what_is_left_out_is_no_end() {
    let rules = ZoneRules { skip: ZONE, ..rules() };
    let targets = target(&rules, &empty(4));
    let mut user =
        ZoneUser::new(&job(rules, 4, Mix::Only(Dir::Write), false), 0, &[], &targets).unwrap();
    let count = (4 * ZONE / BLOCK) as usize;
    let zones: Vec<u64> =
        offsets(&mut user, &vec![Dir::Write; count]).iter().map(|offset| offset / ZONE).collect();
    let half = count / 4;
    let rounds = [0, 2, 0, 2].map(|zone| vec![zone; half]).concat();
    assert_eq!((zones, user.resets()), (rounds, 2));
}

#[test]
fn reads_that_reach_the_write_pointer_begin_again_up_to_io_size() {
    let dirs = [Dir::Write, Dir::Read, Dir::Read, Dir::Write, Dir::Read];
    let of = |begins_again| {
        let rules = ZoneRules { begins_again, ..rules() };
        let targets = target(&rules, &empty(2));
        let job = job(rules, 2, Mix::ReadWrite { read_percent: 50 }, false);
        offsets(&mut ZoneUser::new(&job, 0, &[], &targets).unwrap(), &dirs)
    };
    assert_eq!(of(false), [0, 0]);
    assert_eq!(of(true), [0, 0, 0, BLOCK, BLOCK]);
}
