//! Reads tables that squall has written, writes them again and prints what a row of each costs on disk and in time, and how
//! long it takes to press a page of a column.
//!
//! `bytes_per_row` makes its rows up; here they are those of a real load, whose times and lengths repeat as only real
//! ones do: `repack FOLDER requests.parquet exchanges.parquet frames.parquet packets.parquet`, each known by its name;
//! the new ones are in FOLDER. The instructions that a table takes, undisturbed by what else the machine does:
//! `valgrind --tool=callgrind --toggle-collect='*write_rows*' target/release/examples/repack FOLDER requests.parquet`.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use squall_base::record::{ExchangeRecord, FrameRecord, PacketRecord, RequestRecord};
use squall_record::{Rows, TableRow, TableWriter};

/// Rows that the writer gets at once.
const CHUNK_ROWS: usize = 1024;

/// A function of its own, so that callgrind can count it. Adds how long each step took that pressed something.
#[inline(never)]
fn write_rows<R: TableRow>(
    mut writer: TableWriter<R>,
    rows: &[R],
    steps: &mut Vec<Duration>,
) -> Result<(), Box<dyn Error>> {
    for chunk in rows.chunks(CHUNK_ROWS) {
        while writer.room() < chunk.len() {
            let start = Instant::now();
            if !writer.press_some()? {
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
