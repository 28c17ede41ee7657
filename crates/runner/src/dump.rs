//! Files with the contents of wrong blocks (`verify_dump`).

use fathom_engine::BlockDump;
use fathom_machine::guard::{LogVersion, is_own_log};
use fathom_model::record::JobRecord;
use fathom_store::HeldDir;
use std::io::{self, Write};
use std::path::Path;

/// Writes what a block of `record` was and should have been, and notes the files; or says why that failed. As fio names
/// them, after the target and the offset.
pub fn write(record: &mut JobRecord, dump: &BlockDump) -> Result<(), String> {
    let verify = record.verify.iter_mut();
    let Some(wrong) = verify.flat_map(|verify| verify.first.get_mut(dump.block)).next() else {
        return Ok(());
    };
    let target = Path::new(&wrong.file).file_name().unwrap_or_default().to_string_lossy();
    let directory = if dump.directory.is_empty() { "." } else { dump.directory.as_str() };
    for (kind, bytes) in [("received", Some(&dump.received)), ("expected", dump.expected.as_ref())]
    {
        let Some(bytes) = bytes else { continue };
        let name = format!("{target}.{}.{kind}", wrong.offset);
        let path = match dump.directory.as_str() {
            "" => name.clone(),
            directory => format!("{directory}/{name}"),
        };
        replace_own(directory, &name, bytes)
            .map_err(|error| format!("verify_dump: cannot write {path}: {error}"))?;
        wrong.dumped.push(path);
    }
    Ok(())
}

/// Writes a file, unless somebody else has written one of that name.
fn replace_own(directory: &str, name: &str, bytes: &[u8]) -> io::Result<()> {
    let (mut file, is_new) = HeldDir::open(Path::new(directory))?.create_or_append(name)?;
    if !is_new && !is_own_log(&file) {
        return Err(io::Error::other("it exists and fathom did not write it; move it"));
    }
    file.set_len(0)?;
    file.write_all(bytes)?;
    LogVersion::of(&file)?.mark(&file)
}
