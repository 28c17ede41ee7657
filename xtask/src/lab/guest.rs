//! A guest: QEMU with its disks, and the line-based channel between it and the lab.
//! `docs/lab.md` lists the lines.

use super::case::{Kernel, Machine};
use super::cut;
use super::qmp::Qmp;
use crate::Result;
use crate::run::Background;
use serde_json::{Value, json};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// A boot takes about 10 s; several times that on a busy host.
const BOOT_LIMIT: Duration = Duration::from_secs(180);

pub const QEMU: &str = "qemu-system-x86_64";

pub struct Setup<'a> {
    /// Directory of what `lab/image.sh` built.
    pub images: &'a Path,
    pub kernel: Kernel,
    pub machine: &'a Machine,
    pub cmdline: &'a str,
    /// The kernels of further guests, without disks, on the same network.
    pub peers: &'a [Kernel],
    /// Of this guest among its peers: 0 has them.
    pub number: usize,
    /// Whether writes are logged, so that a power cut can undo those not flushed.
    pub logged: bool,
    /// Directory of disks and sockets, which outlive the guest.
    pub dir: PathBuf,
    pub console: PathBuf,
}

pub struct Guest {
    /// Killed on drop, like a power cut.
    qemu: Background,
    channel: BufReader<UnixStream>,
    qmp: Qmp,
    part_of_line: Vec<u8>,
    pub boot_time: Duration,
    /// Killed with it.
    _peers: Vec<Guest>,
}

impl Guest {
    /// Starts the guest and waits until it is ready for cases.
    pub fn boot(setup: &Setup) -> Result<Guest> {
        let start = Instant::now();
        let peers = boot_peers(setup)?;
        make_disks(setup)?;
        let listen = |name: &str| -> Result<UnixListener> {
            let path = setup.dir.join(name);
            drop(fs::remove_file(&path));
            let listener = UnixListener::bind(&path)?;
            listener.set_nonblocking(true)?;
            Ok(listener)
        };
        let (channel, qmp) = (listen("channel")?, listen("qmp")?);
        let log =
            File::options().create(true).append(true).open(setup.console.with_extension("qemu"))?;
        let mut command = Command::new(QEMU);
        command.args(arguments(setup, GuestPeer::Channel));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let mut qemu = Background::start(&mut command)?;
        let channel = accept(&channel, &mut qemu)?;
        let qmp = accept(&qmp, &mut qemu)?;
        let channel = BufReader::new(channel);
        let qmp = Qmp::greet(qmp)?;
        let mut guest = Guest {
            qemu,
            channel,
            qmp,
            part_of_line: Vec::new(),
            boot_time: Duration::ZERO,
            _peers: peers,
        };
        let ready = guest.line(Instant::now() + BOOT_LIMIT)?;
        match ready.as_deref() {
            Some(line) if line.starts_with("ready") => {
                guest.boot_time = start.elapsed();
                Ok(guest)
            }
            other => {
                Err(format!("the guest did not come up ({})", other.unwrap_or("no sign of life"))
                    .into())
            }
        }
    }

    /// The next line from the guest; `None` after a timeout.
    pub fn line(&mut self, deadline: Instant) -> Result<Option<String>> {
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            self.channel.get_ref().set_read_timeout(Some(left))?;
            match self.channel.read_until(b'\n', &mut self.part_of_line) {
                Ok(_) if self.part_of_line.ends_with(b"\n") => {
                    let line = String::from_utf8_lossy(&self.part_of_line).trim_end().to_string();
                    self.part_of_line.clear();
                    return Ok(Some(line));
                }
                Ok(_) => return Err("the guest ended".into()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// How QEMU ended, if the kernel crashed or QEMU was killed.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        // The channel closes shortly before the process ends.
        for _ in 0..50 {
            if let Ok(Some(status)) = self.qemu.try_wait() {
                return Some(status);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        None
    }

    pub fn say(&mut self, line: &str) -> Result<()> {
        Ok(self.channel.get_mut().write_all(format!("{line}\n").as_bytes())?)
    }

    /// Presses Alt, SysRq and a key.
    pub fn sysrq(&mut self, name: &str) -> Result<()> {
        let key = |name: &str| json!({ "type": "qcode", "data": name });
        let keys = json!({ "keys": [key("alt"), key("sysrq"), key(name)], "hold-time": 50 });
        self.qmp.execute("send-key", &keys).map(drop)
    }

    /// Stops the CPUs, once what they gave to the disks is done.
    pub fn pause(&mut self) -> Result<()> {
        self.qmp.execute("stop", &json!({})).map(drop)
    }

    /// Hot-unplugs a disk; the guest has some seconds to release it.
    pub fn remove_disk(&mut self, index: usize) -> Result<()> {
        self.qmp.execute("device_del", &json!({ "id": format!("nvme{index}") })).map(drop)
    }

    pub fn add_disk(&mut self, index: usize, machine: &Machine) -> Result<()> {
        let device = disk(index, machine);
        // QEMU releases a disk some time after the guest does, and accepts no other until then.
        let mut added = self.qmp.execute("device_add", &device);
        for _ in 0..50 {
            if added.is_ok() {
                break;
            }
            std::thread::sleep(Duration::from_millis(100));
            added = self.qmp.execute("device_add", &device);
        }
        added.map(drop)
    }
}

/// They wait for what the guest sends.
fn boot_peers(setup: &Setup) -> Result<Vec<Guest>> {
    let machine = Machine::parse("nvme=0")?;
    let boot = |(index, kernel): (usize, &Kernel)| {
        let dir = peer_dir(&setup.dir, index + 1);
        fs::create_dir_all(&dir)?;
        let console = setup.console.with_extension(format!("peer{}.console", index + 1));
        drop(fs::remove_file(&console));
        Guest::boot(&Setup {
            images: setup.images,
            kernel: *kernel,
            machine: &machine,
            cmdline: "",
            peers: &[],
            number: index + 1,
            logged: false,
            dir,
            console,
        })
    };
    setup.peers.iter().enumerate().map(boot).collect()
}

fn peer_dir(dir: &Path, number: usize) -> PathBuf {
    dir.join(format!("peer{number}"))
}

fn disk(index: usize, machine: &Machine) -> Value {
    if machine.is_zoned || machine.is_protected {
        // Without a drive, it has namespaces of its own.
        return json!({
            "driver": "nvme", "id": format!("nvme{index}"), "serial": format!("LAB{index}"),
            "bus": format!("port{index}"),
        });
    }
    let lba_bytes = machine.lba_bytes[index];
    let mut disk = json!({
        "driver": if machine.is_virtio { "virtio-blk-pci" } else { "nvme" },
        "id": format!("nvme{index}"), "serial": format!("LAB{index}"),
        "bus": format!("port{index}"), "drive": format!("disk{index}"),
        "logical_block_size": lba_bytes, "physical_block_size": lba_bytes,
    });
    if machine.is_virtio {
        // All of its interrupts go to one CPU.
        disk["num-queues"] = json!(1);
    }
    disk
}

/// A namespace whose blocks are protected, or with zones of which 3 of 4 MiB can be written, 4 may be open and 6 partly written.
fn namespace(index: usize, machine: &Machine) -> Value {
    let lba_bytes = machine.lba_bytes[index];
    if machine.is_protected {
        return json!({
            "driver": "nvme-ns", "drive": format!("disk{index}"), "bus": format!("nvme{index}"),
            "logical_block_size": lba_bytes, "physical_block_size": lba_bytes,
            "ms": 8, "mset": 0, "pi": 1,
        });
    }
    json!({
        "driver": "nvme-ns", "drive": format!("disk{index}"), "bus": format!("nvme{index}"),
        "logical_block_size": lba_bytes, "physical_block_size": lba_bytes,
        "zoned": true, "zoned.zone_size": 4 << 20, "zoned.zone_capacity": 3 << 20,
        "zoned.max_open": 4, "zoned.max_active": 6,
    })
}

pub fn disk_path(dir: &Path, index: usize) -> PathBuf {
    dir.join(format!("nvme{index}.raw"))
}

/// Creates sparse disks unless they exist from an earlier boot, and empty logs.
pub fn make_disks(setup: &Setup) -> Result<()> {
    for (index, mib) in setup.machine.disk_mib.iter().enumerate() {
        let path = disk_path(&setup.dir, index);
        if !path.exists() {
            File::create(path)?.set_len(mib << 20)?;
            File::create(cut::base_path(&setup.dir, index))?.set_len(mib << 20)?;
        }
        File::create(cut::log_path(&setup.dir, index))?;
    }
    Ok(())
}

/// Removes the disks; the next guest gets new ones.
pub fn remove_disks(dir: &Path, count: usize) -> Result<()> {
    for index in 0..count {
        for path in [disk_path(dir, index), cut::base_path(dir, index)] {
            if path.exists() {
                fs::remove_file(path)?;
            }
        }
    }
    Ok(())
}

fn accept(listener: &UnixListener, qemu: &mut Child) -> Result<UnixStream> {
    let deadline = Instant::now() + Duration::from_secs(30);
    while Instant::now() < deadline {
        match listener.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(false)?;
                return Ok(stream);
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error.into()),
        }
        if let Some(status) = qemu.try_wait()? {
            return Err(format!("QEMU did not start: {status}").into());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Err("QEMU did not connect within 30 s".into())
}

pub enum GuestPeer {
    Channel,
    Terminal,
}

pub fn arguments(setup: &Setup, talk: GuestPeer) -> Vec<String> {
    let machine = setup.machine;
    // Mitigations are pointless under emulation and would take seconds of each boot.
    let mut cmdline = format!(
        "console=ttyS0 quiet loglevel=4 panic=-1 mitigations=off audit=0 apparmor=0 random.trust_cpu=on \
         no_timer_check tsc=reliable sysrq_always_enabled {}",
        setup.cmdline
    );
    if has_network(setup) {
        cmdline.push_str(&format!(" lab.guest={}", setup.number));
    }
    let memory = format!("{}M", machine.memory_mib);
    let processors: &[&str] = if machine.counts_instructions {
        &["-accel", "tcg,thread=single", "-icount", "shift=0,sleep=off", "-smp", "1"]
    } else {
        &["-accel", "tcg,thread=multi", "-smp", "2"]
    };
    let mut args: Vec<String> = processors
        .iter()
        .chain(&["-machine", "q35", "-cpu", "max", "-display", "none"])
        .chain(&["-no-reboot", "-nodefaults", "-nic", "none"])
        .map(ToString::to_string)
        .collect();
    let mut add = |option: &str, value: String| args.extend([option.to_string(), value]);
    add("-m", memory);
    for part in ["kernel", "initrd"] {
        let file = setup.images.join(format!("{part}-{}", setup.kernel.name()));
        add(&format!("-{part}"), file.display().to_string());
    }
    add("-append", cmdline);
    match talk {
        GuestPeer::Terminal => add("-serial", "mon:stdio".into()),
        GuestPeer::Channel => {
            for name in ["channel", "qmp"] {
                add(
                    "-chardev",
                    format!("socket,id={name},path={}", setup.dir.join(name).display()),
                );
            }
            add("-mon", "chardev=qmp,mode=control".into());
            add("-device", "virtio-serial-pci".into());
            add("-device", "virtserialport,chardev=channel,name=lab".into());
            add("-chardev", format!("file,id=console,path={},append=on", setup.console.display()));
            add("-serial", "chardev:console".into());
        }
    }
    attach(setup, &mut add);
    if has_network(setup) {
        join(setup, &mut add);
    }
    args
}

fn has_network(setup: &Setup) -> bool {
    setup.number > 0 || !setup.peers.is_empty()
}

/// One network, whose hub is the guest that has peers.
fn join(setup: &Setup, add: &mut impl FnMut(&str, String)) {
    let wire = |id: &str, dir: &Path, is_server: &str| {
        let path = dir.join("wire");
        format!("stream,id={id},server={is_server},addr.type=unix,addr.path={}", path.display())
    };
    if setup.number > 0 {
        add("-netdev", wire("net", &setup.dir, "on"));
    } else {
        add("-netdev", "hubport,id=net,hubid=0".into());
    }
    for number in 1..=setup.peers.len() {
        let dir = peer_dir(&setup.dir, number);
        add("-netdev", wire(&format!("wire{number}"), &dir, "off"));
        add("-netdev", format!("hubport,id=hub{number},hubid=0,netdev=wire{number}"));
    }
    let mac = format!("52:54:00:00:00:{:02x}", setup.number);
    add("-device", format!("virtio-net-pci,netdev=net,bus=pcie.0,mac={mac}"));
}

/// The NUMA nodes, root complexes and ports, and the disks at these.
fn attach(setup: &Setup, add: &mut impl FnMut(&str, String)) {
    let machine = setup.machine;
    let is_numa = machine.nodes > 1;
    for node in (0..machine.nodes).filter(|_| is_numa) {
        let mib = machine.memory_mib / machine.nodes as u64;
        add("-object", format!("memory-backend-ram,id=memory{node},size={mib}M"));
        add("-numa", format!("node,nodeid={node},cpus={node},memdev=memory{node}"));
    }
    for root in 1..machine.roots {
        let node = is_numa.then(|| format!(",numa_node={}", root % machine.nodes));
        let node = node.unwrap_or_default();
        add("-device", format!("pxb-pcie,id=root{root},bus_nr={},bus=pcie.0{node}", 64 * root));
    }
    if let Some(rate) = machine.uplink_bytes_per_s {
        add("-object", format!("throttle-group,id=uplink,x-bps-total={rate}"));
        add("-device", "pcie-root-port,id=root-port,bus=pcie.0,chassis=100,slot=100".into());
        add("-device", "x3130-upstream,id=switch,bus=root-port".into());
    }
    for index in 0..machine.lba_bytes.len() {
        let bus = match index % machine.roots {
            _ if machine.uplink_bytes_per_s.is_some() => "switch".to_string(),
            0 => "pcie.0".to_string(),
            root => format!("root{root}"),
        };
        let port = if bus == "switch" { "xio3130-downstream" } else { "pcie-root-port" };
        add(
            "-device",
            format!("{port},id=port{index},bus={bus},chassis={},slot={index}", index + 1),
        );
        blockdevs(setup, index).into_iter().for_each(|blockdev| add("-blockdev", blockdev));
        add("-device", disk(index, machine).to_string());
        if machine.is_zoned || machine.is_protected {
            add("-device", namespace(index, machine).to_string());
        }
    }
}

/// The backing of a disk: its file and, if enabled, the log of writes.
fn blockdevs(setup: &Setup, index: usize) -> Vec<String> {
    let file = |name: &str, path: &Path| {
        format!("file,node-name={name}{index},filename={},discard=unmap", path.display())
    };
    let raw = |name: &str| {
        format!("raw,node-name={name}{index},file=file{index},discard=unmap,detect-zeroes=unmap")
    };
    let disk = file("file", &disk_path(&setup.dir, index));
    if setup.machine.uplink_bytes_per_s.is_some() {
        let throttled =
            format!("throttle,node-name=disk{index},throttle-group=uplink,file=raw{index}");
        return vec![disk, raw("raw"), throttled];
    }
    if !setup.logged {
        return vec![disk, raw("disk")];
    }
    let log = file("log", &cut::log_path(&setup.dir, index));
    let logged =
        format!("blklogwrites,node-name=disk{index},file=raw{index},log=log{index},discard=unmap");
    vec![disk, raw("raw"), log, logged]
}
