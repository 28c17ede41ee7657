//! Simulated devices and machines, for tests.
//!
//! Throughput is the least of the bounds of a closed queueing system (Denning and Buzen, "The
//! Operational Analysis of Queueing Network Models", 1978): N/L for the I/Os in flight, the
//! device's, the shared link's, the workers' CPUs', the machine's.

use crate::experiment::Design;
use crate::limit::Search;
use fathom_model::Histogram;
use fathom_model::experiment::WindowResult;
use fathom_model::limit::{BlockSpec, Config, LimitReport, QueueFacts};
use fathom_model::record::DiskRecord;
use fathom_model::window::{CpuTime, Load, Measurement, Probe, Window, WorkerCpu};

#[derive(Debug, Clone)]
pub(super) struct Sim {
    pub cores: u32,
    /// Latency without queueing.
    pub latency_ns: f64,
    /// I/Os per second of each target at 4 KiB, however many are in flight.
    pub device_iops: f64,
    /// I/Os per second of all targets combined at 4 KiB.
    pub link_iops: f64,
    /// Bytes per second of each target.
    pub device_bandwidth: f64,
    /// CPU time of an I/O.
    pub cpu_ns: f64,
    /// With more I/Os in flight than this the device gets slower.
    pub overdriven_at: Option<f64>,
    /// With in flight from the first to the second number, the device does half.
    pub disliked: Option<(u64, u64)>,
    /// Every window is off by at most this share, uniformly.
    pub noise: f64,
    /// CPU usage of other programs, as a share of all CPUs.
    pub background: f64,
    /// With at least this many I/Os in flight, one I/O in a thousand fails.
    pub errors_at: Option<u64>,
    /// Windows with at least this many I/Os in flight are rejected.
    pub refuses_at: Option<u64>,
    /// Time that each window takes beyond what is requested.
    pub overhead_ns: u64,
    pub seed: u64,
    /// The queue statistics that the search receives.
    pub queue: QueueFacts,
    /// So many I/Os are in flight at the device at most.
    pub requests: Option<u32>,
    /// The I/O scheduler issues so many of the I/Os in flight at most.
    pub issued: Option<u32>,
    /// Share of the time for which a quota refuses CPU time.
    pub throttled: f64,
}

impl Default for Sim {
    /// A device with 100k I/Os per second at 100 µs, and plenty of CPUs.
    fn default() -> Self {
        Self {
            cores: 8,
            latency_ns: 100_000.0,
            device_iops: 100_000.0,
            link_iops: f64::INFINITY,
            device_bandwidth: 2e9,
            cpu_ns: 2_000.0,
            overdriven_at: None,
            disliked: None,
            noise: 0.01,
            background: 0.01,
            errors_at: None,
            refuses_at: None,
            overhead_ns: 5_000_000,
            seed: 1,
            queue: QueueFacts::default(),
            requests: None,
            issued: None,
            throttled: 0.0,
        }
    }
}

impl Sim {
    /// Runs a search to its end; returns the report and the windows.
    pub fn run(&mut self, targets: usize, seconds: f64) -> (LimitReport, Vec<Window>) {
        self.search(self.config(targets, seconds))
    }

    /// The same for any configuration.
    pub fn search(&mut self, config: Config) -> (LimitReport, Vec<Window>) {
        let mut search = Search::new(config);
        let mut windows = Vec::new();
        while let Some(probe) = search.next() {
            let window = Window { outcome: self.window(&probe), probe };
            search.take(&window);
            windows.push(window);
        }
        (search.finish(), windows)
    }

    pub fn config(&self, targets: usize, seconds: f64) -> Config {
        Config {
            targets: (0..targets).map(|n| format!("disk{n}")).collect(),
            seconds,
            cores: self.cores,
            buffers_bytes_max: 1 << 30,
            blocks: BlockSpec::defaults(),
            target: None,
            suite: Vec::new(),
            queues: vec![self.queue.clone(); targets],
            cpu_limit: None,
            spec: None,
        }
    }

    pub fn window(&mut self, probe: &Probe) -> Result<Measurement, String> {
        let in_flight: u64 = probe.loads.iter().map(|l| l.setting.in_flight()).sum();
        if self.refuses_at.is_some_and(|n| in_flight >= n) {
            return Err("cannot allocate memory".to_string());
        }
        let noise = 1.0 + self.noise * (2.0 * self.uniform() - 1.0);
        let cores = f64::from(probe.cores.unwrap_or(self.cores));
        let rates = self.rates(probe, cores);
        let used: f64 = rates.iter().map(|r| r * self.cpu_of(probe)).sum::<f64>() / 1e9;
        let busy = (used / f64::from(self.cores) + self.background).min(1.0);
        let all_ns = probe.window_ns as f64 * f64::from(self.cores);
        let loads = probe.loads.iter().zip(&rates);
        Ok(Measurement {
            elapsed_ns: probe.window_ns,
            took_ns: probe.ramp_ns + probe.window_ns + self.overhead_ns,
            loads: loads.map(|(load, rate)| self.load(probe, load, rate * noise)).collect(),
            cpu: Some(CpuTime {
                busy_ns: (busy * all_ns) as u64,
                steal_ns: 0,
                idle_ns: ((1.0 - busy) * all_ns) as u64,
                throttled_ns: (self.throttled * all_ns) as u64,
            }),
        })
    }

    fn rates(&self, probe: &Probe, cores: f64) -> Vec<f64> {
        let alone: Vec<f64> = probe.loads.iter().map(|l| self.rate(probe, l)).collect();
        let sum: f64 = alone.iter().sum();
        let machine = cores * (1.0 - self.background) * 1e9 / self.cpu_of(probe);
        let nop = probe.loads.iter().any(|l| l.target.is_none());
        let link = if nop { f64::INFINITY } else { self.link_iops };
        let share = (machine.min(link) / sum).min(1.0);
        alone.iter().map(|rate| rate * share).collect()
    }

    fn rate(&self, probe: &Probe, load: &Load) -> f64 {
        let in_flight = load.setting.in_flight() as f64;
        let workers = f64::from(load.setting.workers) * 1e9 / self.cpu_of(probe);
        if load.target.is_none() {
            return workers;
        }
        let transfer = self.device_bandwidth / probe.block_bytes as f64;
        let mut device = self.device_iops.min(transfer);
        if let Some(limit) = self.overdriven_at.filter(|l| in_flight > *l) {
            device *= (limit / in_flight).powf(0.3);
        }
        if self.disliked.is_some_and(|(from, to)| (from..=to).contains(&load.setting.in_flight())) {
            device *= 0.5;
        }
        let at_device = self.requests.map_or(in_flight, |requests| in_flight.min(requests.into()));
        let at_device = self.issued.map_or(at_device, |issued| at_device.min(issued.into()));
        workers.min(device).min(at_device * 1e9 / (self.latency_ns + 1e9 / transfer))
    }

    fn cpu_of(&self, probe: &Probe) -> f64 {
        if probe.loads.iter().any(|l| l.target.is_none()) { 100.0 } else { self.cpu_ns }
    }

    fn load(&self, probe: &Probe, load: &Load, rate: f64) -> WindowResult {
        let count = |rate: f64| (rate * probe.window_ns as f64 / 1e9) as u64;
        let mut clat = Histogram::default();
        // Arrivals wait as in M/M/1, whose response time is the service time over the idle share.
        let arrivals = load.iops.map_or(rate, |iops| iops as f64);
        let ios = count(rate.min(arrivals));
        if load.iops.is_some() {
            let idle = (1.0 - arrivals / rate).max(1e-3);
            clat.record_n((self.latency_ns / idle) as u64, ios);
        } else if rate > 0.0 {
            clat.record_n((load.setting.in_flight() as f64 * 1e9 / rate) as u64, ios);
        }
        let bad = self.errors_at.is_some_and(|n| load.setting.in_flight() >= n);
        let cpu_ns = ios as f64 * self.cpu_of(probe) / f64::from(load.setting.workers);
        let worker = WorkerCpu { user_ns: (cpu_ns * 0.2) as u64, system_ns: (cpu_ns * 0.8) as u64 };
        WindowResult {
            ios,
            bytes: ios * probe.block_bytes,
            errors: if bad && load.target.is_some() { 1 + ios / 1000 } else { 0 },
            first_error: (bad && load.target.is_some()).then(|| "read: EIO".to_string()),
            clat,
            unstarted: count(arrivals).saturating_sub(ios),
            workers: vec![worker; load.setting.workers as usize],
            driver_queue: self
                .issued
                .map(|issued| load.setting.in_flight().min(issued.into()) as f64),
            disk: self.requests.or(self.issued.map(|_| u32::MAX)).map(|requests| {
                let queue = load.setting.in_flight().min(requests.into());
                let (elapsed_ms, weighted_ms) = (1_000, 1_000 * queue);
                DiskRecord { elapsed_ms, weighted_ms, ..DiskRecord::default() }
            }),
            ..WindowResult::default()
        }
    }

    fn uniform(&mut self) -> f64 {
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.seed >> 11) as f64 / (1_u64 << 53) as f64
    }
}
