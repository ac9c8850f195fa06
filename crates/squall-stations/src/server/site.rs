//! What a server answers: the same body to everybody, files, an echo, or nothing but thanks for an upload.
//!
//! A request may ask for another size, for a delay and for a status in its query (`wishes`); of a site of files only the
//! delay. What a browser's page is made of is in `page`. Here is decided what to answer and nothing sent.

use std::cell::Cell;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use squall_base::splitmix::splitmix64;
use squall_base::{Bytes as Size, Duration};
use squall_http::values::percent;
use squall_http::values::range::{self, Range};
use squall_http::{Body, Bytes, Field, MessageError, Response};

use super::page::{self, Page, PageError};
use super::source::Source;
use super::wishes::{Delay, Wishes};

/// Bodies of up to this size are slices of one shared pattern; larger ones are streamed from it. Whole alphabets, so
/// that it goes on without a break.
const PATTERN_BYTES: usize = 26 * 40 * 1024;

/// A static body of up to this size is in memory, the fastest that there is; a larger one is streamed from the pattern.
const IN_MEMORY: Size = Size::new(64 << 20);

/// What is served.
#[derive(Clone)]
pub struct Site {
    content: Content,
    /// What a browser gets at these targets instead.
    page: Page,
    pattern: Bytes,
    /// A delay between two times is drawn from this seed and from the number of draws before it.
    seed: u64,
    drawn: Cell<u64>,
}

/// The content of a site.
#[derive(Clone)]
enum Content {
    /// The same response to every request.
    Fixed(Arc<Response>),
    /// So much of the pattern, the same to every request.
    Sized(Size),
    /// The files below a folder.
    Folder(PathBuf),
    /// What was sent.
    Echo,
    /// How much was sent.
    Sink,
}

/// What a request gets.
pub(super) struct Answer {
    pub(super) response: Arc<Response>,
    /// Where its body comes from, if it is streamed.
    pub(super) source: Option<Source>,
    /// How long to wait first.
    pub(super) delay: Duration,
}

/// A request as far as an answer depends on it.
pub(super) struct Asked<'a> {
    pub(super) method: &'a str,
    pub(super) target: &'a str,
    pub(super) fields: &'a [Field],
    /// Body bytes that came, when it is complete.
    pub(super) body_bytes: u64,
}

impl Site {
    /// A static body to every request.
    pub fn fixed(response: Arc<Response>) -> Site {
        Site::of(Content::Fixed(response))
    }

    /// A static body of that size, of a pattern that can be read in a capture.
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

    /// Each request's body.
    pub fn echo() -> Site {
        Site::of(Content::Echo)
    }

    /// How many bytes each request's body had.
    pub fn sink() -> Site {
        Site::of(Content::Sink)
    }

    fn of(content: Content) -> Site {
        Site {
            content,
            page: Page::new(),
            pattern: (b'a'..=b'z').cycle().take(PATTERN_BYTES).collect(),
            seed: 0,
            drawn: Cell::new(0),
        }
    }

    /// The same with a page for a browser: the document at the first target, and pictures at the others, to which it refers.
    /// What asks for no size has the `usual` one.
    ///
    /// # Errors
    /// A document that is too short for its references, and targets that ask for what cannot be.
    pub fn with_page(self, targets: &[String], usual: Size) -> Result<Site, PageError> {
        let page = page::page(targets, usual)?;
        Ok(Site { page, ..self })
    }

    /// The same with delays that follow from this seed.
    pub(super) fn seeded(self, seed: u64) -> Site {
        Site { seed, ..self }
    }

    /// Whether answers depend on header fields.
    pub(super) fn needs_fields(&self) -> bool {
        matches!(self.content, Content::Folder(_))
    }

    /// Whether answers are made of what was sent.
    pub(super) fn needs_bodies(&self) -> bool {
        matches!(self.content, Content::Echo)
    }

    /// Whether the answer is known before the request is complete.
    pub(super) fn answers_early(&self) -> bool {
        matches!(self.content, Content::Echo)
    }

    /// What a request gets: asked at its head if [`Site::answers_early`], else at its end.
    pub(super) fn answer(&self, asked: &Asked<'_>) -> Answer {
        // Over HTTP/1.1 the engine says so.
        if asked.method == "CONNECT" {
            return plain(501, "there are no tunnels here\n");
        }
        let (path, query) = asked.target.split_once('?').unwrap_or((asked.target, ""));
        let wishes: Wishes = match query.parse() {
            Ok(wishes) => wishes,
            Err(error) => return plain(400, &format!("{error}\n")),
        };
        let mut answer = match &self.content {
            _ if self.page.contains_key(asked.target) => {
                whole(Arc::clone(&self.page[asked.target]))
            }
            Content::Fixed(response) if wishes.size.is_none() && wishes.status.is_none() => {
                whole(Arc::clone(response))
            }
            Content::Sized(size) if wishes.size.is_none() && wishes.status.is_none() => self
                .sized_answer(&Wishes {
                    size: Some(*size),
                    ..wishes
                }),
            Content::Fixed(_) | Content::Sized(_) => self.sized_answer(&wishes),
            Content::Folder(root) => file_answer(root, path, asked),
            Content::Echo => echo_answer(),
            Content::Sink if wishes.size.is_some() => self.sized_answer(&wishes),
            Content::Sink => plain(
                wishes.status.unwrap_or(200),
                &format!("{} bytes\n", asked.body_bytes),
            ),
        };
        answer.delay = self.draw(wishes.delay);
        answer
    }

    fn draw(&self, delay: Delay) -> Duration {
        if delay.from == delay.to {
            return delay.to;
        }
        let number = self.drawn.get();
        self.drawn.set(number + 1);
        delay.drawn(splitmix64(self.seed, number))
    }

    fn sized_answer(&self, wishes: &Wishes) -> Answer {
        let status = wishes.status.unwrap_or(200);
        let length = match status {
            204 | 304 => 0,
            _ => wishes.size.unwrap_or_default().get(),
        };
        let fields = [text_type("application/octet-stream")];
        if length <= self.pattern.len() as u64 {
            let body = self.pattern.slice(..length as usize);
            return made(Response::new(status, &fields, body), None);
        }
        let source = Source::Pattern {
            pattern: self.pattern.clone(),
            sent: 0,
            length,
        };
        let body = Body::Streamed {
            length: Some(length),
        };
        made(Response::new(status, &fields, body), Some(source))
    }
}

fn text_type(media_type: &str) -> (String, String) {
    ("content-type".to_owned(), media_type.to_owned())
}

fn whole(response: Arc<Response>) -> Answer {
    Answer {
        response,
        source: None,
        delay: Duration::ZERO,
    }
}

/// An answer of words.
fn plain(status: u16, text: &str) -> Answer {
    let body = match status {
        204 | 304 => String::new(),
        _ => text.to_owned(),
    };
    let fields = [text_type("text/plain; charset=utf-8")];
    made(Response::new(status, &fields, body.into_bytes()), None)
}

/// The answer with this response, which our own fields and checked statuses can always make.
fn made(response: Result<Response, MessageError>, source: Option<Source>) -> Answer {
    match response {
        Ok(response) => Answer {
            source,
            ..whole(Arc::new(response))
        },
        Err(error) => whole(Arc::new(
            Response::new(500, &[], error.to_string().into_bytes())
                .expect("a plain response of words is well-formed"),
        )),
    }
}

fn echo_answer() -> Answer {
    let fields = [text_type("application/octet-stream")];
    let source = Source::Echo {
        pieces: std::collections::VecDeque::new(),
        has_ended: false,
    };
    let body = Body::Streamed { length: None };
    made(Response::new(200, &fields, body), Some(source))
}

fn file_answer(root: &Path, path: &str, asked: &Asked<'_>) -> Answer {
    if !matches!(asked.method, "GET" | "HEAD") {
        return plain(405, "only GET and HEAD\n");
    }
    let Some((path, mut file, length)) = find(root, path) else {
        return plain(404, "no such file\n");
    };
    let field = |name: &[u8]| asked.fields.iter().find(|field| *field.name == *name);
    // Nothing here has a validator, so no condition on one holds (RFC 9110, section 13.1.5).
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
            return made(Response::new(416, &fields, Body::EMPTY), None);
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
    made(Response::new(status, &fields, body), Some(source))
}

/// The file that a path names, and its length; a folder's is its index.html.
fn find(root: &Path, path: &str) -> Option<(PathBuf, File, u64)> {
    let path = below(root, path)?;
    let (file, found) = open(&path)?;
    if !found.is_dir() {
        return found.is_file().then_some((path, file, found.len()));
    }
    let path = no_way_out(root, &path.join("index.html"))?;
    let (file, found) = open(&path)?;
    found.is_file().then_some((path, file, found.len()))
}

/// Opens whatever it is, and says what: a pipe without waiting for who writes to it.
fn open(path: &Path) -> Option<(File, Metadata)> {
    let mut options = OpenOptions::new();
    let file = options
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(path)
        .ok()?;
    let found = file.metadata().ok()?;
    Some((file, found))
}

/// Where a path leads, if it does not lead out of `root`.
fn below(root: &Path, path: &str) -> Option<PathBuf> {
    let path = percent_decoded(path)?;
    let relative = Path::new(path.trim_start_matches('/'));
    let is_inside = relative
        .components()
        .all(|part| matches!(part, Component::Normal(_)));
    if !is_inside {
        return None;
    }
    no_way_out(root, &root.join(relative))
}

/// Where it really is: links that lead out of `root` are not followed.
fn no_way_out(root: &Path, path: &Path) -> Option<PathBuf> {
    let (path, root) = (path.canonicalize().ok()?, root.canonicalize().ok()?);
    path.starts_with(&root).then_some(path)
}

/// The text that a percent-encoded one stands for; `None` if it is none, or no UTF-8, or has a NUL.
fn percent_decoded(text: &str) -> Option<String> {
    String::from_utf8(percent::decoded(text)?)
        .ok()
        .filter(|text| !text.contains('\0'))
}

/// By the name's ending: what a browser and a player need to know.
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
            let answer = site.answer(&Asked {
                method: "GET",
                target,
                fields: &[],
                body_bytes: 0,
            });
            (answer.source.is_some(), answer.response.body().length())
        };
        let small = Site::sized(Size::new(3 << 20)).expect("a response");
        assert_eq!(ask(&small, "/"), (false, Some(3 << 20)));
        // More than any machine has.
        let large = Site::sized(Size::new(1 << 50)).expect("a response");
        assert_eq!(ask(&large, "/"), (true, Some(1 << 50)));
        assert_eq!(ask(&large, "/?size=7"), (false, Some(7)));
    }

    #[test]
    fn delays_follow_from_the_seed_and_from_how_many_were_drawn() {
        let delays = |seed| -> Vec<Duration> {
            let site = Site::sized(Size::new(5)).unwrap().seeded(seed);
            let ask = |target| {
                let asked = Asked {
                    method: "GET",
                    target,
                    fields: &[],
                    body_bytes: 0,
                };
                site.answer(&asked).delay
            };
            // One that is not drawn moves no other.
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
    fn nobody_gets_a_tunnel() {
        let site = Site::sized(Size::new(5)).expect("a response");
        let answer = site.answer(&Asked {
            method: "CONNECT",
            target: "",
            fields: &[],
            body_bytes: 0,
        });
        assert_eq!(answer.response.status(), 501);
    }

    #[test]
    fn paths_do_not_lead_out_of_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap().join("site");
        std::fs::create_dir_all(root.join("a b")).unwrap();
        std::fs::write(folder.path().join("secret"), "s").unwrap();
        std::fs::write(root.join("a b/f.txt"), "f").unwrap();
        std::os::unix::fs::symlink(folder.path().join("secret"), root.join("link")).unwrap();
        let found = |path| find(&root, path).map(|(path, _, length)| (path, length));
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
