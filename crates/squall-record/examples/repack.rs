//! Reads tables written by squall, writes them anew to another folder, and prints what a row of each costs in disk space
//! and time, and how long compressing a page of a column takes.
//!
//! `bytes_per_row` uses synthetic rows; the rows here are those of a real load, whose times and lengths repeat as only
//! real ones do. Usage: `repack FOLDER requests.parquet exchanges.parquet frames.parquet packets.parquet`. Each table
//! is recognized by its file name, and the new ones are written to FOLDER. To count the instructions for a table,
//! independently of other activity on the machine: `valgrind --tool=callgrind --toggle-collect='*write_rows*'
//! target/release/examples/repack FOLDER requests.parquet`.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use squall_base::record::{ExchangeRecord, FrameRecord, PacketRecord, RequestRecord};
use squall_record::{Rows, TableRow, TableWriter};

/// Rows passed to the writer at a time.
const CHUNK_ROWS: usize = 1024;

/// A separate function, so that callgrind can count it. Appends the duration of each compressing step to `steps`.
#[inline(never)]
fn write_rows<R: TableRow>(
    mut writer: TableWriter<R>,
    rows: &[R],
    steps: &mut Vec<Duration>,
) -> Result<(), Box<dyn Error>> {
    for chunk in rows.chunks(CHUNK_ROWS) {
        while writer.room() < chunk.len() {
            let start = Instant::now();
            if !writer.compress_some()? {
                break;
            }
            steps.push(start.elapsed());
        }
        writer.append(chunk)?;
    }
    writer.finish()?;
    Ok(())
}

fn repack<R: TableRow>(path: &Path, again: &Path) -> Result<(), Box<dyn Error>> {
    let rows: Vec<R> = Rows::open(path)?.collect::<Result<_, _>>()?;
    let writer = TableWriter::<R>::create(again)?;
    let mut steps = Vec::new();
    let start = Instant::now();
    write_rows(writer, &rows, &mut steps)?;
    let spent = start.elapsed();
    steps.sort();
    let step = |share: f64| {
        let step = steps.get((steps.len().saturating_sub(1) as f64 * share) as usize);
        step.copied().unwrap_or_default()
    };
    let bytes = |path: &Path| -> Result<f64, std::io::Error> {
        Ok(std::fs::metadata(path)?.len() as f64 / rows.len() as f64)
    };
    println!(
        "{}: {} rows, {:.3} bytes a row, now {:.3}, {:.0} ns a row to write; {} pages of a column, each pressed in {:?} \
         (p50), {:?} (p99), {:?} (max)",
        path.display(),
        rows.len(),
        bytes(path)?,
        bytes(again)?,
        spent.as_secs_f64() * 1e9 / rows.len() as f64,
        steps.len(),
        step(0.5),
        step(0.99),
        step(1.0)
    );
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut paths = std::env::args_os().skip(1).map(PathBuf::from);
    let folder = paths.next().ok_or("say where the new tables shall go")?;
    for path in paths {
        let again = folder.join(path.file_name().unwrap_or_default());
        if again
            .canonicalize()
            .is_ok_and(|again| path.canonicalize().is_ok_and(|path| path == again))
        {
            return Err(format!("{} would be written over", path.display()).into());
        }
        match path.file_stem().and_then(|name| name.to_str()) {
            Some("requests") => repack::<RequestRecord>(&path, &again)?,
            Some("exchanges") => repack::<ExchangeRecord>(&path, &again)?,
            Some("frames") => repack::<FrameRecord>(&path, &again)?,
            Some("packets") => repack::<PacketRecord>(&path, &again)?,
            _ => return Err(format!("{} is named as no table is", path.display()).into()),
        }
    }
    Ok(())
}
