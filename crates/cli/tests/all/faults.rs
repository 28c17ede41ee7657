//! Failing devices: what fathom reports, and what still counts.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::common::{Loop, MIB, Place, Zram, as_root, says};
use std::fs::OpenOptions;

/// A loop device whose second half gives EIO: its file was cut in two. Reads only.
fn half_broken(place: &Place) -> Loop {
    place.data("image", 4 * MIB);
    let device = Loop::on(&place.path("image"));
    let image = OpenOptions::new().write(true).open(place.path("image")).unwrap();
    image.set_len(2 * MIB as u64).unwrap();
    device
}

#[test]
fn errors_of_a_device_end_a_job_or_are_counted_apart() {
    let Some(_alone) = as_root("errors_of_a_device_end_a_job_or_are_counted_apart") else { return };
    let place = Place::new();
    let device = half_broken(&place);
    let read = ["--rw=randread", "--bs=4k", "--direct=1", "--iodepth=8", "--output-format=json"];
    for engine in ["io_uring", "libaio", "psync"] {
        let ioengine = format!("--ioengine={engine}");
        let ask = |more: &[&str]| place.run(&[&read[..], &[&ioengine, &device.0], more].concat());

        let ended = ask(&[]);
        assert!(ended.code != Some(0), "{engine}");
        assert_eq!(ended.json()["jobs"][0]["error"], 5, "{engine}");
        assert!(
            ended.stderr.contains("read of 4096 bytes at offset"),
            "{engine}: {}",
            ended.stderr
        );

        let went_on = ask(&["--continue_on_error=io"]);
        // As in fio: all of them are counted, and the exit status is that of success.
        let job = &went_on.done().json()["jobs"][0];
        assert_eq!(job["read"]["total_ios"], 1024, "{engine}");
        assert_eq!(job["read"]["io_bytes"], 2 * MIB as u64, "{engine}: only what succeeded");
        assert_eq!(
            (&job["error"], &job["total_err"], &job["first_error"]),
            (&5.into(), &512.into(), &5.into())
        );

        let ignored = ask(&["--continue_on_error=io", "--ignore_error=EIO"]).done();
        assert_eq!(ignored.json()["jobs"][0]["read"]["total_ios"], 1024, "{engine}");
    }
    let text = ["--rw=randread", "--bs=4k", "--direct=1", "--continue_on_error=all", &device.0];
    let page = place.run(&text).done();
    says(&page.stdout, &["512 I/Os of job randread failed (50%); continued as requested"]);
    assert!(!page.stdout.contains("ERROR") && !page.stderr.contains("failed"), "{}", page.stderr);
}

#[test]
fn a_device_without_nowait_is_trimmed_by_kernel_threads() {
    let Some(_alone) = as_root("a_device_without_nowait_is_trimmed_by_kernel_threads") else {
        return;
    };
    let Ok(zram) = Zram::new("64M").map_err(|error| println!("skipped: {error}")) else { return };
    let (place, device) = (Place::new(), zram.device());
    let erase = format!("--erase={device}");
    for (rw, more) in
        [("randtrim", "--iodepth=8"), ("randtrimwrite", "--iodepth=1"), ("trim", "--nonvectored=0")]
    {
        let rw = format!("--rw={rw}");
        let args = [&rw, more, "--bs=64k", "--size=8m", "--output-format=json", &erase, &device];
        let json = place.run(&args).done().json();
        assert_eq!(json["jobs"][0]["trim"]["total_ios"], 128, "{rw}");
        let how = json["fathom"]["jobs"][0]["granted"]["fallbacks"].to_string();
        says(&how, &["does not support nowait", "io-wq", &device]);
    }
}

#[test]
fn a_device_is_trimmed_through_the_ring_and_by_ioctl() {
    let Some(_alone) = as_root("a_device_is_trimmed_through_the_ring_and_by_ioctl") else { return };
    for engine in ["io_uring", "psync"] {
        let place = Place::new();
        place.data("image", 4 * MIB);
        let device = Loop::on(&place.path("image"));
        let (ioengine, erase) =
            (format!("--ioengine={engine}"), format!("--erase={}@{}", device.0, 4 * MIB));
        let args = ["--rw=trim", "--bs=64k", "--size=1m", &ioengine, &erase, &device.0];
        place.run(&args).done();
        let image = std::fs::read(place.path("image")).unwrap();
        assert!(image[..MIB].iter().all(|byte| *byte == 0), "{engine}");
        assert!(
            image[MIB..].chunks(4096).all(|block| block.iter().any(|byte| *byte != 0)),
            "{engine}"
        );
    }
}
