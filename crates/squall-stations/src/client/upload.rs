//! Request bodies that are read from disk while they are sent, so that their size costs no memory.
//!
//! All requests that send an upload share it. Reading never moves the file's own position: each request keeps its own,
//! in an [`ActiveUpload`]. Nothing is read before the connection has room for it. Bodies that fit into memory do not
//! need this: they are in the request itself.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use squall_base::{Duration, Time};
use squall_http::{ClientEvent, ClientStreams, StreamId, StreamIo};

/// How long to wait for a 100 (Continue), as curl does: servers need not send it (RFC 9110, section 10.1.1).
const CONTINUE_WITHIN: Duration = Duration::from_secs(1);

/// Bodies that are not in the requests themselves, by request index.
pub(crate) type Uploads = Vec<Option<Arc<Upload>>>;

/// A body in consecutive parts.
#[derive(Debug, Default)]
pub struct Upload {
    parts: Vec<Part>,
    length: u64,
}

#[derive(Debug)]
struct Part {
    /// The part's offset in the body.
    from: u64,
    length: u64,
    source: Source,
}

#[derive(Debug)]
enum Source {
    Bytes(Vec<u8>),
    File { file: File, path: PathBuf },
}

impl Upload {
    /// An empty body.
    pub fn new() -> Upload {
        Upload::default()
    }

    /// Appends bytes from memory.
    pub fn push_bytes(&mut self, bytes: Vec<u8>) {
        let length = bytes.len() as u64;
        self.push(length, Source::Bytes(bytes));
    }

    /// Appends the content of a file, at its current length. The file is opened now, and read when it is sent.
    ///
    /// # Errors
    /// The system's error from opening the file.
    pub fn push_file(&mut self, path: &Path) -> io::Result<()> {
        let file = File::open(path)?;
        let length = file.metadata()?.len();
        let path = path.to_path_buf();
        self.push(length, Source::File { file, path });
        Ok(())
    }

    fn push(&mut self, length: u64, source: Source) {
        self.parts.push(Part {
            from: self.length,
            length,
            source,
        });
        self.length += length;
    }

    /// The body's length in bytes.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Reads from `position` on, at most to the end of the part that contains it. Returns how many bytes; 0 only at the
    /// end.
    fn read(&self, position: u64, buffer: &mut [u8]) -> Result<usize, String> {
        let after = self
            .parts
            .partition_point(|part| part.from + part.length <= position);
        let Some(part) = self.parts.get(after) else {
            return Ok(0);
        };
        let offset = position - part.from;
        let remaining = usize::try_from(part.length - offset).unwrap_or(usize::MAX);
        let count = remaining.min(buffer.len());
        let buffer = &mut buffer[..count];
        match &part.source {
            Source::Bytes(bytes) => {
                let start = offset as usize;
                let piece = &bytes[start..start + buffer.len()];
                buffer.copy_from_slice(piece);
                Ok(piece.len())
            }
            Source::File { file, path } => {
                let read = file.read_at(buffer, offset);
                match read.map_err(|error| format!("cannot read {}: {error}", path.display()))? {
                    0 => Err(format!(
                        "{} became shorter while it was sent: {offset} of {} bytes are left",
                        path.display(),
                        part.length
                    )),
                    count => Ok(count),
                }
            }
        }
    }
}

/// An upload that is being sent on a connection.
#[derive(Debug)]
pub(super) struct ActiveUpload {
    pub(super) stream: StreamId,
    upload: Arc<Upload>,
    position: u64,
    /// Why nothing of the upload may be sent yet.
    hold: Option<Hold>,
}

/// Why no byte of an upload may be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hold {
    /// A 100 (Continue) has not arrived; after this time it is sent anyway.
    Until(Time),
    /// A final response other than 2xx arrived instead, so the server rejects the body.
    Refused,
}

/// How much of an upload a connection has accepted.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum UploadProgress {
    /// The connection has no room for more now.
    Partial,
    /// The connection has accepted all of the upload.
    Complete,
    /// The rest cannot be read, for this reason.
    Failed(String),
}

impl ActiveUpload {
    pub(super) fn new(stream: StreamId, upload: Arc<Upload>) -> ActiveUpload {
        ActiveUpload {
            stream,
            upload,
            position: 0,
            hold: None,
        }
    }

    /// Makes the upload wait for a 100 (Continue), from `now` on.
    #[must_use]
    pub(super) fn awaiting_continue(self, now: Time) -> ActiveUpload {
        ActiveUpload {
            hold: Some(Hold::Until(now + CONTINUE_WITHIN)),
            ..self
        }
    }

    /// Until when the upload waits for a 100 (Continue), if it does.
    pub(super) fn waits_until(&self) -> Option<Time> {
        match self.hold {
            Some(Hold::Until(time)) => Some(time),
            Some(Hold::Refused) | None => None,
        }
    }

    /// While the upload waits for a 100 (Continue), applies an event of its connection to it.
    pub(super) fn note(&mut self, event: &ClientEvent) {
        if self.waits_until().is_none() {
            return;
        }
        match event {
            ClientEvent::Interim {
                stream,
                status: 100,
                ..
            } if *stream == self.stream => self.hold = None,
            // After a response below 300 the body is sent, because the response may depend on it, as an echo does. After
            // any other response it is not.
            ClientEvent::ResponseHeaders { stream, status, .. } if *stream == self.stream => {
                self.hold = (*status >= 300).then_some(Hold::Refused);
            }
            _ => {}
        }
    }

    /// Whether nothing of the upload may be sent at `now`.
    pub(super) fn is_held(&mut self, now: impl FnOnce() -> Time) -> bool {
        if self.waits_until().is_some_and(|until| until <= now()) {
            self.hold = None;
        }
        self.hold.is_some()
    }

    /// Sends as much as there is room for, read through `buffer`.
    pub(super) fn feed(
        &mut self,
        streams: &mut ClientStreams<'_>,
        buffer: &mut [u8],
    ) -> UploadProgress {
        while self.position < self.upload.length {
            let room = streams.body_room(self.stream).min(buffer.len());
            if room == 0 {
                return UploadProgress::Partial;
            }
            let count = match self.upload.read(self.position, &mut buffer[..room]) {
                Ok(count) => count,
                Err(reason) => return UploadProgress::Failed(reason),
            };
            let taken = streams.send_body(self.stream, &buffer[..count]);
            if taken == 0 {
                return UploadProgress::Partial;
            }
            self.position += taken as u64;
        }
        streams.end_body(self.stream);
        UploadProgress::Complete
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn read_all(upload: &Upload, piece: usize) -> Result<Vec<u8>, String> {
        let mut all = Vec::new();
        let mut buffer = vec![0; piece];
        loop {
            match upload.read(all.len() as u64, &mut buffer)? {
                0 => return Ok(all),
                count => all.extend_from_slice(&buffer[..count]),
            }
        }
    }

    #[test]
    fn parts_are_read_as_one_body_in_pieces_of_any_size() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        std::fs::write(&path, b"0123456789").unwrap();
        let mut upload = Upload::new();
        upload.push_bytes(b"head".to_vec());
        upload.push_file(&path).unwrap();
        upload.push_bytes(Vec::new());
        upload.push_file(&path).unwrap();
        upload.push_bytes(b"tail".to_vec());
        let expected = b"head01234567890123456789tail";
        assert_eq!(upload.length(), expected.len() as u64);
        for piece in [1, 3, 7, 100] {
            assert_eq!(read_all(&upload, piece).unwrap(), expected, "{piece}");
        }
        assert!(read_all(&Upload::new(), 8).unwrap().is_empty());
    }

    #[test]
    fn upload_waits_up_to_one_second_for_a_100_unless_it_is_refused() {
        let at = |millis| Time::ZERO + Duration::from_millis(millis);
        let own = StreamId(1);
        let held = || ActiveUpload::new(own, Arc::default()).awaiting_continue(at(10));
        let interim = |stream, status| ClientEvent::Interim {
            stream,
            status,
            fields: Vec::new(),
        };
        let mut upload = held();
        assert!(upload.is_held(|| at(1_009)));
        assert!(!upload.is_held(|| at(1_010)));

        let mut upload = held();
        upload.note(&interim(own, 103));
        upload.note(&interim(StreamId(3), 100));
        assert!(upload.is_held(|| at(10)));
        upload.note(&interim(own, 100));
        assert!(!upload.is_held(|| at(10)));

        let answer = |status| ClientEvent::ResponseHeaders {
            stream: own,
            status,
            fields: Vec::new(),
        };
        let mut upload = held();
        upload.note(&answer(200));
        assert!(!upload.is_held(|| at(10)));

        let mut upload = held();
        upload.note(&answer(413));
        assert!(upload.is_held(|| at(9_000)));
        assert_eq!(upload.waits_until(), None);
        assert!(!ActiveUpload::new(own, Arc::default()).is_held(|| at(0)));
    }

    #[test]
    fn shrunken_file_is_an_error_and_a_grown_one_is_cut() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        std::fs::write(&path, vec![b'x'; 100]).unwrap();
        let mut upload = Upload::new();
        upload.push_file(&path).unwrap();
        let mut file = File::options().append(true).open(&path).unwrap();
        file.write_all(b"more").unwrap();
        assert_eq!(read_all(&upload, 64).unwrap().len(), 100);
        file.set_len(70).unwrap();
        let error = read_all(&upload, 64).unwrap_err();
        let expected = "became shorter while it was sent: 70 of 100 bytes are left";
        assert!(error.ends_with(expected), "{error}");
        assert!(
            Upload::new()
                .push_file(&folder.path().join("none"))
                .is_err()
        );
    }
}
