//! How I/O reaches the kernel.

use super::{Key, accept_flag};
use crate::job::{EngineName, JobSpec};
use crate::suggest;
use crate::value::Value;
use fathom_model::plan::Memory;

const ENGINES: &[(&str, EngineName)] = &[
    ("io_uring", EngineName::IoUring),
    ("io_uring_cmd", EngineName::IoUringCmd),
    ("libaio", EngineName::Libaio),
    ("linuxaio", EngineName::Libaio),
    ("psync", EngineName::Psync),
    ("sync", EngineName::Sync),
    ("pvsync", EngineName::Pvsync),
    ("pvsync2", EngineName::Pvsync2),
    ("nop", EngineName::Nop),
    ("null", EngineName::Null),
    ("cpp_null", EngineName::Null),
];

/// The greatest queue depth, which is that of io_uring (IORING_MAX_ENTRIES in io_uring/io_uring.h).
pub(crate) const DEPTH_MAX: u32 = 32_768;

pub(super) const KEYS: &[Key] = &[
    Key::value(
        "ioengine",
        "NAME",
        "io_uring, io_uring_cmd, libaio, psync, sync, pvsync, pvsync2, null or nop",
        engine,
    )
    .differs("The default is io_uring, not psync. `nop` (a ring of no-ops) is fathom's own."),
    Key::value("iodepth", "COUNT", "I/Os in flight at most", |job, v| {
        job.engine.depth = v.count32(1, DEPTH_MAX)?;
        Ok(())
    })
    .differs("At most 32768, the limit of io_uring."),
    Key::value("iodepth_batch", "COUNT", "I/Os submitted at once at most", |job, v| {
        job.engine.batch.submit_max = batch(v)?;
        Ok(())
    })
    .aliases(&["iodepth_batch_submit"])
    .differs(
        "Default: adapts to the device, from a quarter of iodepth (at most 4) up to all of it.",
    ),
    Key::value("iodepth_batch_complete_min", "COUNT", "Completions to wait for", |job, v| {
        job.engine.batch.complete_min = v.count32(0, DEPTH_MAX)?;
        Ok(())
    })
    .aliases(&["iodepth_batch_complete"]),
    Key::value(
        "iodepth_batch_complete_max",
        "COUNT",
        "Completions taken at once at most",
        |job, v| {
            job.engine.batch.complete_max = batch(v)?;
            Ok(())
        },
    )
    .differs("Default: all that is there."),
    Key::value("iodepth_low", "COUNT", "Let the depth fall to this before refilling", |job, v| {
        job.engine.batch.low = batch(v)?;
        Ok(())
    })
    .differs("Default: refill at once."),
    Key::flag("direct", "O_DIRECT: around the page cache", |job, v| {
        job.engine.direct = v.flag()?;
        Ok(())
    }),
    Key::flag("buffered", "The contrary of direct", |job, v| {
        job.engine.direct = !v.flag()?;
        Ok(())
    }),
    Key::flag("hipri", "Poll for completions (io_uring, io_uring_cmd, pvsync2)", |job, v| {
        job.engine.uring.iopoll = v.flag()?;
        Ok(())
    }),
    Key::flag("fixedbufs", "Register the buffers with the ring", |job, v| {
        job.engine.uring.fixed_buffers = v.flag()?;
        Ok(())
    })
    .differs("On by default: it changes only the cost."),
    Key::flag("registerfiles", "Register the files with the ring", |job, v| {
        job.engine.uring.registered_files = v.flag()?;
        Ok(())
    })
    .differs("On by default: it changes only the cost."),
    Key::flag("sqthread_poll", "A kernel thread submits", |job, v| {
        job.engine.sqpoll = v.flag()?;
        Ok(())
    }),
    Key::value("sqthread_poll_cpu", "CPU", "Processor of that kernel thread", |job, v| {
        job.engine.sqpoll_cpu = Some(v.count32(0, 8191)?);
        Ok(())
    }),
    Key::value(
        "sqthread_poll_idle",
        "TIME",
        "Time without work after which it sleeps; bare: ms",
        |job, v| {
            let ms = v.time_ns(1_000_000)? / 1_000_000;
            let idle = u32::try_from(ms).ok().filter(|ms| *ms > 0);
            job.engine.sqpoll_idle_ms = Some(idle.ok_or("1 ms to 49 days are taken")?);
            Ok(())
        },
    )
    .differs("fathom's own key."),
    Key::flag("nonvectored", "READ and WRITE instead of READV and WRITEV", |job, v| {
        job.engine.uring.vectored = match v.text {
            // fio's spelling of "as the kernel likes".
            "-1" => false,
            _ => !v.flag()?,
        };
        Ok(())
    }),
    Key::value("force_async", "N", "Every n-th I/O goes to a kernel worker thread", |job, v| {
        job.engine.uring.force_async = v.count32(0, u32::MAX)?;
        Ok(())
    }),
    Key::flag("nowait", "RWF_NOWAIT (pvsync2)", |job, v| {
        job.engine.nowait = v.flag()?;
        Ok(())
    }),
    Key::value("cmd_type", "nvme", "Kind of passthrough commands", |_, v| match v.text {
        "nvme" => Ok(()),
        other => Err(format!("'{other}' is not there; only nvme is")),
    })
    .differs("Only nvme."),
    Key::flag("userspace_reap", "Reap libaio's completions without a system call", |_, v| match v
        .flag()?
    {
        false => Ok(()),
        true => Err("not there; ioengine=io_uring reaps without a system call".into()),
    })
    .differs("Only 0; io_uring does this anyhow."),
    Key::value("mem", "KIND", "malloc, shm, shmhuge, mmap or mmaphuge", |job, v| {
        job.buffers.memory = v.choice(&[
            ("malloc", Memory::Normal),
            ("shm", Memory::Normal),
            ("mmap", Memory::Normal),
            ("shmhuge", Memory::Huge),
            ("mmaphuge", Memory::Huge),
        ])?;
        Ok(())
    })
    .aliases(&["iomem"])
    .differs("Buffers are always anonymous pages, huge or not; a file behind mmap is refused."),
    Key::value("io_submit_mode", "inline|offload", "Who submits", |_, v| {
        v.choice(&[("inline", ()), ("offload", ())])
    })
    .differs(
        "Changes nothing: what `offload` is for, rates that a stall does not delay, always holds.",
    ),
    Key::flag("thread", "Jobs are threads, not processes", accept_flag)
        .differs(
            "Changes nothing: jobs are always threads. `threads` is taken as well, as fio does.",
        )
        .aliases(&["threads"]),
];

fn engine(job: &mut JobSpec, v: Value<'_>) -> Result<(), String> {
    if let Some((_, name)) = ENGINES.iter().find(|(word, _)| *word == v.text) {
        job.engine.name = *name;
        return Ok(());
    }
    let instead = match v.text {
        "posixaio" | "solarisaio" | "windowsaio" => "use io_uring or libaio",
        "vsync" | "splice" | "mmap" | "pmem" | "libpmem" | "dev-dax" => "use psync",
        "sg" | "nvme" | "xnvme" | "libblkio" | "spdk" => {
            "use io_uring, or io_uring_cmd on /dev/ngXnY"
        }
        "cpuio" | "net" | "netsplice" | "rdma" | "exec" => "fathom drives storage only",
        _ => {
            let near = suggest::nearest(v.text, ENGINES.iter().map(|(word, _)| *word));
            let near =
                near.unwrap_or("io_uring, libaio, psync, sync, pvsync, pvsync2, null or nop");
            return Err(format!("no engine '{}'; use {near}", v.text));
        }
    };
    Err(format!("engine '{}' is not there: {instead}", v.text))
}

/// As in fio, 0 is as if nothing were given.
fn batch(v: Value<'_>) -> Result<Option<u32>, String> {
    Ok(Some(v.count32(0, DEPTH_MAX)?).filter(|n| *n > 0))
}
