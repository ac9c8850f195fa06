//! What a probe of one URL is to send: the URLs, the versions, the requests and the limits; and the sentence that
//! announces it.
//!
//! Mistakes in the flags end here. Nothing is sent.

use anyhow::Result;
use squall_analysis::probe::PRIORITY_DOWNLOADS;
use squall_base::plan::{Protocol, SideSettings, Version};
use squall_base::{Bytes, Duration};
use squall_http::{Body, Scheme};

use super::arguments::{Arguments, UploadForm};
use super::record_name::record_name;
use crate::client::{
    ConnectionFlags, FieldValue, Http, HttpUrl, Payload, PreparedRequest, RequestFlags,
    encode_fields,
};
use crate::outcome::BadInput;

/// Small requests of the first round, on one connection: enough to notice a server that ends connections after a few.
pub(super) const SMALL_FIRST: u64 = 20;
/// Small requests of each later round.
pub(super) const SMALL_LATER: u64 = 5;
/// Small requests in a row on one connection, once for each version: enough to notice a server that ends connections after 100.
pub(super) const MANY: u64 = 120;
/// How many of these requests are in flight at a time on connections with streams.
pub(super) const MANY_AT_ONCE: u32 = 8;
/// If the response is at most this long, these requests are for the response itself, otherwise only for its head.
pub(super) const MANY_BYTES: u64 = 4 * 1024;
/// Connections of the parallel downloads: what browsers open for HTTP/1.1.
pub(super) const SIX: u32 = 6;
/// A response up to this size is a small one.
pub(super) const SMALL_BYTES: u64 = 64 * 1024;
/// Most bytes of the download during which a small request is sent: more than fits into a server's socket buffer.
pub(super) const OVERLAP_BYTES: u64 = 8 << 20;
/// Bytes that are requested before and after a pause.
pub(super) const IDLE_BYTES: u64 = 256 * 1024;
/// Most bytes of the three responses around a pause: more than three times `IDLE_BYTES`, so that none is cut off.
pub(super) const IDLE_BYTES_AT_MOST: u64 = 4 * IDLE_BYTES;
/// Most bytes per download with priorities, on average.
pub(super) const PRIORITY_BYTES: u64 = 128 * 1024;
/// Small requests on each of the two connections of the step that resumes a session.
pub(super) const RESUMPTION_REQUESTS: u64 = 2;
/// Bytes of the short upload.
pub(super) const SHORT_UPLOAD: u64 = 1_000;
/// A form adds fewer bytes than this to an upload.
const FORM_BYTES: u64 = 256;
/// How much of robots.txt is read: the least that RFC 9309, section 2.5, allows.
pub(super) const ROBOTS_BYTES: u64 = 500 * 1024;
/// Other names of the certificate that are looked up.
pub(super) const OTHER_NAMES: usize = 3;
/// Small requests that show whether a slow server handles two of them concurrently: one opens the connection.
pub(super) const PAIR_REQUESTS: u64 = 3;

/// With less time, a server that is only slow would look silent.
const DURATION_AT_LEAST: Duration = Duration::from_secs(1);
/// The longest upload, which is kept in memory.
const UPLOAD_AT_MOST: Bytes = Bytes::new(1 << 30);

/// A stream window that does not limit what the server sends, because the probe is to see the server's own limits.
const OWN_WINDOW: u64 = 16 << 20;
/// The largest such window: 1.5 times this, the connection's window, is still valid in HTTP/2.
const OWN_WINDOW_AT_MOST: u64 = 1 << 30;

/// A plan for one URL.
pub(super) struct Plan {
    pub(super) url: HttpUrl,
    pub(super) download: HttpUrl,
    pub(super) upload: Option<(HttpUrl, Bytes)>,
    upload_as: UploadForm,
    /// Whether robots.txt is not requested.
    pub(super) ignores_robots: bool,
    pub(super) versions: Vec<Version>,
    pub(super) rounds: u32,
    pub(super) bytes: u64,
    pub(super) duration: Duration,
    /// How long idle connections are watched.
    pub(super) idle: Duration,
    pub(super) trace: bool,
    /// Whether connections over TCP end at the host of a link, not at the server's.
    pub(super) is_forwarded: bool,
    pub(super) connection: ConnectionFlags,
    request: RequestFlags,
    /// The protocols that any connection may speak, for which settings are read.
    possible: Vec<Protocol>,
}

impl Plan {
    /// The plan that the flags describe.
    pub(super) fn new(arguments: &Arguments, url: &str) -> Result<Plan, BadInput> {
        let flags = &arguments.connection;
        if flags.upgrade || flags.lacks_udp() {
            return Err(BadInput::new(
                "squall probe connects to the server directly: leave out --upgrade, --proxy and --unix-socket",
            ));
        }
        if arguments.duration < DURATION_AT_LEAST {
            return Err(BadInput::new(format!(
                "--duration {}: expected at least {DURATION_AT_LEAST}, so that a server has time to respond",
                arguments.duration
            )));
        }
        let url = HttpUrl::parse(url)?;
        let wanted = wanted(&arguments.http, url.scheme)?;
        let mut connection = flags.clone();
        if connection.preset.is_none() {
            let own = own_windows(arguments.bytes, &wanted).into_iter();
            connection.sets = own.chain(flags.sets.iter().cloned()).collect();
        }
        let possible = connection.possible_protocols(&wanted, url.scheme)?;
        if arguments.upload.is_some_and(|size| size > UPLOAD_AT_MOST) {
            return Err(BadInput::new(format!(
                "an upload of more than {UPLOAD_AT_MOST} does not fit into a probe: 5MB usually shows enough"
            )));
        }
        let download = on_same_server(&url, arguments.download.as_deref(), "--download")?;
        let upload_to = on_same_server(&url, arguments.upload_to.as_deref(), "--upload-to")?;
        let plan = Plan {
            download,
            upload: arguments.upload.map(|size| (upload_to, size)),
            upload_as: arguments.upload_as,
            ignores_robots: arguments.ignore_robots,
            versions: wanted.iter().filter_map(|http| version(*http)).collect(),
            rounds: arguments.rounds,
            bytes: arguments.bytes.get().max(1),
            duration: arguments.duration,
            idle: arguments.idle,
            trace: arguments.trace,
            is_forwarded: arguments.forwarded.is_some(),
            connection,
            request: RequestFlags {
                method: None,
                headers: arguments.headers.clone(),
                data: None,
                data_text: None,
                data_size: None,
                form: Vec::new(),
                browser_headers: false,
            },
            possible,
            url,
        };
        // Invalid settings are reported before anything is sent.
        for version in &plan.versions {
            plan.spoken(*version)?;
        }
        Ok(plan)
    }

    /// Whether its connections use TLS.
    pub(super) fn is_secure(&self) -> bool {
        self.url.scheme == Scheme::Https
    }

    /// The protocol of a version, and the client's settings for it.
    pub(super) fn spoken(&self, version: Version) -> Result<(Protocol, SideSettings), BadInput> {
        let http = match version {
            Version::Http1 => Http::One,
            Version::Http2 => Http::Two,
            Version::Http3 => Http::Three,
        };
        let protocol = (self.connection.protocol(Some(http), self.url.scheme)?).protocol;
        let side = self.connection.settings(protocol, &self.possible)?;
        Ok((protocol, side))
    }

    /// A request without a body.
    pub(super) fn ask(
        &self,
        method: &str,
        url: &HttpUrl,
        fields: &[(&str, &str)],
    ) -> Result<PreparedRequest> {
        let own: Vec<(String, String)> = fields
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        (self.request).request_of(method, url, &own, Body::EMPTY.into())
    }

    /// A request that uploads this many bytes.
    pub(super) fn post(&self, url: &HttpUrl, size: Bytes) -> Result<PreparedRequest> {
        let (payload, content_type) = upload_body(self.upload_as, size)?;
        let own = [("content-type".to_owned(), content_type)];
        (self.request).request_of("POST", url, &own, payload)
    }

    /// The name that DNS is asked about, if it may have HTTPS records. With `--connect-to`, they do not determine where
    /// connections go.
    pub(super) fn https_record_name(&self) -> Option<String> {
        if !self.is_secure() || self.connection.connect_to.is_some() {
            return None;
        }
        record_name(self.url.server_name(), self.url.port())
    }

    /// What will be sent, in lines that fit into a terminal.
    pub(super) fn announcement(&self) -> String {
        let rounds = u64::from(self.rounds);
        let versions = self.versions.len() as u64;
        let over_six = u64::from(self.versions.contains(&Version::Http1));
        let small = versions * (1 + SMALL_FIRST + (rounds - 1) * SMALL_LATER);
        let many = versions * MANY;
        let (few, prioritised) = self.of_behaviour();
        // Downloads in each round; for each version the two requests of an overlap; three downloads around a pause.
        let requests =
            small + many + rounds * (versions + over_six * u64::from(SIX)) + 2 * versions + 3;
        let robots = u64::from(!self.ignores_robots);
        let requests = requests + few + prioritised + robots;
        let down = (rounds * (versions + over_six)).saturating_mul(self.bytes);
        let once = versions.saturating_mul(OVERLAP_BYTES.max(self.bytes));
        let down = down
            .saturating_add(once)
            .saturating_add(IDLE_BYTES_AT_MOST + (small + few) * SMALL_BYTES + many * MANY_BYTES)
            .saturating_add(prioritised * PRIORITY_BYTES + robots * ROBOTS_BYTES);
        let upload = self.announced_upload();
        let idle = match self.idle {
            Duration::ZERO => String::new(),
            idle => format!("  It watches an idle connection of each version for up to {idle}.\n"),
        };
        let names = if self.is_secure() && self.connection.connect_to.is_none() {
            format!("  It looks up at most {OTHER_NAMES} other names of the certificate.\n")
        } else {
            String::new()
        };
        let record = match self.https_record_name() {
            Some(_) => "  It asks DNS for HTTPS records of the name.\n",
            None => "",
        };
        format!(
            "squall probe sends at most this to {}, within {}:\n  \
             {requests} GET and HEAD requests for {} of responses,\n  \
             {MANY} of them in a row for each version, with small responses\n{upload}  \
             over one connection at a time (HTTP/1.1: up to {SIX}), and TCP handshakes\n{idle}{names}{record}",
            self.url.to_text(),
            self.duration,
            megabytes(down)
        )
    }

    /// The lines about uploads; empty if there are none.
    fn announced_upload(&self) -> String {
        let Some((url, size)) = &self.upload else {
            return String::new();
        };
        let (form, form_bytes) = match self.upload_as {
            UploadForm::Plain => ("", 0),
            UploadForm::Multipart => (" as multipart/form-data", FORM_BYTES),
        };
        let pairs = u64::from(self.rounds) * self.versions.len() as u64;
        format!(
            "  {} POST requests with {} in all{form}, to {}\n  \
             and at most {} of responses to these,\n",
            2 * pairs,
            megabytes(pairs * (size.get() + SHORT_UPLOAD + 2 * form_bytes)),
            url.to_text(),
            megabytes(pairs.saturating_mul(self.bytes))
        )
    }

    /// How many small requests and how many downloads with priorities `behaviour` sends.
    fn of_behaviour(&self) -> (u64, u64) {
        let versions = self.versions.len() as u64;
        let with_streams = self.versions.iter();
        let with_streams = with_streams.filter(|version| **version != Version::Http1);
        let resumptions = u64::from(self.is_secure()) * 2 * RESUMPTION_REQUESTS;
        let idle = u64::from(!self.idle.is_zero());
        let with_streams = with_streams.count() as u64;
        (
            versions * (resumptions + idle) + with_streams * PAIR_REQUESTS,
            with_streams * u64::from(PRIORITY_DOWNLOADS),
        )
    }
}

/// A body that uploads this many bytes, and its content type.
fn upload_body(form: UploadForm, size: Bytes) -> Result<(Payload, String)> {
    match form {
        UploadForm::Plain => Ok((
            Payload::generated(size)?,
            "application/octet-stream".to_owned(),
        )),
        UploadForm::Multipart => {
            let name = "upload.bin".to_owned();
            encode_fields(&[("file", FieldValue::Generated { size, name })])
        }
    }
}

/// The settings of this client's flow-control windows, large enough for a whole download of `bytes` up to the limit, so that
/// the client does not slow the server down.
fn own_windows(bytes: Bytes, wanted: &[Http]) -> Vec<String> {
    let stream = bytes.get().clamp(OWN_WINDOW, OWN_WINDOW_AT_MOST);
    let mebibytes = stream.div_ceil(1 << 20);
    let versions = [(Http::Two, "http2"), (Http::Three, "http3")];
    let wanted = versions.iter().filter(|(http, _)| wanted.contains(http));
    wanted
        .flat_map(|(_, name)| {
            [
                format!("{name}.stream_window={mebibytes}MiB"),
                format!("{name}.connection_window={}MiB", mebibytes * 3 / 2),
            ]
        })
        .collect()
}

fn megabytes(bytes: u64) -> String {
    format!("{} MB", bytes.div_ceil(1_000_000))
}

/// The versions to probe, each once.
fn wanted(asked: &[Http], scheme: Scheme) -> Result<Vec<Http>, BadInput> {
    if asked.contains(&Http::Auto) {
        return Err(BadInput::new(
            "squall probe tries each version separately: expected --http 1.1, 2 or 3, or several of them",
        ));
    }
    let all: &[Http] = match scheme {
        Scheme::Http => &[Http::One, Http::Two],
        Scheme::Https => &[Http::One, Http::Two, Http::Three],
    };
    if asked.contains(&Http::Three) && scheme == Scheme::Http {
        return Err(BadInput::new(
            "HTTP/3 is always encrypted: write the URL with https://",
        ));
    }
    let is_wanted = |http: &&Http| asked.is_empty() || asked.contains(http);
    Ok(all.iter().filter(is_wanted).copied().collect())
}

fn version(http: Http) -> Option<Version> {
    match http {
        Http::One => Some(Version::Http1),
        Http::Two => Some(Version::Http2),
        Http::Three => Some(Version::Http3),
        Http::Auto => None,
    }
}

/// A path or URL on the server of `url`; without one, `url` itself.
fn on_same_server(url: &HttpUrl, text: Option<&str>, flag: &str) -> Result<HttpUrl, BadInput> {
    let Some(text) = text else {
        return Ok(url.clone());
    };
    if text.starts_with('/') {
        return Ok(url.with_target(text));
    }
    let other = HttpUrl::parse(text)?;
    if other.scheme == url.scheme && other.authority == url.authority {
        return Ok(other);
    }
    Err(BadInput::new(format!(
        "{flag} {text}: expected a path, or a URL on {}: probe other servers separately",
        url.authority
    )))
}

#[cfg(test)]
mod tests {
    use clap::{Args, FromArgMatches};

    use super::*;

    /// The plan of a command with these arguments, the URL last.
    fn plan(arguments: &[&str]) -> Plan {
        let command = Arguments::augment_args(clap::Command::new("probe"));
        let words = [&["probe"][..], arguments].concat();
        let found = command.try_get_matches_from(words).unwrap();
        let arguments = Arguments::from_arg_matches(&found).unwrap();
        Plan::new(&arguments, &arguments.urls[0]).unwrap()
    }

    #[test]
    fn responses_to_uploads_are_announced_too() {
        let flags = ["--http", "1.1,2", "--rounds", "2", "--bytes", "10MB"];
        let without = plan(&[&flags[..], &["http://server/"]].concat()).announcement();
        assert!(!without.contains("POST"), "{without}");
        assert!(!without.contains("responses to these"), "{without}");
        let uploads = ["--upload", "5MB", "http://server/"];
        let said = plan(&[&flags[..], &uploads].concat()).announcement();
        // For each of two rounds and two versions: a short and a long upload, with 10 MB of responses to both together.
        let part = "  8 POST requests with 21 MB in all, to http://server/\n  \
                    and at most 40 MB of responses to these,\n";
        assert!(said.contains(part), "{said}");
        assert!(said.lines().all(|line| line.len() <= 80), "{said}");
    }

    #[test]
    fn versions_follow_from_the_scheme_and_the_flag() {
        use Http::{Auto, One, Three, Two};
        assert_eq!(wanted(&[], Scheme::Https).unwrap(), [One, Two, Three]);
        assert_eq!(wanted(&[], Scheme::Http).unwrap(), [One, Two]);
        assert_eq!(wanted(&[Two, One, Two], Scheme::Https).unwrap(), [One, Two]);
        assert!(wanted(&[Three], Scheme::Http).is_err());
        assert!(wanted(&[Auto], Scheme::Https).is_err());
    }

    #[test]
    fn own_windows_hold_a_whole_download() {
        let usual = own_windows(Bytes::new(4 << 20), &[Http::One, Http::Two, Http::Three]);
        assert_eq!(
            usual,
            [
                "http2.stream_window=16MiB",
                "http2.connection_window=24MiB",
                "http3.stream_window=16MiB",
                "http3.connection_window=24MiB"
            ]
        );
        let long = own_windows(Bytes::new(100_000_000), &[Http::Two]);
        assert_eq!(
            long,
            [
                "http2.stream_window=96MiB",
                "http2.connection_window=144MiB"
            ]
        );
        let endless = own_windows(Bytes::new(u64::MAX), &[Http::Two]);
        assert_eq!(endless[1], "http2.connection_window=1536MiB");
    }

    #[test]
    fn form_around_an_upload_is_no_longer_than_announced() {
        for size in [SHORT_UPLOAD, 5_000_000] {
            let (payload, content_type) =
                upload_body(UploadForm::Multipart, Bytes::new(size)).unwrap();
            let length = payload.body.length().unwrap();
            assert!(length > size && length <= size + FORM_BYTES, "{length}");
            let boundary = content_type.strip_prefix("multipart/form-data; boundary=");
            let end = format!("\r\n--{}--\r\n", boundary.expect("a boundary"));
            let Body::Whole(body) = payload.body else {
                panic!("it is in memory");
            };
            assert!(body.ends_with(end.as_bytes()));
        }
        let (payload, content_type) = upload_body(UploadForm::Plain, Bytes::new(10)).unwrap();
        assert_eq!(payload.body.length(), Some(10));
        assert_eq!(content_type, "application/octet-stream");
    }

    #[test]
    fn downloads_stay_on_the_server() {
        let url = HttpUrl::parse("https://server:8443/a").unwrap();
        let on = |text| on_same_server(&url, Some(text), "--download");
        assert_eq!(on("/b?c").unwrap().to_text(), "https://server:8443/b?c");
        assert_eq!(on("https://server:8443/d").unwrap().target, "/d");
        assert!(on("https://other/d").is_err());
        assert!(on("http://server:8443/d").is_err());
    }
}
