//! Puts TLS secrets into a capture that is complete: programs write them while they run, and readers want them before the
//! packets that need them.
//!
//! The blocks themselves are `writer`'s.

use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::PcapngWriter;
use super::writer::{INTERFACE_DESCRIPTION, SECTION_HEADER};
use crate::RecordError;

/// Puts the lines of an NSS key log (draft-ietf-tls-keylogfile) before the first packet of a capture of ours, in a block
/// that Wireshark and tshark use by themselves. The file is written again, beside itself, and then takes its place.
pub fn add_secrets(path: &Path, key_log: &str) -> Result<(), RecordError> {
    let failed = |source| RecordError::Write {
        path: path.to_path_buf(),
        source,
    };
    let mut beside = path.as_os_str().to_owned();
    beside.push(".partial");
    let beside = PathBuf::from(beside);
    let written = write_with(path, &beside, key_log).and_then(|()| fs::rename(&beside, path));
    if written.is_err() {
        // It may not be there.
        let _ = fs::remove_file(&beside);
    }
    written.map_err(failed)
}

fn write_with(from: &Path, to: &Path, key_log: &str) -> io::Result<()> {
    let mut input = BufReader::new(File::open(from)?);
    let head_bytes = head_bytes(&mut input)?;
    input.seek(SeekFrom::Start(0))?;
    let mut output = BufWriter::new(File::create(to)?);
    io::copy(&mut input.by_ref().take(head_bytes), &mut output)?;
    output.write_all(&PcapngWriter::secrets_block(key_log)?)?;
    io::copy(&mut input, &mut output)?;
    output.into_inner().map_err(io::Error::from)?.sync_all()
}

/// How long the blocks before the first packet are: the section's and the interfaces'.
fn head_bytes(input: &mut (impl Read + Seek)) -> io::Result<u64> {
    let mut at = 0;
    loop {
        input.seek(SeekFrom::Start(at))?;
        let mut start = [0; 8];
        match input.read_exact(&mut start) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(at),
            read => read?,
        }
        let [kind, length] = [&start[..4], &start[4..]].map(|word| {
            word.iter()
                .rev()
                .fold(0_u32, |number, byte| number << 8 | u32::from(*byte))
        });
        // A block is at least its kind and its length, twice; without this a broken file would be read for ever.
        if ![SECTION_HEADER, INTERFACE_DESCRIPTION].contains(&kind) || length < 12 {
            return Ok(at);
        }
        at += u64::from(length);
    }
}
