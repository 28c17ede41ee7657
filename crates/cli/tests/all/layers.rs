//! Files on file systems without a block device of their own: the disk is found, or it is said that it is not.

use super::common::{Loop, Mounted, Place, Running, as_root, says, tool};
use rustix::mount::{MountFlags, mount};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

impl Mounted {
    fn new(at: PathBuf, args: &[&str]) -> Self {
        fs::create_dir_all(&at).unwrap();
        tool("mount", &[args, &[at.to_str().unwrap()]].concat());
        Self(at)
    }

    fn overlay(at: PathBuf, lower: &Path, upper: &Path) -> Self {
        let work = upper.with_extension("work");
        [lower, upper, &work].iter().for_each(|dir| fs::create_dir_all(dir).unwrap());
        let show = |dir: &Path| dir.to_str().unwrap().to_string();
        let options =
            format!("lowerdir={},upperdir={},workdir={}", show(lower), show(upper), show(&work));
        Self::new(at, &["-t", "overlay", "-o", &options, "o"])
    }
}

/// A disk of this test's own, with ext4: no other program does I/O there.
pub fn disk(place: &Place, name: &str) -> (Loop, Mounted) {
    let image = place.path(&format!("{name}.img"));
    fs::File::create(&image).unwrap().set_len(256 << 20).unwrap();
    let device = Loop::on(&image);
    tool("mkfs.ext4", &["-q", &device.0]);
    let mounted = Mounted::new(place.path(name), &[&device.0]);
    // Where both are bound by a pattern, the last is dropped first.
    (device, mounted)
}

fn name(device: &Loop) -> &str {
    device.0.trim_start_matches("/dev/")
}

fn run(place: &Place, args: &[&str]) -> Value {
    let sampling = ["--sampling=off", "--output-format=json", "--name=j"];
    place.run(&[&sampling, args].concat()).done().json()
}

/// The rules that found something, without those on the machine, and the disks.
fn found(result: &Value) -> (Vec<String>, Vec<String>) {
    let text = |value: &Value| value.as_str().unwrap().to_string();
    let findings = result["fathom"]["findings"].as_array().unwrap();
    let rules = findings.iter().map(|finding| text(&finding["rule"]));
    let rules = rules.filter(|rule| !rule.starts_with("busy") && !rule.contains("load"));
    let disks = result["disk_util"].as_array().into_iter().flatten();
    (rules.collect(), disks.map(|disk| text(&disk["name"])).collect())
}

/// What fathom finds about reads that no disk served, with and without O_DIRECT, and writes that reached none.
fn of_memory(place: &Place, dir: &str) -> Vec<(Vec<String>, Vec<String>)> {
    let at = |name: &str| format!("--filename={dir}/{name}");
    let written = format!("{dir}/read");
    fs::write(place.path(&written), vec![7; 8 << 20]).unwrap();
    tool("fallocate", &["-l", "16m", place.path(&format!("{dir}/hole")).to_str().unwrap()]);
    let read = ["--rw=read", "--bs=64k", "--size=8m", "--invalidate=0"];
    let all = [
        run(place, &[&read[..], &[&at("hole"), "--direct=1"]].concat()),
        run(place, &[&read[..], &[&at("read"), "--buffered=1", "--pre_read=1"]].concat()),
        run(place, &["--rw=write", "--bs=64k", "--size=8m", "--buffered=1", &at("write")]),
    ];
    ["read", "hole", "write"].iter().for_each(|name| {
        fs::remove_file(place.path(&format!("{dir}/{name}"))).unwrap();
    });
    all.iter().map(found).collect()
}

#[test]
fn on_an_overlay_warnings_are_those_of_the_file_below() {
    let Some(_root) = as_root("on_an_overlay_warnings_are_those_of_the_file_below") else { return };
    let place = Place::new();
    let (device, _mount) = disk(&place, "disk");
    let (lower, upper) = (place.path("disk/lower"), place.path("disk/upper"));
    let overlay = Mounted::overlay(place.path("overlay"), &lower, &upper);
    let stacked = Mounted::overlay(place.path("stacked"), &overlay.0, &place.path("disk/top"));
    let below = of_memory(&place, "disk");
    let rules: Vec<&[String]> = below.iter().map(|(rules, _)| rules.as_slice()).collect();
    for (rules, rule) in
        rules.iter().zip(["direct-reads-missing", "cached-reads", "unflushed-writes"])
    {
        assert!(rules.iter().any(|found| found == rule), "{rule}: {rules:?}");
    }
    assert!(below.iter().all(|(_, disks)| disks == &[name(&device)]), "{below:?}");
    assert_eq!(of_memory(&place, "overlay"), below);
    assert_eq!(of_memory(&place, "stacked"), below);
    // A file of the lower layer; a layer given by a relative path.
    fs::write(lower.join("old"), vec![7; 1 << 20]).unwrap();
    let args = ["--filename=stacked/old", "--rw=read", "--bs=64k", "--direct=1"];
    assert_eq!(found(&run(&place, &args)).1, [name(&device)]);
    drop(stacked);
    fs::create_dir_all(place.path("disk/work")).unwrap();
    let mut mount = place.command("mount", &["-t", "overlay", "none", "relative", "-o"]);
    fs::create_dir(place.path("relative")).unwrap();
    mount.arg("lowerdir=disk/lower,upperdir=disk/top,workdir=disk/work");
    Running::start(&mut mount).wait().done();
    let _relative = Mounted(place.path("relative"));
    assert_eq!(of_memory(&place, "relative"), below);
    for command in [&["doctor", "relative/old", "--verbose"][..], &["topo", "relative/old"]] {
        says(&place.ask(command).stdout, &[name(&device)]);
    }
    if Path::new("/sys/kernel/tracing/events").exists() {
        let blocks = place.ask(&["blocks", "relative/old", "--duration", "100ms"]);
        says(&blocks.done().stdout, &[name(&device)]);
    }
}

#[test]
fn layers_that_are_not_visible_are_bounded_by_all_disks() {
    let Some(_root) = as_root("layers_that_are_not_visible_are_bounded_by_all_disks") else {
        return;
    };
    let place = Place::new();
    let (device, mount) = disk(&place, "disk");
    let (lower, upper) = (place.path("disk/lower"), place.path("disk/upper"));
    let _overlay = Mounted::overlay(place.path("overlay"), &lower, &upper);
    // As in a container, where the paths of the layers are those of the host.
    drop(mount);
    tool("fallocate", &["-l", "64m", place.path("overlay/hole").to_str().unwrap()]);
    // So many bytes that no other program's I/O can hide that none came from a disk.
    let args = ["--rw=read", "--bs=1m", "--filename=overlay/hole", "--direct=1", "--loops=64"];
    let (rules, disks) = found(&run(&place, &args));
    assert!(rules.iter().any(|rule| rule == "direct-reads-missing"), "{rules:?}");
    assert!(disks.iter().any(|disk| disk == name(&device)), "{disks:?}");
    let page = place.run(&[&["--name=j"], &args[..]].concat()).done().stdout;
    says(&page, &["not measured", "disk of overlay/hole (overlay)"]);
    let doctor = place.ask(&["doctor", "overlay/hole"]);
    assert_eq!(doctor.code, Some(1));
    says(&doctor.stderr, &["disk of overlay/hole (overlay)", "name a disk"]);
}

#[test]
fn several_devices_hold_a_file_system_together() {
    let Some(_root) = as_root("several_devices_hold_a_file_system_together") else { return };
    if Command::new("mkfs.btrfs").arg("--version").output().is_err() {
        println!("skipped: several_devices_hold_a_file_system_together needs mkfs.btrfs");
        return;
    }
    let place = Place::new();
    let loops = ["a", "b"].map(|name| {
        let image = place.path(name);
        fs::File::create(&image).unwrap().set_len(256 << 20).unwrap();
        Loop::on(&image)
    });
    tool("mkfs.btrfs", &["-q", "-f", &loops[0].0, &loops[1].0]);
    let _mount = Mounted::new(place.path("m"), &["-t", "btrfs", &loops[0].0]);
    place.data("m/f", 8 << 20);
    let result = run(&place, &["--rw=read", "--bs=64k", "--filename=m/f", "--direct=1"]);
    let mut disks = found(&result).1;
    disks.sort();
    let mut both: Vec<&str> = loops.iter().map(name).collect();
    both.sort_unstable();
    assert_eq!(disks, both);
    says(&place.ask(&["doctor", "m/f", "--verbose"]).stdout, &both);
}

#[test]
fn a_file_system_in_a_file_is_on_the_disk_of_that_file() {
    let Some(_root) = as_root("a_file_system_in_a_file_is_on_the_disk_of_that_file") else {
        return;
    };
    let place = Place::new();
    let (device, _mount) = disk(&place, "disk");
    fs::create_dir(place.path("tree")).unwrap();
    place.data("tree/f", 1 << 20);
    let (image, tree, at) = (place.path("disk/image"), place.path("tree"), place.path("m"));
    let made = Command::new("mkfs.erofs").args([&image, &tree]).output();
    fs::create_dir(&at).unwrap();
    // mount(8) would make a loop device; the kernel takes the file itself since Linux 6.12.
    if made.is_err() || mount(&image, &at, "erofs", MountFlags::RDONLY, None).is_err() {
        println!("skipped: a_file_system_in_a_file_… needs mkfs.erofs and Linux 6.12");
        return;
    }
    let _mounted = Mounted(at);
    let result = run(&place, &["--rw=read", "--bs=64k", "--filename=m/f"]);
    assert_eq!(found(&result).1, [name(&device)]);
}
