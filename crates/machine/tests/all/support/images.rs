//! Image files of erofs, which are mounted without a loop device.

use super::Cover;
use rustix::mount::MountFlags;
use std::path::Path;
use std::sync::OnceLock;

/// Whether this kernel mounts image files without a loop device, as erofs does since Linux 6.12.
pub fn mounts_images() -> bool {
    static KNOWN: OnceLock<bool> = OnceLock::new();
    *KNOWN.get_or_init(|| {
        let dir = crate::support::dir();
        let image = dir.path().join("image");
        make_image(&image, dir.path()) && mount_image(&image, dir.path()).is_some()
    })
}

/// Makes an erofs; false without a program for it.
pub fn make_image(image: &Path, dir: &Path) -> bool {
    let content = dir.join("content");
    std::fs::create_dir(&content).expect("directory");
    std::fs::write(content.join("file"), vec![5; 1 << 20]).expect("file");
    let made = std::process::Command::new("mkfs.erofs").arg(image).arg(content).output();
    made.is_ok_and(|made| made.status.success())
}

pub fn mount_image(image: &Path, dir: &Path) -> Option<Cover> {
    let at = dir.join("mounted");
    std::fs::create_dir(&at).expect("directory");
    rustix::mount::mount(image, &at, "erofs", MountFlags::RDONLY, None).ok()?;
    Some(Cover(at))
}
