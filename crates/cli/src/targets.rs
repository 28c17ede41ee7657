//! The block devices that users mean by a name, a path or a file.

use fathom_machine::{Lookup, Roots};
use fathom_model::escape;
use fathom_model::facts::TargetKind;

/// The same names, but for files and directories those of the devices that hold them.
pub fn with_devices_of_files(roots: &Roots, names: &[String]) -> Result<Vec<String>, String> {
    let each = |name: &String| match std::fs::metadata(name) {
        Ok(meta) if meta.is_file() || meta.is_dir() => devices(roots, std::slice::from_ref(name)),
        _ => Ok(vec![name.clone()]),
    };
    Ok(names.iter().map(each).collect::<Result<Vec<_>, _>>()?.concat())
}

/// Kernel names of the devices that are, or hold, `targets`; kernel names are accepted wherever no file has that name.
pub fn devices(roots: &Roots, targets: &[String]) -> Result<Vec<String>, String> {
    let lookup = Lookup::new(roots);
    let names = |target: &String| -> Result<Vec<String>, String> {
        let is_name = !target.contains('/') && !std::path::Path::new(target).exists();
        let path = if is_name { format!("/dev/{target}") } else { target.clone() };
        let shown = escape::text(target);
        let facts = lookup.target(&path).map_err(|e| format!("cannot read {shown}: {e}"))?;
        let names: Vec<String> = facts.device_names().map(ToString::to_string).collect();
        match facts.hidden_disk() {
            _ if facts.kind == TargetKind::Missing => {
                Err(format!("{shown} does not exist; name a disk, or a file on one"))
            }
            Some(hidden) => {
                Err(format!("{}: {}; name a disk instead", hidden.source, hidden.reason))
            }
            None if names.is_empty() => {
                Err(format!("{shown} is not on a block device; name a disk or a file on one"))
            }
            None => Ok(names),
        }
    };
    Ok(targets.iter().map(names).collect::<Result<Vec<_>, _>>()?.concat())
}
