//! Random stacks of loop devices, partitions, hard links, overlays, mounts and swap, with something
//! in use in each: whatever a target is called that shares bytes with it, nothing of it changes.
#![allow(clippy::expect_used, clippy::panic)]

mod build;
mod change;
mod sight;

use crate::support::{MIB, Target, WRITE, devices, open, target, text, written};
use build::{Built, IMAGE, Layer, NAMES, Place, Stack, Usage};
use change::{Coarse, changes};
use fathom_machine::guard::Permissions;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use sight::SIGHTS;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// So many stacks are built, unless `FATHOM_STACKS` says another number.
const STACKS: u32 = 40;

fn stacks() -> impl Strategy<Value = Stack> {
    let place = prop_oneof![
        4 => Just(Place::Directory),
        1 => Just(Place::BindMount),
        2 => Just(Place::Overlay),
        1 => Just(Place::Nested),
    ];
    let usage = prop_oneof![
        8 => Just(Usage::SetUp),
        12 => Just(Usage::Mounted),
        1 => Just(Usage::MountedElsewhere),
        3 => Just(Usage::Swap),
        3 => Just(Usage::Image),
    ];
    let layer = (any::<bool>(), any::<bool>(), any::<bool>());
    let layer =
        layer.prop_map(|(on_partition, offset, limited)| Layer { on_partition, offset, limited });
    let layers = prop::collection::vec(layer, 1..=3);
    let names = (0..NAMES.len(), 0..=2_usize, any::<bool>(), any::<bool>(), any::<bool>());
    let sight = (prop::bool::weighted(0.2), prop::sample::select(&SIGHTS[..]));
    (place, usage, layers, 0..3_usize, names, sight).prop_map(
        |(place, usage, layers, used, names, (deep, sight))| {
            let (name, links, renamed, removed, covered) = names;
            let used = used.min(layers.len() - 1);
            Stack {
                name,
                place,
                links,
                renamed,
                removed,
                covered,
                deep,
                layers,
                used,
                usage,
                sight,
            }
        },
    )
}

impl Built {
    /// Every way to name what shares bytes with the file: the paths, links to them, and nodes of
    /// other names.
    fn names(&self) -> Vec<PathBuf> {
        let mut names = Vec::new();
        for (number, path) in self.paths.iter().enumerate() {
            if path.to_str().is_some() {
                names.push(path.clone());
            }
            let link = self.dir.path().join(format!("symlink{number}"));
            std::os::unix::fs::symlink(path, &link).expect("link");
            names.push(link);
            let Ok(stat) = rustix::fs::stat(path) else { continue };
            if path.starts_with("/dev") {
                let node = self.dir.path().join(format!("node{number}"));
                let kind = rustix::fs::FileType::BlockDevice;
                rustix::fs::mknodat(rustix::fs::CWD, &node, kind, 0o600.into(), stat.st_rdev)
                    .expect("node");
                names.push(node);
                names.push(format!("/dev/../{}", text(path)).into());
            }
        }
        names
    }

    /// All of the file but the page of swap that the kernel uses, if there is one.
    fn content(&self) -> Vec<u8> {
        let mut bytes = vec![0; IMAGE as usize];
        self.file.read_exact_at(&mut bytes, 0).expect("readable");
        if let Some(spare) = self.spare {
            bytes.drain(spare..spare + 4096);
        }
        bytes
    }

    /// Writes wherever the guard lets it; returns the first name by which the file was reached.
    fn attack(&self, names: &[PathBuf]) -> Option<String> {
        let before = self.content();
        attack_names(names, &|| self.content() != before)
    }
}

/// Writes and trims by every name that the guard lets it; returns the first after which something is changed.
fn attack_names(names: &[PathBuf], is_changed: &dyn Fn() -> bool) -> Option<String> {
    for path in names {
        let permitted = everything(path);
        for target in [written(path), Target { trimmed: true, ..target(path) }] {
            let Ok(targets) = open(vec![target], &permitted) else { continue };
            // A decoy that is nobody's.
            let Ok(fd) = targets[0].open_worker(WRITE) else { continue };
            let _ = rustix::io::pwrite(&fd, &vec![0xff; MIB as usize], 0);
            let _ = rustix::fs::fdatasync(&fd);
            if is_changed() {
                return Some(path.display().to_string());
            }
        }
    }
    None
}

/// Every permission that there is for a path.
fn everything(path: &Path) -> Permissions {
    let path = text(path);
    let size = std::fs::File::open(path)
        .ok()
        .and_then(|file| std::io::Seek::seek(&mut &file, std::io::SeekFrom::End(0)).ok());
    let erase = vec![path.to_string(), format!("{path}@{}", size.unwrap_or(0))];
    Permissions { erase, overwrite: vec![path.to_string()] }
}

#[test]
fn nothing_in_use_changes_under_any_name() {
    let Some(_alone) = devices("random stacks") else { return };
    let cases = std::env::var("FATHOM_STACKS").ok().and_then(|n| n.parse().ok()).unwrap_or(STACKS);
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let (built, names) = (std::cell::Cell::new(0), std::cell::Cell::new(0));
    let coarse = Coarse::new();
    let result = TestRunner::new(config).run(&(stacks(), changes()), |(stack, change)| {
        let here = stack.build();
        let all = here.names();
        let broken = here.attack(&all);
        built.set(built.get() + 1);
        names.set(names.get() + here.paths.len());
        prop_assert!(broken.is_none(), "changed through {broken:?}");
        let own = here.dir.path().join("own");
        std::fs::write(&own, [0; 8192]).expect("file");
        let before = here.content();
        stack.sight.attack(&all, &own, here.dir.path());
        prop_assert!(here.content() == before, "changed from where a part is missing");
        change.attack(here.dir.path(), &coarse);
        // The guard does not simply refuse everything.
        let refusal = open(vec![written(&own)], &everything(&own)).err();
        prop_assert!(refusal.is_none(), "{refusal:?}");
        Ok(())
    });
    let word = format!("stacks: {} built, {} names tried\n", built.get(), names.get());
    std::io::stderr().write_all(word.as_bytes()).expect("standard error");
    result.expect("nothing in use changes");
    assert!(built.get() >= cases);
}
