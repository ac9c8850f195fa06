//! A real browser for the tests: Chromium, controlled through the DevTools protocol.
//!
//! With `--remote-debugging-pipe` the browser exchanges JSON messages, each terminated by a NUL, on its file descriptors 3
//! and 4; a shell connects these to its standard input and output. So no port, no WebSocket and no further crate is needed.
//! It knows nothing about the page under test.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// How long the browser may take to exit after it is asked to.
const FAREWELL: Duration = Duration::from_secs(10);

/// Longer than anything here takes on a busy machine with two cores.
const PATIENCE: Duration = Duration::from_secs(60);

const FLAGS: &[&str] = &[
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--remote-debugging-pipe",
];

/// A page in its own browser.
pub struct Page {
    browser: Child,
    to_browser: ChildStdin,
    from_browser: Receiver<Value>,
    events: VecDeque<Value>,
    session: Option<String>,
    last_id: u64,
    _profile: tempfile::TempDir,
}

/// Opens the file in a window of `width` by `height` CSS pixels; `None` as [`empty`].
pub fn open(file: &Path, width: u32, height: u32) -> Option<Page> {
    let mut page = empty(width, height)?;
    page.visit(&format!("file://{}", file.display()));
    page.wait_for("document.readyState === 'complete' && globalThis.squall !== undefined");
    Some(page)
}

/// Opens this markup from a file of this name, like [`open`].
pub fn open_markup(name: &str, markup: &str, width: u32, height: u32) -> Option<Page> {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.html"));
    std::fs::write(&file, markup).unwrap();
    open(&file, width, height)
}

/// An empty page in a window of `width` by `height` CSS pixels. Without Chromium it prints a message and returns `None`; if
/// peers are required (SQUALL_REQUIRE_PEERS=1), it panics.
pub fn empty(width: u32, height: u32) -> Option<Page> {
    let found = Command::new("chromium")
        .arg("--version")
        .stderr(Stdio::null())
        .output();
    if !found.is_ok_and(|output| output.status.success()) {
        let words = "skipped: chromium is not installed (apt-get install chromium)";
        assert!(
            std::env::var_os("SQUALL_REQUIRE_PEERS").is_none_or(|v| v != "1"),
            "{words}"
        );
        // Not eprintln!, which the test harness captures.
        let _ = std::io::stderr().write_all(format!("{words}\n").as_bytes());
        return None;
    }
    let mut page = Page::launch();
    let target = page.call("Target.createTarget", json!({ "url": "about:blank" }));
    let attach = json!({ "targetId": target["targetId"], "flatten": true });
    let session = page.call("Target.attachToTarget", attach);
    page.session = session["sessionId"].as_str().map(str::to_owned);
    for domain in ["Page", "Runtime", "Network", "Log"] {
        page.call(&format!("{domain}.enable"), json!({}));
    }
    page.resize(width, height);
    Some(page)
}

impl Page {
    fn launch() -> Page {
        let profile = tempfile::tempdir().unwrap();
        let mut browser = Command::new("sh")
            .args([
                "-c",
                "exec chromium \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1",
                "sh",
            ])
            .args(FLAGS)
            .arg(format!("--user-data-dir={}", profile.path().display()))
            // Leftover temporary files are removed with the profile.
            .env("TMPDIR", profile.path())
            .arg("about:blank")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let to_browser = browser.stdin.take().unwrap();
        let mut reader = BufReader::new(browser.stdout.take().unwrap());
        let (sender, from_browser) = channel();
        std::thread::spawn(move || {
            let mut message = Vec::new();
            while reader.read_until(0, &mut message).is_ok_and(|n| n > 0) {
                let Ok(value) = serde_json::from_slice(&message[..message.len() - 1]) else {
                    return;
                };
                if sender.send(value).is_err() {
                    return;
                }
                message.clear();
            }
        });
        Page {
            browser,
            to_browser,
            from_browser,
            events: VecDeque::new(),
            session: None,
            last_id: 0,
            _profile: profile,
        }
    }

    /// Calls a method of the protocol and returns its result.
    pub fn call(&mut self, method: &str, params: impl Into<Value>) -> Value {
        let params = params.into();
        self.last_id += 1;
        let mut message = json!({ "id": self.last_id, "method": method, "params": params });
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        self.to_browser
            .write_all(message.to_string().as_bytes())
            .unwrap();
        self.to_browser.write_all(&[0]).unwrap();
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let answer = self
                .from_browser
                .recv_timeout(left)
                .expect("the browser answers");
            if answer["id"] != self.last_id {
                self.events.push_back(answer);
                continue;
            }
            assert!(
                answer.get("error").is_none(),
                "{method}: {}",
                answer["error"]
            );
            return answer["result"].clone();
        }
    }

    /// Goes to an address. The caller waits until the page can be used.
    pub fn visit(&mut self, address: &str) {
        self.call("Page.navigate", json!({ "url": address }));
    }

    /// The value of a JavaScript expression; awaits promises.
    pub fn eval(&mut self, expression: &str) -> Value {
        let params =
            json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let answer = self.call("Runtime.evaluate", params);
        assert!(
            answer.get("exceptionDetails").is_none(),
            "{expression}: {answer}"
        );
        answer["result"]["value"].clone()
    }

    pub fn text(&mut self, expression: &str) -> String {
        self.eval(expression)
            .as_str()
            .unwrap_or_else(|| panic!("{expression} is no text"))
            .to_owned()
    }

    pub fn wait_for(&mut self, condition: &str) {
        let deadline = Instant::now() + PATIENCE;
        while self.eval(condition) != json!(true) {
            assert!(Instant::now() < deadline, "never came true: {condition}");
            std::thread::sleep(Duration::from_millis(20));
        }
        // Drawing requested in this frame is done by the frame after the next.
        self.eval(
            "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))",
        );
    }

    /// The events of one method so far, such as `Network.requestWillBeSent`.
    pub fn events(&mut self, method: &str) -> Vec<Value> {
        self.eval("0");
        self.events
            .iter()
            .filter(|e| e["method"] == method)
            .map(|e| e["params"].clone())
            .collect()
    }

    pub fn resize(&mut self, width: u32, height: u32) {
        let metrics =
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.call("Emulation.setDeviceMetricsOverride", metrics);
    }

    /// `light` or `dark`.
    pub fn prefer(&mut self, scheme: &str) {
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.call(
            "Emulation.setEmulatedMedia",
            json!({ "features": features }),
        );
    }

    /// Scrolls an element into view and returns its middle.
    pub fn middle_of(&mut self, selector: &str) -> (f64, f64) {
        let expression = format!(
            "(() => {{ const e = document.querySelector({selector:?}); \
             e.scrollIntoView({{ block: 'center' }}); const b = e.getBoundingClientRect(); \
             return [b.x + b.width / 2, b.y + b.height / 2]; }})()"
        );
        let middle = self.eval(&expression);
        (middle[0].as_f64().unwrap(), middle[1].as_f64().unwrap())
    }

    pub fn mouse(&mut self, kind: &str, x: f64, y: f64, clicks: u32) {
        let held = if kind == "mouseReleased" {
            0
        } else {
            u32::from(clicks > 0)
        };
        let button = if clicks > 0 { "left" } else { "none" };
        let params = json!({
            "type": kind, "x": x, "y": y, "button": button, "buttons": held, "clickCount": clicks,
        });
        self.call("Input.dispatchMouseEvent", params);
    }

    pub fn click(&mut self, selector: &str) {
        let (x, y) = self.middle_of(selector);
        self.mouse("mousePressed", x, y, 1);
        self.mouse("mouseReleased", x, y, 1);
    }

    pub fn drag(&mut self, from: (f64, f64), to: (f64, f64)) {
        self.mouse("mouseMoved", from.0, from.1, 0);
        self.mouse("mousePressed", from.0, from.1, 1);
        self.mouse(
            "mouseMoved",
            f64::midpoint(from.0, to.0),
            f64::midpoint(from.1, to.1),
            1,
        );
        self.mouse("mouseMoved", to.0, to.1, 1);
        self.mouse("mouseReleased", to.0, to.1, 1);
    }

    pub fn double_click(&mut self, x: f64, y: f64) {
        for clicks in [1, 2] {
            self.mouse("mousePressed", x, y, clicks);
            self.mouse("mouseReleased", x, y, clicks);
        }
    }

    pub fn wheel(&mut self, x: f64, y: f64, turn: f64, ctrl: bool) {
        // Modifier 2 is Ctrl.
        let modifiers = if ctrl { 2 } else { 0 };
        let params = json!({
            "type": "mouseWheel", "x": x, "y": y, "deltaX": 0, "deltaY": turn, "modifiers": modifiers,
        });
        self.call("Input.dispatchMouseEvent", params);
    }

    /// The whole page as a PNG. The window grows to its height, so that every plot is visible.
    pub fn picture(&mut self, width: u32) -> Vec<u8> {
        self.resize(width, 900);
        let height = self
            .eval("document.documentElement.scrollHeight")
            .as_u64()
            .unwrap();
        self.resize(width, height as u32);
        self.wait_for(
            "[...document.querySelectorAll('.plot')].every((plot) => plot.dataset.points > 0)",
        );
        let picture = self.call("Page.captureScreenshot", json!({ "format": "png" }));
        STANDARD.decode(picture["data"].as_str().unwrap()).unwrap()
    }

    /// Presses and releases a key whose default action matters: Tab, Enter or Escape.
    pub fn press(&mut self, key: &str) {
        let (code, text) = match key {
            "Tab" => (9, ""),
            "Enter" => (13, "\r"),
            "Escape" => (27, ""),
            other => panic!("the code of {other} is not known"),
        };
        let down = if text.is_empty() {
            "rawKeyDown"
        } else {
            "keyDown"
        };
        for (kind, text) in [(down, text), ("keyUp", "")] {
            let params = json!({
                "type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code, "text": text,
            });
            self.call("Input.dispatchKeyEvent", params);
        }
    }

    /// The processor time that the page's process has taken so far, in seconds. Waiting for a busy processor is no part of it.
    pub fn processor_time_s(&mut self) -> f64 {
        self.call("Performance.enable", json!({}));
        let metrics = self.call("Performance.getMetrics", json!({}));
        let metrics = metrics["metrics"].as_array().unwrap();
        let time = metrics.iter().find(|it| it["name"] == "ProcessTime");
        time.unwrap()["value"].as_f64().unwrap()
    }

    pub fn key(&mut self, key: &str) {
        for kind in ["keyDown", "keyUp"] {
            self.call(
                "Input.dispatchKeyEvent",
                json!({ "type": kind, "key": key }),
            );
        }
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // Killed immediately, it would leave child processes that still write to the profile while it is removed. Errors
        // are ignored, because the browser may have exited already.
        let farewell = json!({ "id": self.last_id + 1, "method": "Browser.close" }).to_string();
        let _ = self.to_browser.write_all(farewell.as_bytes());
        let _ = self.to_browser.write_all(&[0]);
        let give_up = Instant::now() + FAREWELL;
        while self.browser.try_wait().is_ok_and(|ended| ended.is_none()) && Instant::now() < give_up
        {
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.browser.kill();
        let _ = self.browser.wait();
    }
}
