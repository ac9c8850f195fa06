//! A conversation with Chromium by the DevTools protocol: pages one after the other, and a line for each request and page.
//!
//! `--remote-debugging-pipe` carries JSON messages, each ended by a NUL, so no port and no WebSocket is needed. What the
//! browser says of its requests are Network events, whose times are those of Resource Timing; how long a page took is its
//! own Navigation Timing. What the lines mean for a trial is in `chromium`. Nothing of a page is parsed or judged here.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::process::{ChildStdin, ChildStdout};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::chromium::{Line, ToldPage, ToldRequest};
use super::order::{ClientLoad, ClientOrder, LoadEnd};

/// How long the browser may take to come up, and to answer what it is asked.
const PATIENCE: Duration = Duration::from_secs(30);

/// Milliseconds and seconds as nanoseconds.
const MS: f64 = 1e6;
const S: f64 = 1e9;

/// What the browser shall load.
#[derive(Clone, Debug)]
pub(super) struct Errand {
    /// The page.
    pub(super) url: String,
    /// Paths with their queries, in the order of their numbers: the document, then what it refers to.
    pub(super) targets: Vec<String>,
    /// No page is begun later than this after the first.
    pub(super) length: Duration,
    /// How long the last one is waited for after that.
    pub(super) drain: Duration,
}

impl Errand {
    /// That of a client's order.
    pub(super) fn of(order: &ClientOrder) -> Errand {
        let page = order.page.clone();
        let (further, drain) =
            page.map_or_else(Default::default, |page| (page.targets, page.drain));
        let length = match order.load {
            ClientLoad::Closed {
                end: LoadEnd::After(length),
                ..
            } => length,
            ClientLoad::Closed { .. } | ClientLoad::Rate { .. } => squall_base::Duration::ZERO,
        };
        Errand {
            url: order.url(),
            targets: std::iter::once(order.path.clone()).chain(further).collect(),
            length: Duration::from_nanos(length.as_nanos()),
            drain: Duration::from_nanos(drain.as_nanos()),
        }
    }
}

/// Has the browser load pages until the errand's time is over, writes their lines, and closes it.
///
/// # Errors
/// What the system says of the pipes and the file, and a browser that says nothing or refuses.
pub(super) fn converse(
    stdin: ChildStdin,
    stdout: ChildStdout,
    errand: &Errand,
    file: File,
) -> io::Result<()> {
    let mut talk = Talk {
        to: stdin,
        from: listen(stdout),
        session: None,
        last_id: 0,
    };
    let mut events = Vec::new();
    let target = talk.call(
        "Target.createTarget",
        &json!({ "url": "about:blank" }),
        &mut events,
    )?;
    let attach = json!({ "targetId": target["targetId"], "flatten": true });
    let session = talk.call("Target.attachToTarget", &attach, &mut events)?;
    talk.session = session["sessionId"].as_str().map(str::to_owned);
    for domain in ["Page", "Network"] {
        talk.call(&format!("{domain}.enable"), &json!({}), &mut events)?;
    }
    let no_cache = json!({ "cacheDisabled": true });
    talk.call("Network.setCacheDisabled", &no_cache, &mut events)?;
    let mut lines = BufWriter::new(file);
    let begun = Instant::now();
    let give_up = begun + errand.length + errand.drain;
    for number in 0.. {
        let page = talk.load(number, errand, give_up)?;
        let is_whole = page.told.is_loaded;
        page.write(&mut lines)?;
        if !is_whole || begun.elapsed() >= errand.length {
            break;
        }
    }
    lines.flush()?;
    talk.session = None;
    talk.send("Browser.close", &json!({})).map(|_| ())
}

/// Messages as they come, until the browser is gone.
fn listen(stdout: ChildStdout) -> Receiver<Value> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        let mut reader = BufReader::new(stdout);
        let mut message = Vec::new();
        while reader.read_until(0, &mut message).is_ok_and(|n| n > 0) {
            message.pop();
            let Ok(value) = serde_json::from_slice(&message) else {
                return;
            };
            if sender.send(value).is_err() {
                return;
            }
            message.clear();
        }
    });
    receiver
}

struct Talk {
    to: ChildStdin,
    from: Receiver<Value>,
    session: Option<String>,
    last_id: u64,
}

fn broken(why: impl Into<String>) -> io::Error {
    io::Error::other(why.into())
}

impl Talk {
    fn send(&mut self, method: &str, params: &Value) -> io::Result<u64> {
        self.last_id += 1;
        let mut message = json!({ "id": self.last_id, "method": method, "params": params });
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        self.to.write_all(message.to_string().as_bytes())?;
        self.to.write_all(&[0])?;
        Ok(self.last_id)
    }

    /// The next message; `None`: none came until then.
    fn next(&self, give_up: Instant) -> io::Result<Option<Value>> {
        let left = give_up.saturating_duration_since(Instant::now());
        match self.from.recv_timeout(left) {
            Ok(message) => Ok(Some(message)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(broken("the browser is gone")),
        }
    }

    /// Calls a method and returns its result; what comes before that goes to `events`.
    fn call(&mut self, method: &str, params: &Value, events: &mut Vec<Value>) -> io::Result<Value> {
        let id = self.send(method, params)?;
        let give_up = Instant::now() + PATIENCE;
        while let Some(mut message) = self.next(give_up)? {
            if message["id"] != id {
                events.push(message);
                continue;
            }
            return match message.get("error") {
                Some(error) => Err(broken(format!("the browser refused {method}: {error}"))),
                None => Ok(message["result"].take()),
            };
        }
        Err(broken(format!("the browser did not answer {method}")))
    }

    /// Loads a page, and waits for its end until `give_up`.
    fn load(&mut self, number: u64, errand: &Errand, give_up: Instant) -> io::Result<Page> {
        let mut page = Page::new(number, &errand.targets);
        let id = self.send("Page.navigate", &json!({ "url": errand.url }))?;
        let mut has_fired = false;
        while !has_fired {
            match self.next(give_up)? {
                // The browser answers when the document's response begins, or says why it failed.
                Some(answer) if answer["id"] == id => {
                    let refused = answer["error"]["message"].as_str();
                    if let Some(error) = answer["result"]["errorText"].as_str().or(refused) {
                        page.told.error = Some(error.to_owned());
                        return Ok(page);
                    }
                }
                Some(event) => has_fired = page.take(&event),
                None => return Ok(page),
            }
        }
        self.ask_for_timing(&mut page)?;
        Ok(page)
    }

    /// How long the page took, as the browser says.
    fn ask_for_timing(&mut self, page: &mut Page) -> io::Result<()> {
        const TIMING: &str = "new Promise((done) => setTimeout(() => done(
            [performance.timeOrigin, performance.getEntriesByType('navigation')[0].loadEventEnd])))";
        let params = json!({ "expression": TIMING, "returnByValue": true, "awaitPromise": true });
        let mut events = Vec::new();
        let answer = self.call("Runtime.evaluate", &params, &mut events)?;
        for event in &events {
            page.take(event);
        }
        let value = &answer["result"]["value"];
        let (Some(origin), Some(took)) = (value[0].as_f64(), value[1].as_f64()) else {
            return Err(broken(format!("the page has no times: {answer}")));
        };
        page.told.start_ns = (origin * MS) as u64;
        page.told.took_ns = (took * MS) as u64;
        page.told.is_loaded = took > 0.0;
        Ok(())
    }
}

/// A page under way, and its requests by the browser's names.
struct Page {
    told: ToldPage,
    numbers: BTreeMap<String, u64>,
    count: u64,
    requests: BTreeMap<String, ToldRequest>,
    /// What is added to times of the browser's monotonic clock, in nanoseconds.
    offset_ns: f64,
}

impl Page {
    fn new(number: u64, targets: &[String]) -> Page {
        Page {
            told: ToldPage {
                page: number,
                ..ToldPage::default()
            },
            numbers: targets.iter().cloned().zip(0..).collect(),
            count: targets.len() as u64,
            requests: BTreeMap::new(),
            offset_ns: 0.0,
        }
    }

    fn unix_ns(&self, seconds: &Value) -> u64 {
        (seconds.as_f64().unwrap_or_default() * S + self.offset_ns) as u64
    }

    /// Takes an event. Whether it says that the page is loaded.
    fn take(&mut self, event: &Value) -> bool {
        let params = &event["params"];
        match event["method"].as_str() {
            Some("Page.loadEventFired") => return true,
            Some("Network.requestWillBeSent") => self.begin(params),
            Some("Network.responseReceived") => self.answer(params),
            Some("Network.dataReceived") => {
                if let Some(request) = self.request(params) {
                    let length = params["dataLength"].as_u64().unwrap_or_default();
                    request.body_bytes = request.body_bytes.saturating_add(length);
                }
            }
            Some("Network.loadingFinished") => self.end(params, None),
            Some("Network.loadingFailed") => {
                let why = params["errorText"].as_str().unwrap_or("it failed");
                self.end(params, Some(why.to_owned()));
            }
            _ => {}
        }
        false
    }

    fn request(&mut self, params: &Value) -> Option<&mut ToldRequest> {
        self.requests.get_mut(params["requestId"].as_str()?)
    }

    fn begin(&mut self, params: &Value) {
        let url = params["request"]["url"].as_str().unwrap_or_default();
        let path = url.splitn(4, '/').nth(3).map(|path| format!("/{path}"));
        let what = path.and_then(|path| self.numbers.get(&path).copied());
        let (Some(what), Some(id)) = (what, params["requestId"].as_str()) else {
            return;
        };
        let seconds = |value: &Value| value.as_f64().unwrap_or_default();
        self.offset_ns = (seconds(&params["wallTime"]) - seconds(&params["timestamp"])) * S;
        let request = ToldRequest {
            request: self.told.page * self.count + what,
            what: what as u32,
            asked_ns: self.unix_ns(&params["timestamp"]),
            ..ToldRequest::default()
        };
        self.requests.insert(id.to_owned(), request);
    }

    fn answer(&mut self, params: &Value) {
        let response = &params["response"];
        let timing = &response["timing"];
        let base = self.unix_ns(&timing["requestTime"]);
        // What did not happen for this request is -1.
        let at = |name: &str| {
            let ms = timing[name].as_f64().filter(|ms| *ms >= 0.0)?;
            Some(base.saturating_add((ms * MS) as u64))
        };
        let Some(request) = self.request(params) else {
            return;
        };
        let status = response["status"].as_u64().unwrap_or_default();
        // What is no status is a fault of the row.
        request.status = u16::try_from(status).unwrap_or(u16::MAX);
        request.protocol = response["protocol"].as_str().unwrap_or_default().to_owned();
        request.opened_connection = at("connectStart").is_some();
        request.secured_ns = at("sslEnd");
        // Of TLS over TCP `connectEnd` is the end of both.
        request.connected_ns = at("sslStart").or_else(|| at("connectEnd"));
        request.written_first_ns = at("sendStart");
        request.written_last_ns = at("sendEnd");
        request.answered_first_ns = at("receiveHeadersStart");
        request.headers_ns = at("receiveHeadersEnd");
    }

    fn end(&mut self, params: &Value, error: Option<String>) {
        let end_ns = self.unix_ns(&params["timestamp"]);
        if let Some(request) = self.request(params) {
            // The end of a document is sometimes told before its parts.
            request.end_ns = end_ns
                .max(request.headers_ns.unwrap_or(0))
                .max(request.asked_ns);
            request.has_ended = true;
            request.error = error;
        }
    }

    fn write(self, lines: &mut impl Write) -> io::Result<()> {
        let mut requests: Vec<ToldRequest> = self.requests.into_values().collect();
        requests.sort_by_key(|request| request.request);
        // The document is asked for when the page begins, a little before the browser tells of it.
        if let Some(document) = requests.first_mut().filter(|request| request.what == 0)
            && self.told.is_loaded
        {
            document.asked_ns = document.asked_ns.min(self.told.start_ns);
        }
        let requests = requests.into_iter().map(Line::Request);
        for line in requests.chain([Line::Page(self.told)]) {
            serde_json::to_writer(&mut *lines, &line)?;
            lines.write_all(b"\n")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page() -> Page {
        Page::new(2, &["/".to_owned(), "/a?b".to_owned()])
    }

    fn event(method: &str, params: &str) -> Value {
        let params: Value = serde_json::from_str(params).expect("the test writes JSON");
        json!({ "method": format!("Network.{method}"), "params": params })
    }

    const BEGUN: &str = r#"{"requestId":"7","request":{"url":"https://host:1/a?b"},"wallTime":1000.5,"timestamp":0.25}"#;

    /// What was written of a page, line by line.
    fn lines(page: Page) -> Vec<Line> {
        let mut text = Vec::new();
        page.write(&mut text).expect("there is memory");
        let text = String::from_utf8(text).expect("it is JSON");
        text.lines()
            .map(|line| serde_json::from_str(line).expect("it is JSON"))
            .collect()
    }

    #[test]
    fn events_of_a_request_become_one_line_with_times_of_the_wall_clock() {
        let mut page = page();
        for event in [
            event("requestWillBeSent", BEGUN),
            event(
                "responseReceived",
                r#"{"requestId":"7","response":{"status":404,"protocol":"h2","timing":{"requestTime":0.5,"connectStart":1,
                    "sslStart":2,"connectEnd":4,"sslEnd":3,"sendStart":5,"sendEnd":-1,"receiveHeadersEnd":7}}}"#,
            ),
            event("dataReceived", r#"{"requestId":"7","dataLength":5}"#),
            event("dataReceived", r#"{"requestId":"7","dataLength":6}"#),
            event("loadingFinished", r#"{"requestId":"7","timestamp":0.75}"#),
        ] {
            assert!(!page.take(&event));
        }
        assert!(page.take(&json!({ "method": "Page.loadEventFired", "params": {} })));
        let [Line::Request(told), Line::Page(_)] = &lines(page)[..] else {
            panic!("a request and its page");
        };
        let ms = |ms: u64| Some(1_000_000_000_000 + ms * 1_000_000);
        // The fifth of its page of two, and the second of its targets.
        assert_eq!(
            (told.request, told.what, Some(told.asked_ns)),
            (5, 1, ms(500))
        );
        assert_eq!((told.connected_ns, told.secured_ns), (ms(752), ms(753)));
        assert_eq!(
            (told.written_first_ns, told.written_last_ns),
            (ms(755), None)
        );
        assert_eq!(
            (told.answered_first_ns, told.headers_ns, Some(told.end_ns)),
            (None, ms(757), ms(1000))
        );
        assert_eq!(
            (told.status, told.body_bytes, told.protocol.as_str()),
            (404, 11, "h2")
        );
        assert!(told.opened_connection && told.has_ended && told.error.is_none());
    }

    #[test]
    fn events_that_make_no_sense_are_of_no_request_or_without_times() {
        let mut strange = page();
        for event in [
            json!(null),
            json!([1]),
            json!({ "method": 1 }),
            event("requestWillBeSent", "[]"),
            event(
                "requestWillBeSent",
                r#"{"requestId":7,"request":{"url":"https://host:1/"}}"#,
            ),
            event(
                "requestWillBeSent",
                r#"{"requestId":"1","request":{"url":"https://host:1/other"}}"#,
            ),
            event(
                "requestWillBeSent",
                r#"{"requestId":"2","request":{"url":"data:,"}}"#,
            ),
            event("loadingFinished", r#"{"requestId":"9","timestamp":1}"#),
            event("dataReceived", r#"{"requestId":"9","dataLength":1}"#),
        ] {
            assert!(!strange.take(&event), "{event}");
        }
        assert_eq!(lines(strange).len(), 1, "the page alone");
        let mut endless = page();
        for event in [
            event(
                "requestWillBeSent",
                r#"{"requestId":"7","request":{"url":"https://host:1/a?b"},"wallTime":1e300,"timestamp":-1e300}"#,
            ),
            event(
                "responseReceived",
                r#"{"requestId":"7","response":{"status":65736,"timing":{"requestTime":1e300,"sendStart":1e300}}}"#,
            ),
            event(
                "dataReceived",
                r#"{"requestId":"7","dataLength":18446744073709551615}"#,
            ),
            event("dataReceived", r#"{"requestId":"7","dataLength":1}"#),
            event("loadingFailed", r#"{"requestId":"7","timestamp":null}"#),
        ] {
            endless.take(&event);
        }
        let [Line::Request(told), Line::Page(_)] = &lines(endless)[..] else {
            panic!("a request and its page");
        };
        assert_eq!((told.status, told.body_bytes), (u16::MAX, u64::MAX));
        assert_eq!(told.error.as_deref(), Some("it failed"));
    }
}
