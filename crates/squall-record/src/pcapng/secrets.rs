//! Adds TLS secrets to a finished capture: programs log them while they run, but readers need them before the packets.
//!
//! `writer` writes the block.

use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::PcapngWriter;
use super::writer::{INTERFACE_DESCRIPTION, SECTION_HEADER};
use crate::RecordError;
use crate::private::create_private;

/// Inserts the lines of an NSS key log (draft-ietf-tls-keylogfile) before the first packet of a capture written by
/// squall, in a block that Wireshark and tshark use automatically. The new file is written under a temporary name and
/// then replaces the old one. Only its owner may read it (mode 0600).
pub fn add_secrets(path: &Path, key_log: &str) -> Result<(), RecordError> {
    let mut temporary_path = path.as_os_str().to_owned();
    temporary_path.push(".partial");
    let temporary_path = PathBuf::from(temporary_path);
    let written =
        write_with(path, &temporary_path, key_log).and_then(|()| fs::rename(&temporary_path, path));
    if written.is_err() {
        // The temporary file may not exist.
        let _ = fs::remove_file(&temporary_path);
    }
    written.map_err(RecordError::write(path))
}

fn write_with(from: &Path, to: &Path, key_log: &str) -> io::Result<()> {
    let mut input = BufReader::new(File::open(from)?);
    let head_bytes = head_bytes(&mut input)?;
    input.seek(SeekFrom::Start(0))?;
    let mut output = BufWriter::new(create_private(to)?);
    io::copy(&mut input.by_ref().take(head_bytes), &mut output)?;
    output.write_all(&PcapngWriter::secrets_block(key_log)?)?;
    io::copy(&mut input, &mut output)?;
    output.into_inner().map_err(io::Error::from)?.sync_all()
}

/// The length of the blocks before the first packet: the section header and the interfaces.
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
        // A block has at least its type once and its length twice. Without this check a broken file could cause an
        // endless loop.
        if ![SECTION_HEADER, INTERFACE_DESCRIPTION].contains(&kind) || length < 12 {
            return Ok(at);
        }
        at += u64::from(length);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use squall_base::Time;

    use super::*;
    use crate::PcapngFile;

    #[test]
    fn only_the_owner_may_read_a_capture_with_secrets() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("link.pcapng");
        let capture = PcapngFile::create(path.clone(), Time::from_nanos(0), 0).unwrap();
        capture.finish().unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        add_secrets(&path, "CLIENT_RANDOM 00 11\n").unwrap();
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}
