use super::super::{JournalFile, Verifier};
use super::*;
use crate::queue::{Op, Request};
use fathom_model::plan::{BlockSizes, Buffers, Mix, Order, Region, Verify, VerifyMethod};
use fathom_model::{Dir, split_mix};
use proptest::prelude::*;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

const BLOCK: usize = 4096;
const BLOCKS: usize = 16;
const SECTORS: usize = BLOCKS * BLOCK / SECTOR as usize;
const SALT: u64 = 0x5a17;

/// A seeded sequence of numbers.
struct Random(u64, u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.1 += 1;
        (split_mix::nth(self.0, self.1) % end as u64) as usize
    }

    fn percent(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }
}

fn job(verify: Verify) -> JobPlan {
    let order = Order::Sequential { skip: 0 };
    let mut job = JobPlan::new("t", Engine::Null, Mix::Only(Dir::Write), order);
    job.access.block_sizes.write = BlockSizes::Fixed(BLOCK as u64);
    job.regions = vec![Region { target: 0, start: 0, len: (BLOCKS * BLOCK) as u64 }];
    (job.verify, job.depth) = (Some(verify), 4);
    job
}

fn jobs() -> Vec<JobPlan> {
    let plain = |method| Verify { method, ..Verify::default() };
    let pattern = Verify {
        pattern: vec![1, 2, 3, 0, 0, 0, 0, 0, 0, 0, 0],
        offsets: vec![3],
        ..plain(VerifyMethod::PatternHeader)
    };
    let compressible = JobPlan {
        buffers: Buffers { compress_percent: 60, ..Buffers::default() },
        ..job(plain(VerifyMethod::Meta))
    };
    let mut direct = job(plain(VerifyMethod::Xxhash));
    direct.sync_io = SyncIo::Dsync;
    let intervals = Verify { interval: 1024, ..plain(VerifyMethod::Md5) };
    let elsewhere = Verify { header_offset: 1536, ..plain(VerifyMethod::Crc32c) };
    let mut all: Vec<JobPlan> =
        [plain(VerifyMethod::Crc32c), intervals, elsewhere, pattern].map(job).into();
    all.extend([compressible, direct]);
    all
}

/// A disk with a cache, and which write each sector is of, on the medium and in the cache.
struct Disk {
    medium: Vec<u8>,
    tags: Vec<Option<u64>>,
    cache: Vec<(u64, Vec<u8>, u64)>,
}

impl Disk {
    fn new() -> Self {
        Self { medium: vec![0; BLOCKS * BLOCK], tags: vec![None; SECTORS], cache: Vec::new() }
    }

    /// Moves what `chosen` says of each sector of what is cached to the medium.
    fn settle(&mut self, mut chosen: impl FnMut() -> bool) {
        for (offset, data, number) in std::mem::take(&mut self.cache) {
            for (index, sector) in data.chunks(SECTOR as usize).enumerate() {
                let at = offset as usize + index * SECTOR as usize;
                if chosen() {
                    self.medium[at..at + sector.len()].copy_from_slice(sector);
                    self.tags[at / SECTOR as usize] = Some(number);
                }
            }
        }
    }

    /// Loses a part of what is cached: some writes whole, some in part, in the order in which they came.
    fn cut(&mut self, random: &mut Random) {
        let (whole, kept) = (random.percent(50), random.below(101));
        let mut last = (0, false);
        let mut count = 0;
        self.settle(|| {
            count += 1;
            if !whole || last.0 != count / 8 {
                last = (count / 8, random.percent(kept));
            }
            last.1
        });
    }
}

struct Simulation {
    dir: tempfile::TempDir,
    job: JobPlan,
    disk: Disk,
    /// Of each sector, the last write that was acknowledged as durable.
    promised: Vec<Option<u64>>,
    /// Bytes of the journal that were on disk when the power went.
    synced: usize,
}

impl Simulation {
    fn journal(&self) -> PathBuf {
        self.dir.path().join("journal")
    }

    /// A job in which up to four writes are in flight, until the power goes; `lies` is in percent of its flushes.
    fn run(job: &JobPlan, seed: u64, lies: usize) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal");
        let file = JournalFile {
            file: File::create(&path).unwrap(),
            path: path.display().to_string(),
            salt: SALT,
        };
        let mut verifier = Verifier::new(job, 0, Some(file)).unwrap();
        let mut random = Random(seed, 0);
        let (mut disk, mut promised) = (Disk::new(), vec![None; SECTORS]);
        let mut flying: Vec<(u32, Request)> = Vec::new();
        let mut completed: Vec<(u64, Request)> = Vec::new();
        let durably = job.sync_io != SyncIo::None;
        let promise = |promised: &mut Vec<Option<u64>>, number: u64, request: &Request| {
            let from = request.offset as usize / SECTOR as usize;
            let part = &mut promised[from..from + request.len as usize / SECTOR as usize];
            part.iter_mut().for_each(|sector| *sector = (*sector).max(Some(number)));
        };
        let mut numbers = [0; 4];
        let mut next = 0;
        for _ in 0..20 + random.below(200) {
            let slot = (0..4).find(|slot| flying.iter().all(|(other, _)| other != slot));
            let (first, count) = (random.below(BLOCKS), 1 + random.below(2));
            let request = Request {
                op: Op::Io(Dir::Write),
                file: 0,
                offset: (first * BLOCK) as u64,
                len: (count.min(BLOCKS - first) * BLOCK) as u32,
                buffer_offset: 0,
            };
            let end = |r: &Request| r.offset + u64::from(r.len);
            let overlaps = flying
                .iter()
                .any(|(_, other)| other.offset < end(&request) && request.offset < end(other));
            if let Some(slot) = slot.filter(|_| !overlaps && random.percent(60)) {
                let mut data = vec![0; request.len as usize];
                verifier.prepare(slot, &mut data, &request, 0);
                verifier.write_ahead().unwrap();
                disk.cache.push((request.offset, data, next));
                flying.push((slot, request));
                numbers[slot as usize] = next;
                next += 1;
            } else if let Some((slot, request)) = flying.pop() {
                if durably && !random.percent(lies) {
                    disk.settle(|| true);
                }
                verifier.completed(slot);
                completed.push((numbers[slot as usize], request));
                if durably {
                    promise(&mut promised, numbers[slot as usize], &request);
                }
            } else if random.percent(40) {
                verifier.flush_begun(0);
                if random.percent(10) {
                    // It fails.
                    continue;
                }
                if !random.percent(lies) {
                    disk.settle(|| true);
                }
                verifier.flush_completed(0);
                completed.drain(..).for_each(|(number, r)| promise(&mut promised, number, &r));
            }
        }
        let synced = fs::metadata(&path).unwrap().len() as usize;
        verifier.sync_journal().unwrap();
        disk.cut(&mut random);
        Self { dir, job: job.clone(), disk, promised, synced }
    }

    fn check(&self) -> PromiseRecord {
        let path = self.dir.path().join("disk");
        fs::write(&path, &self.disk.medium).unwrap();
        check(&self.job, &fs::read(self.journal()).unwrap(), &path)
    }
}

fn check(job: &JobPlan, journal: &[u8], path: &Path) -> PromiseRecord {
    let fd = OwnedFd::from(File::open(path).unwrap());
    let files = [PromisedFile { path: "disk".into(), fd }];
    check_promises(job, 0, SALT, journal, &files).unwrap()
}

#[test]
fn an_honest_disk_is_never_accused() {
    let mut all = BlockOutcomes::default();
    for job in jobs() {
        for seed in 0..60 {
            let run = Simulation::run(&job, seed, 0);
            let found = run.check();
            assert_eq!(found.blocks.lost(), 0, "{seed} {:?} {found:#?}", job.verify);
            all.newer += found.blocks.newer;
            all.mixed += found.blocks.mixed;
            all.as_acknowledged += found.blocks.as_acknowledged;
            // A journal whose own disk lost a part of what was not on it promises less.
            let whole = fs::read(run.journal()).unwrap();
            let part = run.synced + (whole.len() - run.synced) * (seed as usize % 10) / 10;
            let shorter = check(&job, &whole[..part], &run.dir.path().join("disk"));
            assert!(shorter.durable <= found.durable);
            assert_eq!(shorter.blocks.lost(), 0, "{seed} {shorter:#?}");
        }
    }
    assert!(all.newer > 200 && all.mixed > 200 && all.as_acknowledged > 2000, "{all:?}");
}

#[test]
fn a_disk_that_lost_what_it_acknowledged_is_always_found() {
    let mut lost_runs = 0;
    for job in jobs() {
        // Equal in all writes, a lost part of such a block cannot be told, and is no loss.
        let is_plain = job.buffers.compress_percent == 0
            && job.verify.as_ref().is_some_and(|verify| verify.pattern.is_empty());
        for seed in 0..60 {
            let run = Simulation::run(&job, seed, 60);
            let is_lost = run.disk.tags.iter().zip(&run.promised).any(|(tag, due)| tag < due);
            let found = run.check();
            assert!(is_lost || found.blocks.lost() == 0, "{seed} {found:#?}");
            assert!(!is_lost || !is_plain || found.blocks.lost() > 0, "{seed} {found:#?}");
            assert_eq!(found.first.len() as u64, found.blocks.lost().min(16));
            lost_runs += usize::from(is_lost);
        }
    }
    assert!(lost_runs > 100, "{lost_runs}");
}

/// Writes blocks 0 to 3, flushes, and writes them again without.
fn written_twice(job: &JobPlan) -> (Simulation, Vec<Vec<u8>>) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("journal");
    let file = JournalFile { file: File::create(&path).unwrap(), path: String::new(), salt: SALT };
    let mut verifier = Verifier::new(job, 0, Some(file)).unwrap();
    let mut disk = Disk::new();
    let mut all = Vec::new();
    for round in 0..3 {
        for block in 0..4u64 {
            let (offset, op) = (block * BLOCK as u64, Op::Io(Dir::Write));
            let request = Request { op, file: 0, offset, len: BLOCK as u32, buffer_offset: 0 };
            let mut data = vec![0; BLOCK];
            verifier.prepare(0, &mut data, &request, 0);
            verifier.completed(0);
            all.push(data);
        }
        if round < 2 {
            verifier.flush_begun(0);
            verifier.flush_completed(0);
        }
    }
    verifier.sync_journal().unwrap();
    for (block, data) in all[4..8].iter().enumerate() {
        disk.medium[block * BLOCK..][..BLOCK].copy_from_slice(data);
    }
    let (promised, synced) = (Vec::new(), 0);
    (Simulation { dir, job: job.clone(), disk, promised, synced }, all)
}

#[test]
fn each_loss_is_called_by_its_name() {
    let (mut run, writes) = written_twice(&jobs()[0]);
    let outcome = |run: &Simulation| run.check().blocks;
    let put = |run: &mut Simulation, block: usize, from: usize, data: &[u8]| {
        run.disk.medium[block * BLOCK + from..][..data.len()].copy_from_slice(data);
    };
    let good = run.check();
    assert_eq!((good.submitted, good.completed, good.durable, good.flushes), (12, 12, 8, 2));
    assert_eq!(good.blocks, BlockOutcomes { as_acknowledged: 4, ..BlockOutcomes::default() });
    put(&mut run, 0, 0, &writes[8]);
    put(&mut run, 1, 512, &writes[9][512..1024]);
    let allowed = BlockOutcomes { as_acknowledged: 2, newer: 1, mixed: 1, ..Default::default() };
    assert_eq!(outcome(&run), allowed);
    put(&mut run, 0, 0, &writes[0]);
    put(&mut run, 1, 1024, &[0; 1024]);
    put(&mut run, 2, 0, &[0; BLOCK]);
    put(&mut run, 3, 0, &[0xee; BLOCK]);
    let found = run.check();
    let of_each = BlockOutcomes {
        lost_stale: 1,
        lost_torn: 1,
        lost_zero: 1,
        lost_other: 1,
        ..BlockOutcomes::default()
    };
    assert_eq!(found.blocks, of_each);
    let damages: Vec<&Damage> = found.first.iter().map(|lost| &lost.block.damage).collect();
    let torn = Damage::Torn { from: 1024, to: 2048, zero: true };
    assert_eq!(damages, [&Damage::Stale { last: 4 }, &torn, &Damage::Zero, &Damage::Foreign]);
    assert_eq!(found.first[0].acknowledged_write, 4);
    assert_eq!(found.first[0].block.header.map(|header| header.write), Some(0));
}

#[test]
fn data_of_an_earlier_run_with_the_same_seeds_is_not_this_runs() {
    let (mut run, _) = written_twice(&jobs()[0]);
    let mut before = Verifier::of_run(&run.job, 0, SALT + 1).unwrap();
    let op = Op::Io(Dir::Write);
    for number in 0..8u64 {
        let offset = number % 4 * BLOCK as u64;
        let request = Request { op, file: 0, offset, len: BLOCK as u32, buffer_offset: 0 };
        let place = offset as usize..offset as usize + BLOCK;
        before.prepare(0, &mut run.disk.medium[place], &request, 0);
    }
    let found = run.check();
    assert_eq!((found.blocks.lost_other, found.blocks.lost()), (4, 4));
    assert_eq!(found.first[0].block.damage, Damage::OtherWriter);
}

#[test]
fn trims_and_emptied_files_end_promises() {
    let submitted =
        |number, offset| Event::Submitted { number, file: 0, offset, len: BLOCK as u32 };
    let mut events = vec![submitted(0, 0), submitted(1, 4096), submitted(2, 8192)];
    events.extend((0..3).map(|number| Event::Completed { number }));
    events.extend([
        Event::FlushBegun { file: 0 },
        Event::FlushCompleted { file: 0 },
        Event::Trimmed { file: 0, offset: 2048, len: 4096 },
    ]);
    let durable = |events: &[Event]| {
        let history = History::replay(events, 1, false).unwrap();
        let segments = history.segments(1).remove(0);
        let durable = segments.iter().filter(|(_, segment)| segment.durable.is_some());
        durable.map(|(start, segment)| (*start, segment.end)).collect::<Vec<_>>()
    };
    assert_eq!(durable(&events), [(0, 2048), (6144, 8192), (8192, 12288)]);
    events.push(Event::Emptied);
    assert_eq!(durable(&events), []);
}

#[test]
fn a_flush_promises_only_what_completed_before_it_began() {
    let submitted = |number| Event::Submitted { number, file: 0, offset: 0, len: 512 };
    let events = [
        submitted(0),
        Event::Completed { number: 0 },
        submitted(1),
        Event::FlushBegun { file: 0 },
        Event::Completed { number: 1 },
        Event::FlushCompleted { file: 0 },
    ];
    let history = History::replay(&events, 1, false).unwrap();
    assert_eq!(history.writes.iter().map(|w| w.durable).collect::<Vec<_>>(), [true, false]);
    assert!(History::replay(&[Event::Completed { number: 0 }], 1, false).is_err());
    assert!(History::replay(&[Event::FlushBegun { file: 1 }], 1, false).is_err());
    assert!(History::replay(&[submitted(1)], 1, false).is_err());
}

/// Events that no worker leaves, but a damaged or forged journal may.
fn any_event() -> impl Strategy<Value = Event> {
    let (offset, len) = (0u64..80_000, 0u32..20_000);
    (0..6, 0u32..2, 0u64..8, offset, len).prop_map(|(kind, file, number, offset, len)| match kind {
        0 => Event::Submitted { number, file, offset, len },
        1 => Event::Completed { number },
        2 => Event::FlushBegun { file },
        3 => Event::FlushCompleted { file },
        4 => Event::Trimmed { file, offset, len },
        _ => Event::Emptied,
    })
}

proptest! {
    #[test]
    fn any_journal_is_judged_or_refused(
        events in proptest::collection::vec(any_event(), 0..30),
        in_order in any::<bool>(),
    ) {
        let mut next = 0;
        let mut journal = Vec::new();
        for mut event in events {
            if let (Event::Submitted { number, file, .. }, true) = (&mut event, in_order) {
                (*number, *file, next) = (next, 0, next + 1);
            }
            journal.extend(event.encode(0));
        }
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("disk");
        fs::write(&path, vec![1; BLOCKS * BLOCK]).unwrap();
        for job in jobs() {
            let fd = OwnedFd::from(File::open(&path).unwrap());
            let files = [PromisedFile { path: "disk".into(), fd }];
            if let Ok(found) = check_promises(&job, 0, SALT, &journal, &files) {
                prop_assert_eq!(found.blocks.judged(), found.blocks.lost());
            }
        }
    }
}
