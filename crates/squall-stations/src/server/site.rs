//! What a server responds with: a fixed body, files, an echo, or the size of an upload.
//!
//! A request may ask for another size, pieces, a delay and a status in its query (`query`); with a site of files, only
//! for a delay. `page` builds a browser's page. This module decides what to respond and sends nothing.

use std::cell::Cell;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use squall_base::splitmix::splitmix64;
use squall_base::{Bytes as Size, Duration};
use squall_http::values::percent;
use squall_http::values::range::{self, Range};
use squall_http::{Body, Bytes, Field, MessageError, Response};

use super::page::{self, Page, PageError};
use super::query::{Chunks, Delay, QueryOptions};
use super::source::{Paced, Source};

/// Bodies of up to this size are slices of one shared pattern; larger ones are streamed from it. It consists of whole
/// alphabets, so that it repeats without a break.
const PATTERN_BYTES: usize = 26 * 40 * 1024;

/// A static body of up to this size is kept in memory, which is fastest; a larger one is streamed from the pattern.
const IN_MEMORY: Size = Size::new(64 << 20);

/// What is served.
#[derive(Clone)]
pub struct Site {
    content: Content,
    /// What a browser gets at these targets instead of the content.
    page: Page,
    pattern: Bytes,
    /// A delay between two times is drawn from this seed and the number of draws before it.
    seed: u64,
    draw_count: Cell<u64>,
}

/// The content of a site.
#[derive(Clone)]
enum Content {
    /// The same response to every request.
    Fixed(Arc<Response>),
    /// This much of the pattern, for every request.
    Sized(Size),
    /// The files below a folder.
    Folder(PathBuf),
    /// The body of the request.
    Echo,
    /// The size of the request's body.
    Sink,
}

/// The response to a request.
pub(super) struct Answer {
    pub(super) response: Arc<Response>,
    /// The source of its body, if it is streamed.
    pub(super) source: Option<Source>,
    /// How long to wait first.
    pub(super) delay: Duration,
}

/// The parts of a request that a response may depend on.
pub(super) struct SiteRequest<'a> {
    pub(super) method: &'a str,
    pub(super) target: &'a str,
    pub(super) fields: &'a [Field],
    /// Bytes of the body that arrived, once the request is complete.
    pub(super) body_bytes: u64,
}

impl Site {
    /// A static body for every request.
    pub fn fixed(response: Arc<Response>) -> Site {
        Site::of(Content::Fixed(response))
    }

    /// A static body of that size, with a pattern that is easy to read in a capture.
    pub fn sized(size: Size) -> Result<Site, MessageError> {
        if size > IN_MEMORY {
            return Ok(Site::of(Content::Sized(size)));
        }
        let body: Vec<u8> = (b'a'..=b'z').cycle().take(size.get() as usize).collect();
        let response = Response::new(200, &[text_type("application/octet-stream")], body)?;
        Ok(Site::fixed(Arc::new(response)))
    }

    /// The files below `root`.
    pub fn folder(root: PathBuf) -> Site {
        Site::of(Content::Folder(root))
    }

    /// The body of each request.
    pub fn echo() -> Site {
        Site::of(Content::Echo)
    }

    /// The size of each request's body.
    pub fn sink() -> Site {
        Site::of(Content::Sink)
    }

    fn of(content: Content) -> Site {
        Site {
            content,
            page: Page::new(),
            pattern: (b'a'..=b'z').cycle().take(PATTERN_BYTES).collect(),
            seed: 0,
            draw_count: Cell::new(0),
        }
    }

    /// Adds a page for a browser: the document at the first target, which refers to pictures at the others. Targets
    /// that request no size get the `usual` one.
    ///
    /// # Errors
    /// A document that is too short for its references, or a target that requests something invalid.
    pub fn with_page(self, targets: &[String], usual: Size) -> Result<Site, PageError> {
        let page = page::page(targets, usual)?;
        Ok(Site { page, ..self })
    }

    /// Sets the seed of the delays.
    pub(super) fn seeded(self, seed: u64) -> Site {
        Site { seed, ..self }
    }

    /// Whether responses depend on header fields.
    pub(super) fn needs_fields(&self) -> bool {
        matches!(self.content, Content::Folder(_))
    }

    /// Whether responses are made of request bodies.
    pub(super) fn needs_bodies(&self) -> bool {
        matches!(self.content, Content::Echo)
    }

    /// Whether the response is known before the request is complete.
    pub(super) fn answers_early(&self) -> bool {
        matches!(self.content, Content::Echo)
    }

    /// The response to a request. Call it at the head if [`Site::answers_early`], otherwise at the end.
    pub(super) fn answer(&self, request: &SiteRequest<'_>) -> Answer {
        // Over HTTP/1.1 the engine itself responds to CONNECT.
        if request.method == "CONNECT" {
            return plain(501, "CONNECT is not supported\n");
        }
        let (path, query) = request
            .target
            .split_once('?')
            .unwrap_or((request.target, ""));
        let options: QueryOptions = match query.parse() {
            Ok(options) => options,
            Err(error) => return plain(400, &format!("{error}\n")),
        };
        let mut answer = match &self.content {
            _ if self.page.contains_key(request.target) => {
                memory_answer(Arc::clone(&self.page[request.target]))
            }
            Content::Fixed(_) | Content::Sized(_) | Content::Sink if options.chunks.is_some() => {
                self.paced_answer(&options)
            }
            Content::Fixed(response) if options.size.is_none() && options.status.is_none() => {
                memory_answer(Arc::clone(response))
            }
            Content::Sized(size) if options.size.is_none() && options.status.is_none() => self
                .sized_answer(&QueryOptions {
                    size: Some(*size),
                    ..options
                }),
            Content::Fixed(_) | Content::Sized(_) => self.sized_answer(&options),
            Content::Folder(root) => file_answer(root, path, request),
            Content::Echo => echo_answer(),
            Content::Sink if options.size.is_some() => self.sized_answer(&options),
            Content::Sink => plain(
                options.status.unwrap_or(200),
                &format!("{} bytes\n", request.body_bytes),
            ),
        };
        answer.delay = self.draw(options.delay);
        answer
    }

    fn draw(&self, delay: Delay) -> Duration {
        if delay.from == delay.to {
            return delay.to;
        }
        delay.sample(self.next_random())
    }

    fn next_random(&self) -> u64 {
        let number = self.draw_count.get();
        self.draw_count.set(number + 1);
        splitmix64(self.seed, number)
    }

    /// A body in pieces, of a length that is not announced.
    fn paced_answer(&self, options: &QueryOptions) -> Answer {
        let status = options.status.unwrap_or(200);
        let Some(chunks) = options.chunks.filter(|_| !matches!(status, 204 | 304)) else {
            return self.sized_answer(options);
        };
        let media_type = if chunks.are_events {
            "text/event-stream"
        } else {
            "application/octet-stream"
        };
        let fields = [
            text_type(media_type),
            ("cache-control".to_owned(), "no-store".to_owned()),
        ];
        // A fixed pause draws nothing, so it does not shift other delays.
        let seed = if chunks.every.from == chunks.every.to {
            0
        } else {
            self.next_random()
        };
        let piece = self.chunk(&chunks);
        let source = Source::Paced(Paced::new(piece, chunks.count, chunks.every, seed));
        let body = Body::Streamed { length: None };
        answer_of(Response::new(status, &fields, body), Some(source))
    }

    /// The bytes of each piece: letters, in an event those of its data.
    fn chunk(&self, chunks: &Chunks) -> Bytes {
        const BEFORE: &[u8] = b"data: ";
        const AFTER: &[u8] = b"\n\n";
        let size = chunks.size.get() as usize;
        if !chunks.are_events {
            return self.pattern.slice(..size);
        }
        let data = size - BEFORE.len() - AFTER.len();
        [BEFORE, &self.pattern[..data], AFTER].concat().into()
    }

    fn sized_answer(&self, options: &QueryOptions) -> Answer {
        let status = options.status.unwrap_or(200);
        let length = match status {
            204 | 304 => 0,
            _ => options.size.unwrap_or_default().get(),
        };
        let fields = [text_type("application/octet-stream")];
        if length <= self.pattern.len() as u64 {
            let body = self.pattern.slice(..length as usize);
            return answer_of(Response::new(status, &fields, body), None);
        }
        let source = Source::Pattern {
            pattern: self.pattern.clone(),
            sent: 0,
            length,
        };
        let body = Body::Streamed {
            length: Some(length),
        };
        answer_of(Response::new(status, &fields, body), Some(source))
    }
}

fn text_type(media_type: &str) -> (String, String) {
    ("content-type".to_owned(), media_type.to_owned())
}

fn memory_answer(response: Arc<Response>) -> Answer {
    Answer {
        response,
        source: None,
        delay: Duration::ZERO,
    }
}

/// A response with a text.
fn plain(status: u16, text: &str) -> Answer {
    let body = match status {
        204 | 304 => String::new(),
        _ => text.to_owned(),
    };
    let fields = [text_type("text/plain; charset=utf-8")];
    answer_of(Response::new(status, &fields, body.into_bytes()), None)
}

/// An answer with this response, which can always be built from our own fields and checked statuses.
fn answer_of(response: Result<Response, MessageError>, source: Option<Source>) -> Answer {
    match response {
        Ok(response) => Answer {
            source,
            ..memory_answer(Arc::new(response))
        },
        Err(error) => memory_answer(Arc::new(
            Response::new(500, &[], error.to_string().into_bytes())
                .expect("a plain response of words is well-formed"),
        )),
    }
}

fn echo_answer() -> Answer {
    let fields = [text_type("application/octet-stream")];
    let source = Source::Echo {
        waiting: std::collections::VecDeque::new(),
        has_ended: false,
    };
    let body = Body::Streamed { length: None };
    answer_of(Response::new(200, &fields, body), Some(source))
}

fn file_answer(root: &Path, path: &str, request: &SiteRequest<'_>) -> Answer {
    if !matches!(request.method, "GET" | "HEAD") {
        return plain(405, "only GET and HEAD\n");
    }
    let (path, mut file, length) = match find(root, path) {
        Ok(found) => found,
        Err(FileError::NotFound) => return plain(404, "no such file\n"),
        Err(FileError::OutOfResources) => {
            return plain(503, "no file can be opened now: try again later\n");
        }
    };
    let field = |name: &[u8]| request.fields.iter().find(|field| *field.name == *name);
    // No file has a validator here, so no condition on one holds (RFC 9110, section 13.1.5).
    let wanted = field(b"range").filter(|_| field(b"if-range").is_none());
    let range = wanted.map_or(Range::Whole, |field| range::parse(&field.value, length));
    let mut fields = vec![
        text_type(media_type(&path)),
        ("accept-ranges".to_owned(), "bytes".to_owned()),
    ];
    let (status, start, end) = match range {
        Range::Whole => (200, 0, length),
        Range::Part { start, end } => {
            let said = format!("bytes {start}-{}/{length}", end - 1);
            fields.push(("content-range".to_owned(), said));
            (206, start, end)
        }
        Range::Unsatisfiable => {
            let said = format!("bytes */{length}");
            fields.push(("content-range".to_owned(), said));
            return answer_of(Response::new(416, &fields, Body::EMPTY), None);
        }
    };
    if let Err(error) = file.seek(SeekFrom::Start(start)) {
        return plain(500, &format!("cannot read the file: {error}\n"));
    }
    let source = Source::File {
        file,
        left: end - start,
        piece: Vec::new(),
    };
    let body = Body::Streamed {
        length: Some(end - start),
    };
    answer_of(Response::new(status, &fields, body), Some(source))
}

/// Why a file is not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FileError {
    /// No file that may be served has this name.
    NotFound,
    /// It may exist, but file descriptors or memory ran out.
    OutOfResources,
}

impl From<io::Error> for FileError {
    fn from(error: io::Error) -> FileError {
        match error.raw_os_error() {
            Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM) => FileError::OutOfResources,
            _ => FileError::NotFound,
        }
    }
}

/// The file that a path names, and its length. For a folder, its index.html.
fn find(root: &Path, path: &str) -> Result<(PathBuf, File, u64), FileError> {
    let path = resolve_below(root, path).ok_or(FileError::NotFound)?;
    let (file, found) = open(&path)?;
    if found.is_file() {
        return Ok((path, file, found.len()));
    }
    if !found.is_dir() {
        return Err(FileError::NotFound);
    }
    let path = canonical_below(root, &path.join("index.html")).ok_or(FileError::NotFound)?;
    let (file, found) = open(&path)?;
    if found.is_file() {
        Ok((path, file, found.len()))
    } else {
        Err(FileError::NotFound)
    }
}

/// Opens a file of any kind, and returns its metadata. A pipe is opened without waiting for a writer.
fn open(path: &Path) -> io::Result<(File, Metadata)> {
    let mut options = OpenOptions::new();
    let file = options
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(path)?;
    let found = file.metadata()?;
    Ok((file, found))
}

/// The file that a path names, if it does not lead out of `root`.
fn resolve_below(root: &Path, path: &str) -> Option<PathBuf> {
    let path = percent_decoded(path)?;
    let relative = Path::new(path.trim_start_matches('/'));
    let is_inside = relative
        .components()
        .all(|part| matches!(part, Component::Normal(_)));
    if !is_inside {
        return None;
    }
    canonical_below(root, &root.join(relative))
}

/// The canonical path. Links that lead out of `root` are not followed.
fn canonical_below(root: &Path, path: &Path) -> Option<PathBuf> {
    let (path, root) = (path.canonicalize().ok()?, root.canonicalize().ok()?);
    path.starts_with(&root).then_some(path)
}

/// Percent-decodes a text; `None` if it is malformed, not UTF-8, or contains a NUL.
fn percent_decoded(text: &str) -> Option<String> {
    String::from_utf8(percent::decoded(text)?)
        .ok()
        .filter(|text| !text.contains('\0'))
}

/// The media type, from the file extension: the types that browsers and players need.
fn media_type(path: &Path) -> &'static str {
    let ending = path.extension().and_then(|ending| ending.to_str());
    match ending.map(str::to_ascii_lowercase).as_deref() {
        Some("html" | "htm") => "text/html; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("js" | "mjs") => "text/javascript; charset=utf-8",
        Some("json") => "application/json",
        Some("txt" | "md" | "log") => "text/plain; charset=utf-8",
        Some("xml") => "application/xml",
        Some("csv") => "text/csv; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("png") => "image/png",
        Some("jpg" | "jpeg") => "image/jpeg",
        Some("gif") => "image/gif",
        Some("webp") => "image/webp",
        Some("ico") => "image/x-icon",
        Some("pdf") => "application/pdf",
        Some("wasm") => "application/wasm",
        Some("mpd") => "application/dash+xml",
        Some("m3u8") => "application/vnd.apple.mpegurl",
        Some("mp4" | "m4v" | "m4s") => "video/mp4",
        Some("m4a") => "audio/mp4",
        Some("webm") => "video/webm",
        Some("ts") => "video/mp2t",
        Some("mp3") => "audio/mpeg",
        Some("woff2") => "font/woff2",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_bodies_are_not_in_memory() {
        let ask = |site: &Site, target| {
            let answer = site.answer(&SiteRequest {
                method: "GET",
                target,
                fields: &[],
                body_bytes: 0,
            });
            (answer.source.is_some(), answer.response.body().length())
        };
        let small = Site::sized(Size::new(3 << 20)).expect("a response");
        assert_eq!(ask(&small, "/"), (false, Some(3 << 20)));
        // More memory than any machine has.
        let large = Site::sized(Size::new(1 << 50)).expect("a response");
        assert_eq!(ask(&large, "/"), (true, Some(1 << 50)));
        assert_eq!(ask(&large, "/?size=7"), (false, Some(7)));
    }

    #[test]
    fn delays_depend_on_the_seed_and_the_number_of_draws() {
        let delays = |seed| -> Vec<Duration> {
            let site = Site::sized(Size::new(5)).unwrap().seeded(seed);
            let ask = |target| {
                let request = SiteRequest {
                    method: "GET",
                    target,
                    fields: &[],
                    body_bytes: 0,
                };
                site.answer(&request).delay
            };
            // A fixed delay draws nothing, so it does not shift the others.
            assert_eq!(ask("/?delay=1s"), Duration::from_secs(1));
            (0..100).map(|_| ask("/?delay=500ms..2s")).collect()
        };
        let drawn = delays(7);
        assert_eq!(drawn, delays(7));
        assert_ne!(drawn, delays(8));
        let (from, to) = (Duration::from_millis(500), Duration::from_secs(2));
        assert!(drawn.iter().all(|delay| (from..=to).contains(delay)));
        let mean = drawn.iter().map(|delay| delay.as_secs_f64()).sum::<f64>() / 100.0;
        // Three times the mean's standard error of 0.043 s.
        assert!((mean - 1.25).abs() < 0.13, "{mean}");
    }

    #[test]
    fn body_in_pieces_has_no_length_and_events_have_data_lines() {
        let site = Site::sized(Size::new(5)).expect("a response");
        let ask = |target| {
            let answer = site.answer(&SiteRequest {
                method: "GET",
                target,
                fields: &[],
                body_bytes: 0,
            });
            let mut source = answer.source.expect("a source");
            let Source::Paced(paced) = &mut source else {
                panic!("it has pauses");
            };
            paced.release(squall_base::Time::ZERO);
            let piece = source.piece(usize::MAX).expect("a piece").to_vec();
            let piece = String::from_utf8(piece).expect("text");
            (answer.response.body().length(), piece)
        };
        assert_eq!(
            ask("/?chunks=3&chunk=4&every=1s"),
            (None, "abcd".to_owned())
        );
        let event = "data: abcd\n\n".to_owned();
        assert_eq!(ask("/?chunks=3&chunk=12&every=1s&sse"), (None, event));
    }

    #[test]
    fn connect_is_refused() {
        let site = Site::sized(Size::new(5)).expect("a response");
        let answer = site.answer(&SiteRequest {
            method: "CONNECT",
            target: "",
            fields: &[],
            body_bytes: 0,
        });
        assert_eq!(answer.response.status(), 501);
    }

    #[test]
    fn a_lack_of_file_descriptors_is_not_reported_as_a_missing_file() {
        let of = |number| FileError::from(io::Error::from_raw_os_error(number));
        for number in [libc::EMFILE, libc::ENFILE] {
            assert_eq!(of(number), FileError::OutOfResources, "{number}");
        }
        for number in [libc::ENOENT, libc::EACCES, libc::ENOTDIR, libc::ENXIO] {
            assert_eq!(of(number), FileError::NotFound, "{number}");
        }
    }

    #[test]
    fn paths_cannot_leave_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap().join("site");
        std::fs::create_dir_all(root.join("a b")).unwrap();
        std::fs::write(folder.path().join("secret"), "s").unwrap();
        std::fs::write(root.join("a b/f.txt"), "f").unwrap();
        std::os::unix::fs::symlink(folder.path().join("secret"), root.join("link")).unwrap();
        let found = |path| {
            find(&root, path)
                .ok()
                .map(|(path, _, length)| (path, length))
        };
        assert_eq!(found("/a%20b/f.txt"), Some((root.join("a b/f.txt"), 1)));
        // A folder without an index.html, with one, and with one that leads out.
        assert_eq!(found("/a b"), None);
        let index = root.join("a b/index.html");
        std::fs::write(&index, "ab").unwrap();
        assert_eq!(found("/a b"), Some((index.clone(), 2)));
        std::fs::remove_file(&index).unwrap();
        std::os::unix::fs::symlink(folder.path().join("secret"), &index).unwrap();
        assert_eq!(found("/a b"), None);
        for bad in [
            "/../secret",
            "/%2e%2e/secret",
            "/a b/../../secret",
            "/link",
            "/%00",
            "/%zz",
            "//..//secret",
        ] {
            assert_eq!(found(bad), None, "{bad}");
        }
    }
}
