//! A DevTools conversation with Chromium: loads one page after the other, and writes a line for each request and page; or
//! opens a page and evaluates expressions in it, for `open_page`.
//!
//! `--remote-debugging-pipe` carries JSON messages, each ended by a NUL, so no port and no WebSocket is needed. The
//! browser reports its requests as Network events, whose times are those of Resource Timing; how long a page took is
//! the browser's own Navigation Timing. `chromium` gives the lines their meaning in a trial. Pages are neither parsed nor
//! judged here.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::process::{ChildStdin, ChildStdout};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::chromium::{EMPTY_PAGE, Line, PageReport, RequestReport};
use super::order::{ClientOrder, LoadEnd};

/// How long the browser may take to start, and to respond to a command.
const PATIENCE: Duration = Duration::from_secs(30);

/// Milliseconds and seconds in nanoseconds.
const MS: f64 = 1e6;
const S: f64 = 1e9;

/// What the browser is to load.
#[derive(Clone, Debug)]
pub(super) struct BrowserTask {
    pub(super) url: String,
    /// Paths with their queries, in the order of their numbers: the document, then what it refers to.
    pub(super) targets: Vec<String>,
    /// No page begins later than this after the first.
    pub(super) length: Duration,
    /// How long to wait for the last page after that.
    pub(super) drain: Duration,
}

impl BrowserTask {
    /// The task that a client's order describes.
    pub(super) fn of(order: &ClientOrder) -> BrowserTask {
        let page = order.page.clone();
        let (further, drain) =
            page.map_or_else(Default::default, |page| (page.targets, page.drain));
        let length = match order.load.end() {
            LoadEnd::After(length) => length,
            LoadEnd::Requests(_) => squall_base::Duration::ZERO,
        };
        BrowserTask {
            url: order.url(),
            targets: std::iter::once(order.path.clone()).chain(further).collect(),
            length: Duration::from_nanos(length.as_nanos()),
            drain: Duration::from_nanos(drain.as_nanos()),
        }
    }
}

/// Makes the browser load pages until the task's time is up, writes their lines, and closes the browser.
///
/// # Errors
/// The system's errors on the pipes and the file, and a browser that does not respond or refuses a command.
pub(super) fn converse(
    stdin: ChildStdin,
    stdout: ChildStdout,
    task: &BrowserTask,
    file: File,
) -> io::Result<()> {
    let mut devtools = DevTools::attach(stdin, stdout)?;
    let mut events = Vec::new();
    for domain in ["Page", "Network"] {
        devtools.call(&format!("{domain}.enable"), &json!({}), &mut events)?;
    }
    let no_cache = json!({ "cacheDisabled": true });
    devtools.call("Network.setCacheDisabled", &no_cache, &mut events)?;
    let mut lines = BufWriter::new(file);
    let begun = Instant::now();
    let give_up = begun + task.length + task.drain;
    for number in 0.. {
        let page = devtools.load(number, task, give_up)?;
        let is_whole = page.report.is_loaded;
        page.write(&mut lines)?;
        if !is_whole || begun.elapsed() >= task.length {
            break;
        }
    }
    lines.flush()?;
    devtools.session = None;
    devtools.send("Browser.close", &json!({})).map(|_| ())
}

/// Messages as they arrive, until the browser is gone.
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

/// A conversation about one page of a browser.
#[derive(Debug)]
pub(super) struct DevTools {
    to: ChildStdin,
    from: Receiver<Value>,
    session: Option<String>,
    last_id: u64,
}

fn broken(why: impl Into<String>) -> io::Error {
    io::Error::other(why.into())
}

impl DevTools {
    /// Begins a conversation with a browser that has just started, about a new and empty page.
    pub(super) fn attach(stdin: ChildStdin, stdout: ChildStdout) -> io::Result<DevTools> {
        let mut devtools = DevTools {
            to: stdin,
            from: listen(stdout),
            session: None,
            last_id: 0,
        };
        let mut events = Vec::new();
        let empty = json!({ "url": EMPTY_PAGE });
        let target = devtools.call("Target.createTarget", &empty, &mut events)?;
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let session = devtools.call("Target.attachToTarget", &attach, &mut events)?;
        devtools.session = session["sessionId"].as_str().map(str::to_owned);
        Ok(devtools)
    }

    /// Sets how the page is shown: the size of its window in CSS pixels, and light colours, regardless of the machine's
    /// preference.
    pub(super) fn show_as(&mut self, (width, height): (u32, u32)) -> io::Result<()> {
        let window =
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        let light = json!({ "features": [{ "name": "prefers-color-scheme", "value": "light" }] });
        let mut events = Vec::new();
        self.call("Emulation.setDeviceMetricsOverride", &window, &mut events)?;
        self.call("Emulation.setEmulatedMedia", &light, &mut events)?;
        Ok(())
    }

    /// Opens a page, and waits until it is loaded.
    pub(super) fn open(&mut self, url: &str) -> io::Result<()> {
        self.call("Page.enable", &json!({}), &mut Vec::new())?;
        let id = self.send("Page.navigate", &json!({ "url": url }))?;
        let give_up = Instant::now() + PATIENCE;
        let mut has_begun = false;
        while let Some(message) = self.next(give_up)? {
            if message["id"] == id {
                let refused = message["error"]["message"].as_str();
                if let Some(why) = message["result"]["errorText"].as_str().or(refused) {
                    return Err(broken(format!("the browser cannot open {url}: {why}")));
                }
                has_begun = true;
            } else if has_begun && message["method"] == "Page.loadEventFired" {
                // An earlier load event is that of the empty page.
                return Ok(());
            }
        }
        Err(broken(format!("the browser did not load {url}")))
    }

    /// The value of an expression in the page; if the expression is a promise, the value that the promise is fulfilled
    /// with. The inner `Err` is what the page threw.
    pub(super) fn evaluate(&mut self, expression: &str) -> io::Result<Result<Value, String>> {
        let params =
            json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let mut answer = self.call("Runtime.evaluate", &params, &mut Vec::new())?;
        if let Some(thrown) = answer.get("exceptionDetails") {
            let description = thrown["exception"]["description"].as_str();
            let words = description.or(thrown["text"].as_str()).unwrap_or_default();
            // The lines below it are the stack.
            return Ok(Err(words.lines().next().unwrap_or_default().to_owned()));
        }
        let value = answer.pointer_mut("/result/value").map(Value::take);
        Ok(Ok(value.unwrap_or_default()))
    }

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

    /// The next message; `None` if none arrives before `give_up`.
    fn next(&self, give_up: Instant) -> io::Result<Option<Value>> {
        let remaining = give_up.saturating_duration_since(Instant::now());
        match self.from.recv_timeout(remaining) {
            Ok(message) => Ok(Some(message)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(broken("the browser has exited")),
        }
    }

    /// Calls a method and returns its result; messages that arrive before that go to `events`.
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

    /// Loads a page, and waits until `give_up` for it to finish.
    fn load(&mut self, number: u64, task: &BrowserTask, give_up: Instant) -> io::Result<Page> {
        let mut page = Page::new(number, &task.targets);
        let id = self.send("Page.navigate", &json!({ "url": task.url }))?;
        let mut has_fired = false;
        while !has_fired {
            match self.next(give_up)? {
                // The browser replies when the document's response begins, or reports why it failed.
                Some(answer) if answer["id"] == id => {
                    let refused = answer["error"]["message"].as_str();
                    if let Some(error) = answer["result"]["errorText"].as_str().or(refused) {
                        page.report.error = Some(error.to_owned());
                        return Ok(page);
                    }
                }
                Some(event) => has_fired = page.apply(&event),
                None => return Ok(page),
            }
        }
        self.ask_for_timing(&mut page)?;
        Ok(page)
    }

    /// Asks the browser how long the page took.
    fn ask_for_timing(&mut self, page: &mut Page) -> io::Result<()> {
        const TIMING: &str = "new Promise((done) => setTimeout(() => done(
            [performance.timeOrigin, performance.getEntriesByType('navigation')[0].loadEventEnd])))";
        let params = json!({ "expression": TIMING, "returnByValue": true, "awaitPromise": true });
        let mut events = Vec::new();
        let answer = self.call("Runtime.evaluate", &params, &mut events)?;
        for event in &events {
            page.apply(event);
        }
        let value = &answer["result"]["value"];
        let (Some(origin), Some(took)) = (value[0].as_f64(), value[1].as_f64()) else {
            return Err(broken(format!("the page has no times: {answer}")));
        };
        page.report.start_ns = (origin * MS) as u64;
        page.report.took_ns = (took * MS) as u64;
        page.report.is_loaded = took > 0.0;
        Ok(())
    }
}

/// A page in progress, and its requests by the browser's ids.
struct Page {
    report: PageReport,
    numbers: BTreeMap<String, u64>,
    count: u64,
    requests: BTreeMap<String, RequestReport>,
    /// Added to times of the browser's monotonic clock, in nanoseconds.
    offset_ns: f64,
}

impl Page {
    fn new(number: u64, targets: &[String]) -> Page {
        Page {
            report: PageReport {
                page: number,
                ..PageReport::default()
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

    /// Applies an event. Returns whether it reports that the page is loaded.
    fn apply(&mut self, event: &Value) -> bool {
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

    fn request(&mut self, params: &Value) -> Option<&mut RequestReport> {
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
        let request = RequestReport {
            request: self.report.page * self.count + what,
            what: what as u32,
            asked_ns: self.unix_ns(&params["timestamp"]),
            ..RequestReport::default()
        };
        self.requests.insert(id.to_owned(), request);
    }

    fn answer(&mut self, params: &Value) {
        let response = &params["response"];
        let timing = &response["timing"];
        let base = self.unix_ns(&timing["requestTime"]);
        // -1 stands for something that did not happen in this request.
        let at = |name: &str| {
            let ms = timing[name].as_f64().filter(|ms| *ms >= 0.0)?;
            Some(base.saturating_add((ms * MS) as u64))
        };
        let Some(request) = self.request(params) else {
            return;
        };
        let status = response["status"].as_u64().unwrap_or_default();
        // A number that is not an HTTP status makes the row invalid.
        request.status = u16::try_from(status).unwrap_or(u16::MAX);
        request.protocol = response["protocol"].as_str().unwrap_or_default().to_owned();
        request.opened_connection = at("connectStart").is_some();
        request.secured_ns = at("sslEnd");
        // For TLS over TCP, `connectEnd` is the end of both handshakes.
        request.connected_ns = at("sslStart").or_else(|| at("connectEnd"));
        request.written_first_ns = at("sendStart");
        request.written_last_ns = at("sendEnd");
        request.answered_first_ns = at("receiveHeadersStart");
        request.headers_ns = at("receiveHeadersEnd");
    }

    fn end(&mut self, params: &Value, error: Option<String>) {
        let end_ns = self.unix_ns(&params["timestamp"]);
        if let Some(request) = self.request(params) {
            // The end of a document is sometimes reported before its parts.
            request.end_ns = end_ns
                .max(request.headers_ns.unwrap_or(0))
                .max(request.asked_ns);
            request.has_ended = true;
            request.error = error;
        }
    }

    fn write(self, lines: &mut impl Write) -> io::Result<()> {
        let mut requests: Vec<RequestReport> = self.requests.into_values().collect();
        requests.sort_by_key(|request| request.request);
        // The document is requested when the page begins, a little before the browser reports it.
        if let Some(document) = requests.first_mut().filter(|request| request.what == 0)
            && self.report.is_loaded
        {
            document.asked_ns = document.asked_ns.min(self.report.start_ns);
        }
        let requests = requests.into_iter().map(Line::Request);
        for line in requests.chain([Line::Page(self.report)]) {
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

    /// The lines written for a page.
    fn lines(page: Page) -> Vec<Line> {
        let mut text = Vec::new();
        page.write(&mut text).expect("there is memory");
        let text = String::from_utf8(text).expect("it is JSON");
        text.lines()
            .map(|line| serde_json::from_str(line).expect("it is JSON"))
            .collect()
    }

    #[test]
    fn events_of_a_request_become_one_line_with_wall_clock_times() {
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
            assert!(!page.apply(&event));
        }
        assert!(page.apply(&json!({ "method": "Page.loadEventFired", "params": {} })));
        let [Line::Request(report), Line::Page(_)] = &lines(page)[..] else {
            panic!("a request and its page");
        };
        let ms = |ms: u64| Some(1_000_000_000_000 + ms * 1_000_000);
        // Page 2, of two requests each: request 5 overall, for the second of its page's targets.
        assert_eq!(
            (report.request, report.what, Some(report.asked_ns)),
            (5, 1, ms(500))
        );
        assert_eq!((report.connected_ns, report.secured_ns), (ms(752), ms(753)));
        assert_eq!(
            (report.written_first_ns, report.written_last_ns),
            (ms(755), None)
        );
        assert_eq!(
            (
                report.answered_first_ns,
                report.headers_ns,
                Some(report.end_ns)
            ),
            (None, ms(757), ms(1000))
        );
        assert_eq!(
            (report.status, report.body_bytes, report.protocol.as_str()),
            (404, 11, "h2")
        );
        assert!(report.opened_connection && report.has_ended && report.error.is_none());
    }

    #[test]
    fn nonsensical_events_belong_to_no_request_or_have_no_times() {
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
            assert!(!strange.apply(&event), "{event}");
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
            endless.apply(&event);
        }
        let [Line::Request(report), Line::Page(_)] = &lines(endless)[..] else {
            panic!("a request and its page");
        };
        assert_eq!((report.status, report.body_bytes), (u16::MAX, u64::MAX));
        assert_eq!(report.error.as_deref(), Some("it failed"));
    }
}
