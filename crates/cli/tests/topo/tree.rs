//! Stored trees: descriptions in `trees/`, expanded to /sys and /proc in a directory.
//!
//! A line is a command with words and `key=value` settings; `_` stands for a space in values. Paths are below `sys/devices`.
//!
//! * `cpus LIST package=N node=N memory=GIB model=TEXT`: CPUs of a package and NUMA node.
//! * `pci PATH VENDOR:DEVICE CLASS port=KIND link=SPEEDxLANES best=SPEEDxLANES bus=HEX payload=BYTES node=N irqs=FIRST+COUNT
//!   on=CPU,… name=TEXT label=TEXT`: a PCI function; interrupt i is delivered to CPU i of `on`, wrapping around.
//! * `disk PATH NUMBER GIB model=TEXT queues=N`: a disk and the device that it belongs to, its parent directory. Its limits
//!   are those that the driver of its kind sets; `file` replaces single ones.
//! * `part PATH NUMBER GIB`, `stack NAME NUMBER GIB on=NAME,… dm=NAME level=NAME file=PATH`: what is on it.
//! * `mount NUMBER POINT source=PATH`, `slot NAME ADDRESS`, `file PATH TEXT`, `link PATH TARGET`: below the root.
//! * `unprivileged`: configuration space ends after 64 bytes.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A tree in a directory of its own.
pub struct Tree {
    dir: TempDir,
    mounts: String,
    is_privileged: bool,
    /// CPUs by package and by NUMA node.
    packages: BTreeMap<u32, Vec<u32>>,
    nodes: BTreeMap<u32, Vec<u32>>,
}

/// The words of a line, and its settings.
struct Line<'a> {
    words: Vec<&'a str>,
    settings: BTreeMap<&'a str, String>,
}

impl<'a> Line<'a> {
    fn of(text: &'a str) -> Self {
        let (settings, words) = text.split_whitespace().partition::<Vec<&str>, _>(|part| {
            part.split_once('=').is_some_and(|(key, _)| key.bytes().all(|b| b.is_ascii_lowercase()))
        });
        let settings = settings.into_iter().filter_map(|part| part.split_once('='));
        let settings = settings.map(|(key, value)| (key, value.replace('_', " "))).collect();
        Self { words, settings }
    }

    fn get(&self, key: &str) -> Option<&str> {
        self.settings.get(key).map(String::as_str)
    }

    fn number(&self, key: &str) -> Option<u32> {
        self.get(key).map(|value| value.parse().unwrap())
    }
}

impl Tree {
    pub fn expand(description: &str) -> Self {
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let is_privileged = !description.lines().any(|line| line == "unprivileged");
        let (packages, nodes) = (BTreeMap::new(), BTreeMap::new());
        let mut tree = Self { dir, mounts: String::new(), is_privileged, packages, nodes };
        tree.put("sys/block/.stored", "");
        tree.put("sys/devices/.stored", "");
        for line in description.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            tree.line(line);
        }
        tree.cpu_masks();
        let mounts = std::mem::take(&mut tree.mounts);
        tree.put("proc/self/mountinfo", &mounts);
        tree
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    fn line(&mut self, text: &str) {
        let line = Line::of(text);
        match line.words.as_slice() {
            ["unprivileged"] => {}
            ["cpus", list] => self.cpus(list, &line),
            ["pci", path, id, class] => self.function(path, id, class, &line),
            ["disk", path, number, gib] => self.disk(path, number, gib, &line),
            ["part", path, number, gib] => {
                self.block(path, number, gib);
                self.put(&format!("sys/devices/{path}/partition"), "1");
            }
            ["stack", name, number, gib] => self.stacked(name, number, gib, &line),
            ["mount", number, point] => {
                let source = line.get("source").unwrap_or("/dev/x");
                self.mounts += &format!("1 1 {number} / {point} rw - ext4 {source} rw\n");
            }
            ["slot", name, address] => {
                self.put(&format!("sys/bus/pci/slots/{name}/address"), address);
            }
            ["file", path, ..] => {
                let (_, content) = text.split_once(path).unwrap();
                self.put(path, content.trim().replace("\\n", "\n"));
            }
            ["link", path, target] => self.link(path, &self.path().join(target)),
            _ => panic!("stored tree: {text}"),
        }
    }

    fn put(&self, path: &str, text: impl AsRef<[u8]>) {
        let path = self.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Relative, as in sysfs, so that the tree can be mounted elsewhere.
    fn link(&self, path: &str, target: &Path) {
        let up = "../".repeat(Path::new(path).components().count() - 1);
        let target = Path::new(&up).join(target.strip_prefix(self.path()).unwrap());
        let path = self.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink(target, path).unwrap();
    }

    fn device(&self, path: &str) -> PathBuf {
        self.path().join("sys/devices").join(path)
    }

    fn cpus(&mut self, list: &str, line: &Line) {
        let package = line.number("package").unwrap_or(0);
        self.packages.entry(package).or_default().extend(numbers(list));
        for cpu in numbers(list) {
            let file = format!("sys/devices/system/cpu/cpu{cpu}/topology/physical_package_id");
            self.put(&file, package.to_string());
        }
        if let Some(node) = line.number("node") {
            let dir = format!("sys/devices/system/node/node{node}");
            let memory = u64::from(line.number("memory").unwrap()) << 20;
            self.nodes.insert(node, numbers(list));
            self.put(&format!("{dir}/cpulist"), list);
            self.put(&format!("{dir}/meminfo"), format!("Node {node} MemTotal: {memory} kB\n"));
        }
        let status = self.path().join("proc/self/status");
        let before = fs::read_to_string(status).unwrap_or("Cpus_allowed_list: ".into());
        let separator = if before.ends_with(' ') { "" } else { "," };
        self.put("proc/self/status", before + separator + list);
        if let Some(model) = line.get("model") {
            self.put("proc/cpuinfo", format!("model name : {model}\n"));
        }
    }

    /// Files from which hwloc reads what `cpus` says.
    fn cpu_masks(&self) {
        let system = "sys/devices/system";
        for cpus in self.packages.values() {
            for cpu in cpus {
                let dir = format!("{system}/cpu/cpu{cpu}/topology");
                self.put(&format!("{dir}/package_cpus"), mask(cpus));
                self.put(&format!("{dir}/core_cpus"), mask(&[*cpu]));
            }
        }
        let list = |numbers: &mut dyn Iterator<Item = &u32>| {
            numbers.map(ToString::to_string).collect::<Vec<_>>().join(",") + "\n"
        };
        self.put(&format!("{system}/cpu/online"), list(&mut self.packages.values().flatten()));
        for (node, cpus) in &self.nodes {
            self.put(&format!("{system}/node/node{node}/cpumap"), mask(cpus));
        }
        if !self.nodes.is_empty() {
            self.put(&format!("{system}/node/online"), list(&mut self.nodes.keys()));
        }
    }

    fn function(&self, path: &str, id: &str, class: &str, line: &Line) {
        let address = path.rsplit('/').next().unwrap();
        let (vendor, device) = id.split_once(':').unwrap();
        let put = |name: &str, text: String| self.put(&format!("sys/devices/{path}/{name}"), text);
        put("vendor", format!("0x{vendor}"));
        put("device", format!("0x{device}"));
        put("class", format!("0x{class}"));
        put("irq", "0".into());
        put("resource", "0x0 0x0 0x0\n".repeat(7));
        put("numa_node", line.number("node").map_or("-1".into(), |node| node.to_string()));
        if let Some(cpus) = line.number("node").and_then(|node| self.nodes.get(&node)) {
            put("local_cpus", mask(cpus));
        }
        let config = Config { id, class, line }.bytes();
        let readable = if self.is_privileged { config.len() } else { 64 };
        self.put(&format!("sys/devices/{path}/config"), &config[..readable]);
        if let Some(bus) = line.get("bus") {
            let bus = u8::from_str_radix(bus, 16).unwrap();
            put("secondary_bus_number", bus.to_string());
            self.bus_below(path, bus);
        }
        if let Some(label) = line.get("label") {
            put("label", label.into());
        }
        for (name, key) in [("current", "link"), ("max", "best")] {
            if let Some(mode) = line.get(key).or(line.get("link")) {
                let (speed, lanes) = mode.split_once('x').unwrap();
                put(&format!("{name}_link_speed"), format!("{speed} GT/s PCIe"));
                put(&format!("{name}_link_width"), lanes.into());
            }
        }
        if let Some(irqs) = line.get("irqs") {
            let (first, count) = irqs.split_once('+').unwrap();
            let on = numbers(line.get("on").unwrap_or("0"));
            let name = line.get("name").unwrap();
            for index in 0..count.parse::<usize>().unwrap() {
                let irq = first.parse::<usize>().unwrap() + index;
                put(&format!("msi_irqs/{irq}"), "msix".into());
                self.put(&format!("sys/kernel/irq/{irq}/actions"), format!("{name}{index}"));
                let cpu = on[index % on.len()];
                let file = format!("proc/irq/{irq}/effective_affinity_list");
                self.put(&file, cpu.to_string());
            }
        }
        self.link(&format!("sys/bus/pci/devices/{address}"), &self.device(path));
    }

    /// Bus `bus` is below all bridges of `path`.
    fn bus_below(&self, path: &str, bus: u8) {
        for bridge in Path::new(path).ancestors().skip(1) {
            let file = self.path().join("sys/devices").join(bridge).join("config");
            let Ok(mut config) = fs::read(&file) else { return };
            config[SUBORDINATE] = config[SUBORDINATE].max(bus);
            fs::write(file, config).unwrap();
        }
    }

    fn block(&self, path: &str, number: &str, gib: &str) {
        let dir = format!("sys/devices/{path}");
        self.put(&format!("{dir}/dev"), number);
        self.put(&format!("{dir}/size"), (gib.parse::<f64>().unwrap() * 2_097_152.0).to_string());
        let name = path.rsplit('/').next().unwrap();
        for link in [format!("sys/dev/block/{number}"), format!("sys/class/block/{name}")] {
            self.link(&link, &self.device(path));
        }
    }

    fn disk(&self, path: &str, number: &str, gib: &str, line: &Line) {
        self.block(path, number, gib);
        let (parent, name) = path.rsplit_once('/').unwrap();
        // The device of a SCSI disk is the one above `block`.
        let parent = parent.strip_suffix("/block").unwrap_or(parent);
        if let Some(model) = line.get("model") {
            self.put(&format!("sys/devices/{parent}/model"), model);
        }
        for queue in 0..line.number("queues").unwrap_or(0) {
            self.put(&format!("sys/devices/{path}/mq/{queue}/cpu_list"), queue.to_string());
        }
        self.limits(path, name);
        self.link(&format!("sys/devices/{path}/device"), &self.device(parent));
        self.link(&format!("sys/block/{name}"), &self.device(path));
    }

    fn limits(&self, path: &str, name: &str) {
        let kind = name.trim_end_matches(|c: char| !c.is_ascii_alphabetic());
        // Scheduler, requests, rotational, logical and physical block.
        let (scheduler, requests, rotational, logical, physical) = match kind {
            kind if kind.starts_with("nvme") => ("[none] mq-deadline kyber", 1023, 0, 512, 512),
            kind if kind.starts_with("sd") => ("none [mq-deadline]", 64, 1, 512, 4096),
            kind if kind.starts_with("mmcblk") => ("none mq-deadline [bfq]", 64, 0, 512, 512),
            kind if kind.starts_with("vd") => ("none [mq-deadline]", 256, 1, 512, 4096),
            // Built on others: the kernel shows no scheduler and no requests.
            _ => ("", 0, 0, 512, 512),
        };
        let put = |file: &str, text: String| self.put(&format!("sys/devices/{path}/{file}"), text);
        put("alignment_offset", "0\n".into());
        if !scheduler.is_empty() {
            put("queue/scheduler", format!("{scheduler}\n"));
            put("queue/nr_requests", format!("{requests}\n"));
        }
        for (file, value) in [
            ("rotational", rotational),
            ("logical_block_size", logical),
            ("physical_block_size", physical),
            ("minimum_io_size", physical),
            ("optimal_io_size", 0),
            ("read_ahead_kb", 128),
            ("write_same_max_bytes", 0),
        ] {
            put(&format!("queue/{file}"), format!("{value}\n"));
        }
    }

    fn stacked(&self, name: &str, number: &str, gib: &str, line: &Line) {
        let path = format!("virtual/block/{name}");
        self.block(&path, number, gib);
        self.limits(&path, name);
        self.link(&format!("sys/block/{name}"), &self.device(&path));
        for below in line.get("on").into_iter().flat_map(|on| on.split(',')) {
            self.put(&format!("sys/devices/{path}/slaves/{below}/x"), "");
            self.put(&format!("sys/class/block/{below}/holders/{name}/x"), "");
        }
        for (key, file) in [("dm", "dm/name"), ("level", "md/level"), ("file", "loop/backing_file")]
        {
            if let Some(value) = line.get(key) {
                self.put(&format!("sys/devices/{path}/{file}"), value);
            }
        }
    }
}

/// `0-3,8`.
fn numbers(list: &str) -> Vec<u32> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        first.parse::<u32>().unwrap()..=last.parse().unwrap()
    };
    list.split(',').flat_map(range).collect()
}

/// Such as `ff,ffffffff`, for CPUs 0 to 39.
fn mask(cpus: &[u32]) -> String {
    let words = cpus.iter().max().unwrap() / 32 + 1;
    let word = |word: u32| {
        let bits = cpus.iter().filter(|cpu| **cpu / 32 == word).map(|cpu| 1_u32 << (cpu % 32));
        format!("{:08x}", bits.sum::<u32>())
    };
    (0..words).rev().map(word).collect::<Vec<_>>().join(",") + "\n"
}

/// Where a bridge's configuration space has the number of the last bus below it.
const SUBORDINATE: usize = 0x1a;

/// Configuration space of a function.
struct Config<'a> {
    id: &'a str,
    class: &'a str,
    line: &'a Line<'a>,
}

impl Config<'_> {
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; 256];
        let mut set = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        let hex = |text: &str| u32::from_str_radix(text, 16).unwrap();
        let (vendor, device) = self.id.split_once(':').unwrap();
        set(0, &(hex(vendor) as u16).to_le_bytes());
        set(2, &(hex(device) as u16).to_le_bytes());
        set(9, &hex(self.class).to_le_bytes()[..3]);
        if let Some(bus) = self.line.get("bus") {
            // A bridge.
            set(0x0e, &[1]);
            set(0x19, &[hex(bus) as u8]);
            set(SUBORDINATE, &[hex(bus) as u8]);
        }
        let Some(link) = self.line.get("link") else { return bytes };
        set(0x06, &[0x10]);
        set(0x34, &[0x40]);
        let kind = match self.line.get("port") {
            Some("root") => 4,
            Some("up") => 5,
            Some("down") => 6,
            _ => 0,
        };
        let best = self.line.get("best").unwrap_or(link);
        let payload = self.line.number("payload").unwrap_or(256).trailing_zeros() as u8 - 7;
        set(0x40, &[0x10, 0, kind << 4 | 2, 0]);
        set(0x44, &[payload]);
        set(0x48, &[payload << 5]);
        set(0x4c, &(mode(best) | 1 << 10).to_le_bytes());
        set(0x52, &(mode(link) as u16).to_le_bytes());
        bytes
    }
}

/// Speed and width as registers have them.
fn mode(text: &str) -> u32 {
    let (speed, lanes) = text.split_once('x').unwrap();
    let speeds = ["2.5", "5.0", "8.0", "16.0", "32.0", "64.0"];
    let speed = speeds.iter().position(|own| *own == speed).unwrap() as u32 + 1;
    speed | lanes.parse::<u32>().unwrap() << 4
}
