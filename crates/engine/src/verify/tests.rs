use super::*;
use crate::queue::Op;
use fathom_model::plan::{BlockSizes, Engine, Mix, Region, VerifyTrims};
use fathom_model::record::Damage;
use proptest::prelude::*;

const BLOCK: usize = 4096;
const BLOCKS: u64 = 8;

fn job(method: VerifyMethod) -> JobPlan {
    let order = Order::Sequential { skip: 0 };
    let mut job = JobPlan::new("t", Engine::Null, Mix::Only(Dir::Write), order);
    job.access.block_sizes.write = BlockSizes::Fixed(BLOCK as u64);
    job.access.seed = 7;
    job.regions = vec![Region { target: 0, start: 0, len: BLOCKS * BLOCK as u64 }];
    let pattern =
        if method.needs_pattern() { vec![1, 2, 3, 0, 0, 0, 0, 0, 0, 0, 0] } else { vec![] };
    let offsets = if method.needs_pattern() { vec![3] } else { vec![] };
    job.verify = Some(Verify {
        method,
        interval: BLOCK as u32,
        pattern,
        offsets,
        read_back: true,
        sequence: true,
        seed: true,
        ..Verify::default()
    });
    job
}

fn io(op: Dir, block: u64) -> Request {
    let offset = block * BLOCK as u64;
    Request { op: Op::Io(op), file: 0, offset, len: BLOCK as u32, buffer_offset: 0 }
}

/// A worker that has written each block once, and what it wrote.
fn written(job: &JobPlan) -> (Box<Verifier>, Vec<Vec<u8>>) {
    let mut verifier = Verifier::new(job, 0, None).unwrap();
    let write = |block: u64| {
        let mut data = vec![0xee; BLOCK];
        verifier.prepare(0, &mut data, &io(Dir::Write, block), clock::now_ns());
        data
    };
    let data = (0..BLOCKS).map(write).collect();
    verifier.checking = true;
    (verifier, data)
}

fn damage(verifier: &mut Verifier, block: u64, data: &[u8]) -> Option<Damage> {
    let mut data = data.to_vec();
    let found = verifier.check(&mut data, &io(Dir::Read, block), "f");
    found.map(|(wrong, _)| {
        assert_eq!((wrong.offset, wrong.file.as_str()), (block * BLOCK as u64, "f"));
        wrong.damage
    })
}

#[test]
fn every_method_accepts_what_was_written_and_nothing_else() {
    for method in VerifyMethod::ALL {
        let (mut verifier, data) = written(&job(method));
        for block in 0..BLOCKS {
            assert_eq!(damage(&mut verifier, block, &data[block as usize]), None, "{method:?}");
        }
        let mut flipped = data[2].clone();
        flipped[3000] ^= 0x10;
        let bit = Damage::Bits { count: 1, bytes: vec![3000] };
        let found = damage(&mut verifier, 2, &flipped);
        match method {
            VerifyMethod::Null | VerifyMethod::Meta => assert_eq!(found, None),
            _ => assert_eq!(found, Some(bit), "{method:?}"),
        }
        let wrong = u64::from(found_any(method));
        assert_eq!((verifier.record.blocks, verifier.record.wrong), (BLOCKS + 1, wrong));
    }
}

fn found_any(method: VerifyMethod) -> bool {
    !matches!(method, VerifyMethod::Null | VerifyMethod::Meta)
}

#[test]
fn a_trimmed_block_is_zeroes_until_it_is_written() {
    let mut job = job(VerifyMethod::Md5);
    let trims = VerifyTrims { percent: 50, backlog: BLOCKS, batch: BLOCKS, zero: true };
    job.verify.as_mut().unwrap().trims = Some(trims);
    let (mut verifier, data) = written(&job);
    assert!(verifier.is_due());
    let trims = verifier.trims();
    assert!((3..=5).contains(&trims.len()), "{trims:?}");
    assert!(!verifier.is_due() && verifier.trims().is_empty());
    trims.iter().for_each(|trim| verifier.trim(trim));
    for block in 0..BLOCKS {
        let is_trimmed = trims.iter().any(|trim| trim.offset == block * BLOCK as u64);
        let found = |is: bool, damage| if is { None } else { Some(damage) };
        let written = damage(&mut verifier, block, &data[block as usize]);
        assert_eq!(written, found(!is_trimmed, Damage::NotTrimmed));
        let zero = damage(&mut verifier, block, &[0; BLOCK]);
        assert_eq!(zero, found(is_trimmed, Damage::Zero));
    }
    let block = trims[0].offset / BLOCK as u64;
    let mut again = vec![0; BLOCK];
    verifier.prepare(0, &mut again, &io(Dir::Write, block), clock::now_ns());
    assert_eq!(damage(&mut verifier, block, &again), None);
}

#[test]
fn a_state_has_what_failed_and_never_completed() {
    let mut job = job(VerifyMethod::Crc32c);
    job.verify.as_mut().unwrap().save_state = true;
    let (mut verifier, _) = written(&job);
    verifier.fail(&io(Dir::Write, 2));
    let state = verifier.state(&[io(Dir::Write, 5)]);
    assert_eq!((state.numbers, state.end()), (BLOCKS, 5));
    assert_eq!((state.in_flight.as_slice(), state.failed.as_slice()), (&[5][..], &[2][..]));
    let mut only = Verifier::new(&job, 0, None).unwrap();
    only.resume(state);
    let pretended = (0..BLOCKS).filter(|block| only.pretend(&io(Dir::Write, *block))).count();
    let reads: Vec<u64> = only.next_chunk().iter().map(|read| read.offset / BLOCK as u64).collect();
    assert_eq!((pretended, reads.as_slice()), (5, &[0, 1, 3, 4][..]));
}

#[test]
fn wrong_data_is_what_it_is() {
    let job = job(VerifyMethod::Crc32c);
    let (mut verifier, first) = written(&job);
    // Block 3 is written once more.
    verifier.checking = false;
    let mut second = vec![0; BLOCK];
    verifier.prepare(0, &mut second, &io(Dir::Write, 3), clock::now_ns());
    verifier.checking = true;
    let mut is = |block: u64, data: &[u8]| damage(&mut verifier, block, data);
    assert_eq!(is(3, &second), None);
    assert_eq!(is(3, &first[3]), Some(Damage::Stale { last: BLOCKS }));
    assert_eq!(is(4, &first[5]), Some(Damage::Misplaced));
    assert_eq!(is(4, &[0; BLOCK]), Some(Damage::Zero));
    assert_eq!(is(4, &[9; BLOCK]), Some(Damage::Foreign));
    let torn = |from: usize, to: usize, by: &[u8]| {
        let mut data = second.clone();
        data[from..to].copy_from_slice(&by[from..to]);
        data
    };
    let (from, to) = (1024, BLOCK as u32);
    let old = Damage::Torn { from, to, zero: false };
    assert_eq!(is(3, &torn(1024, BLOCK, &first[3])), Some(old));
    let zero = Damage::Torn { from: 512, to: 1536, zero: true };
    assert_eq!(is(3, &torn(512, 1536, &[0; BLOCK])), Some(zero));
    // The first sector, with the header, is lost: the rest is known by what the job wrote last.
    let head = Damage::Torn { from: 0, to: 512, zero: true };
    assert_eq!(is(3, &torn(0, 512, &[0; BLOCK])), Some(head));
    let mut header = second.clone();
    header[20] ^= 1;
    assert_eq!(is(3, &header), Some(Damage::Header { right_data: Some(true) }));
    let mut other = job.clone();
    other.access.seed = 8;
    let (_, others) = written(&other);
    assert_eq!(is(4, &others[4]), Some(Damage::OtherWriter));
    let mut longer = job.clone();
    longer.verify.as_mut().unwrap().interval = 512;
    let (_, longer) = written(&longer);
    assert_eq!(is(4, &longer[4]), Some(Damage::OtherFormat { len: 512, method: "crc32c".into() }));
}

#[test]
fn what_the_same_job_wrote_in_an_earlier_run_is_not_what_this_run_wrote() {
    let job = job(VerifyMethod::Crc32c);
    let (mut verifier, first) = written(&job);
    verifier.since_unix_ns += 1_000_000_000;
    assert_eq!(damage(&mut verifier, 3, &first[3]), Some(Damage::OtherWriter));
}

#[test]
fn what_was_verified_soon_is_not_verified_again() {
    let mut job = job(VerifyMethod::Crc32c);
    job.verify.as_mut().unwrap().backlog = 3;
    let (mut verifier, _) = written(&job);
    assert!(verifier.is_due());
    let due = verifier.due();
    assert_eq!(due.len(), BLOCKS as usize);
    due.iter().skip(1).for_each(|read| verifier.forget(read));
    assert_eq!(verifier.next_chunk().len(), 1);
    assert!(!verifier.is_due() && verifier.next_chunk().is_empty());
}

#[test]
fn a_job_that_only_reads_trusts_the_headers() {
    let mut reads = job(VerifyMethod::Md5);
    let (_, data) = written(&reads);
    reads.access.mix = Mix::Only(Dir::Read);
    reads.access.seed = 99;
    let mut verifier = Verifier::new(&reads, 3, None).unwrap();
    assert_eq!(damage(&mut verifier, 1, &data[1]), None);
    assert_eq!(damage(&mut verifier, 1, &data[2]), Some(Damage::Misplaced));
}

proptest! {
    #[test]
    fn any_damage_is_found_and_described(
        method in 0..VerifyMethod::ALL.len(),
        interval in prop_oneof![Just(512_u32), Just(4096)],
        header_offset in prop_oneof![Just(0_u32), Just(100)],
        len in 1_usize..=BLOCK,
        at in 0..BLOCK,
        bytes in proptest::collection::vec(any::<u8>(), 1..600),
    ) {
        let mut job = job(VerifyMethod::ALL[method]);
        let plan = job.verify.as_mut().unwrap();
        (plan.interval, plan.header_offset, plan.keep_going) = (interval, header_offset, true);
        let (mut verifier, data) = written(&job);
        // A part of the block, as a target that ends within it gives.
        let mut part = data[1][..len].to_vec();
        let read = Request { len: len as u32, ..io(Dir::Read, 1) };
        verifier.check(&mut part, &read, "f");
        let mut block = data[1].clone();
        let bytes = &bytes[..bytes.len().min(BLOCK - at)];
        block[at..at + bytes.len()].copy_from_slice(bytes);
        let changed = block != data[1];
        let found = verifier.check(&mut block, &io(Dir::Read, 1), "f");
        // Of two blocks, one in 128 has the same CRC-7 by chance.
        let by_chance = [VerifyMethod::Crc7, VerifyMethod::Crc16].contains(&VerifyMethod::ALL[method]);
        if found_any(VerifyMethod::ALL[method]) && !by_chance {
            prop_assert_eq!(found.is_some(), changed);
        }
        found.into_iter().for_each(|(wrong, _)| drop(wrong.text()));
    }
}

#[test]
fn threads_find_what_the_worker_finds() {
    for method in [VerifyMethod::Crc32c, VerifyMethod::Pattern] {
        let mut job = job(method);
        if let Some(verify) = &mut job.verify {
            (verify.threads, verify.thread_cpus, verify.keep_going) = (3, vec![0], true);
            verify.dump = Some(String::new());
        }
        let (mut alone, _) = written(&job);
        let (mut together, mut data) = written(&job);
        data[2][700] ^= 1;
        data[5].fill(0);
        let plan = job.verify.as_ref().unwrap();
        let mut helpers = Helpers::new(plan, 8).unwrap().unwrap();
        for round in 0..200 {
            let mut copy = data.clone();
            for (block, data) in copy.iter_mut().enumerate().skip(round % 4) {
                helpers.ios.push(Io::new(data.as_mut_slice(), io(Dir::Read, block as u64)));
            }
            helpers.check(&together, &["f".into()]);
            let found = helpers.ios.drain(..).filter_map(|io| together.enter(io.checked.unwrap()));
            let offsets: Vec<u64> = found.map(|(wrong, _)| wrong.offset / BLOCK as u64).collect();
            let wrong = if round % 4 < 3 { &[2, 5][..] } else { &[5] };
            assert_eq!(offsets, wrong);
            for (block, data) in data.iter().enumerate().skip(round % 4) {
                let _ = alone.check(&mut data.clone(), &io(Dir::Read, block as u64), "f");
            }
        }
        assert_eq!((&together.record, &together.dumps), (&alone.record, &alone.dumps));
        assert_eq!((together.record.wrong, together.dumps.len()), (350, DESCRIBED));
        // On a busy machine, this thread may have done all of it.
        while helpers.cpu_ns() == 0 {
            for (block, data) in data.iter_mut().enumerate() {
                helpers.ios.push(Io::new(data.as_mut_slice(), io(Dir::Read, block as u64)));
            }
            helpers.check(&together, &["f".into()]);
            helpers.ios.clear();
        }
    }
    let mut none = job(VerifyMethod::Crc32c);
    none.verify.iter_mut().for_each(|verify| verify.threads = 3);
    assert!(Helpers::new(none.verify.as_ref().unwrap(), 1).unwrap().is_none());
}

#[test]
fn a_dump_has_what_is_there_and_what_should_be() {
    for (method, at) in
        [(VerifyMethod::Sha256, 0), (VerifyMethod::Sha256, 256), (VerifyMethod::PatternHeader, 0)]
    {
        let mut job = job(method);
        if let Some(verify) = &mut job.verify {
            (verify.header_offset, verify.dump) = (at, Some("d".into()));
        }
        let (mut verifier, data) = written(&job);
        let mut wrong = data[3].clone();
        wrong[2000..2010].fill(0xaa);
        assert!(damage(&mut verifier, 3, &wrong).is_some());
        let dump = BlockDump {
            block: 0,
            directory: "d".into(),
            received: wrong.clone(),
            expected: Some(data[3].clone()),
        };
        assert_eq!(verifier.dumps, [dump]);
        // Nothing says when it was written.
        assert!(damage(&mut verifier, 4, &[0; BLOCK]).is_some());
        let expected = verifier.dumps[1].expected.as_ref().unwrap();
        assert_eq!(expected[1000..], data[4][1000..]);
    }
}
