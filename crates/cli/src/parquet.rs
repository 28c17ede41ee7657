//! `fathom runs export --parquet`: the machine's figures over time as a table.

use fathom_analysis::machine::rates;
use fathom_analysis::metrics::{DISK, Interval, METRICS};
use fathom_model::watch::MachineSample;
use fathom_store::{Reader, StoredSample};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::Result;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// Rows that are held in memory.
const ROWS: usize = 10_000;

/// Columns of a part of one run.
#[derive(Default)]
struct Rows {
    times: Vec<i64>,
    figures: Vec<Vec<Option<f64>>>,
}

/// Writes a row for each sample of the runs in `dirs` that has one before it, with the figures that CSV has, and returns their
/// number.
pub fn write(dirs: &[PathBuf], file: &mut File) -> io::Result<u64> {
    let ids = METRICS.iter().map(|of| of.id).chain(DISK.iter().map(|of| of.id));
    let figures: String = ids.map(|id| format!("OPTIONAL DOUBLE {id};\n")).collect();
    let schema = format!(
        "message fathom {{\nREQUIRED BYTE_ARRAY run_name (STRING);\nREQUIRED INT64 time (TIMESTAMP(NANOS,true));\n{figures}}}"
    );
    let schema = Arc::new(parse_message_type(&schema)?);
    let how = Arc::new(WriterProperties::default());
    let mut writer = SerializedFileWriter::new(file, schema, how)?;
    let mut count = 0;
    for dir in dirs {
        let name = dir.canonicalize()?;
        let name = name.file_name().unwrap_or_default().to_string_lossy();
        let mut reader = Reader::open(dir).map_err(io::Error::other)?;
        let (mut rows, mut before) = (Rows::default(), None::<StoredSample>);
        while let Some(now) = reader.forward().map_err(io::Error::other)? {
            // Before its samplers are open, a run records its jobs alone.
            if now.sample.machine == MachineSample::default() {
                continue;
            }
            if let Some(before) = before.filter(|_| !now.begins) {
                rows.add(&before, &now);
                count += 1;
            }
            if rows.times.len() == ROWS {
                std::mem::take(&mut rows).write(&name, writer.next_row_group()?)?;
            }
            before = Some(now);
        }
        if !rows.times.is_empty() {
            rows.write(&name, writer.next_row_group()?)?;
        }
    }
    writer.close()?;
    Ok(count)
}

impl Rows {
    fn add(&mut self, before: &StoredSample, now: &StoredSample) {
        let (before, now, unix_ns) = (&before.sample, &now.sample, now.unix_ns);
        let elapsed_ns = now.elapsed_ns.saturating_sub(before.elapsed_ns);
        let (before, now) = (&before.machine, &now.machine);
        let rates = rates(before, now, elapsed_ns);
        let interval = Interval { before, now, rates: &rates };
        self.times.push(unix_ns as i64);
        self.figures.push(interval.figures().map(|(_, _, value)| value).collect());
    }

    fn write(self, name: &str, mut group: SerializedRowGroupWriter<'_, &mut File>) -> Result<()> {
        let names = vec![ByteArray::from(name); self.times.len()];
        if let Some(mut column) = group.next_column()? {
            column.typed::<ByteArrayType>().write_batch(&names, None, None)?;
            column.close()?;
        }
        if let Some(mut column) = group.next_column()? {
            column.typed::<Int64Type>().write_batch(&self.times, None, None)?;
            column.close()?;
        }
        let mut at = 0;
        while let Some(mut column) = group.next_column()? {
            let cells = || self.figures.iter().map(|row| row.get(at).copied().flatten());
            let values: Vec<f64> = cells().flatten().collect();
            let are_there: Vec<i16> = cells().map(|cell| cell.is_some().into()).collect();
            column.typed::<DoubleType>().write_batch(&values, Some(&are_there), None)?;
            column.close()?;
            at += 1;
        }
        group.close().map(drop)
    }
}
