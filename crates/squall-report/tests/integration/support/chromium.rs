//! A page in a real browser for the tests: Chromium, controlled through the DevTools protocol.
//!
//! Each page has a browser context of its own, as a private window has: nothing of what another test stores, chooses or
//! emulates reaches it. `devtools` has the browser, which the tests share. It knows nothing about the page under test.

use std::collections::VecDeque;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::devtools::{self, Browser, PATIENCE};

/// A page in a window of its own.
pub struct Page {
    browser: Arc<Browser>,
    context: String,
    session: String,
    messages: Receiver<Value>,
    events: VecDeque<Value>,
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
    if !is_installed() {
        let words = "skipped: chromium is not installed (apt-get install chromium)";
        assert!(
            std::env::var_os("SQUALL_REQUIRE_PEERS").is_none_or(|v| v != "1"),
            "{words}"
        );
        // Not eprintln!, which the test harness captures.
        let _ = std::io::stderr().write_all(format!("{words}\n").as_bytes());
        return None;
    }
    let mut page = Page::new(devtools::shared());
    for domain in ["Page", "Runtime", "Network", "Log"] {
        page.call(&format!("{domain}.enable"), json!({}));
    }
    // The windows of other tests take the focus, which a page needs to receive keys. So each one behaves as if it had it.
    page.call(
        "Emulation.setFocusEmulationEnabled",
        json!({ "enabled": true }),
    );
    page.resize(width, height);
    Some(page)
}

/// Whether Chromium starts.
fn is_installed() -> bool {
    static FOUND: OnceLock<bool> = OnceLock::new();
    *FOUND.get_or_init(|| {
        let found = Command::new("chromium")
            .arg("--version")
            .stderr(Stdio::null())
            .output();
        found.is_ok_and(|output| output.status.success())
    })
}

impl Page {
    fn new(browser: Arc<Browser>) -> Page {
        let text = |answer: &Value, key: &str| answer[key].as_str().unwrap().to_owned();
        let made = browser.call("Target.createBrowserContext", &json!({}));
        let context = text(&made, "browserContextId");
        let place = json!({ "url": "about:blank", "browserContextId": context });
        let target = browser.call("Target.createTarget", &place);
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let attached = browser.call("Target.attachToTarget", &attach);
        let session = text(&attached, "sessionId");
        // Nothing is missed: a session reports no event before its page is asked for some.
        let messages = browser.listen(&session);
        Page {
            browser,
            context,
            session,
            messages,
            events: VecDeque::new(),
        }
    }

    /// Calls a method of the protocol and returns its result.
    pub fn call(&mut self, method: &str, params: impl Into<Value>) -> Value {
        let params: Value = params.into();
        let session = Some(self.session.as_str());
        let id = self.browser.send(session, method, &params).unwrap();
        let events = &mut self.events;
        devtools::answer(&self.messages, id, method, |event| events.push_back(event))
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
        // Nobody waits for the answer, and errors are ignored: the browser may have exited already.
        let context = json!({ "browserContextId": self.context });
        let _ = self
            .browser
            .send(None, "Target.disposeBrowserContext", &context);
        self.browser.forget(&self.session);
    }
}
