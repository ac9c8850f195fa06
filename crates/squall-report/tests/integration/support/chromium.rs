//! A page in a real browser for the tests: Chromium, controlled through the DevTools protocol.
//!
//! Each page has a window with a browser context of its own, as a private window has: nothing of what another test stores,
//! chooses or emulates reaches it. Opening a window takes as much processor time as opening a page in it, so later tests reuse
//! windows that are free, after removing what the earlier page has stored. `devtools` has the browser, which the tests share.
//! It knows nothing about the page under test.

use std::collections::VecDeque;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::devtools::{self, Browser, PATIENCE, Window};

/// The address of an empty page.
const BLANK: &str = "about:blank";

/// A page in a window of its own.
pub struct Page {
    browser: Arc<Browser>,
    // `None` only once the page is being dropped.
    window: Option<Window>,
    session: String,
    messages: Receiver<Value>,
    events: VecDeque<Value>,
}

/// Opens the file in a window of `width` by `height` CSS pixels; `None` as [`empty`].
pub fn open(file: &Path, width: u32, height: u32) -> Option<Page> {
    let mut page = empty(width, height)?;
    page.visit_report(&format!("file://{}", file.display()));
    Some(page)
}

/// Opens this markup from a file of this name, like [`open`].
pub fn open_markup(name: &str, markup: &str, width: u32, height: u32) -> Option<Page> {
    open(&markup_file(name, markup), width, height)
}

/// Like [`open_markup`] in a window of [`new_window`].
pub fn open_markup_in_new_window(
    name: &str,
    markup: &str,
    width: u32,
    height: u32,
) -> Option<Page> {
    let file = markup_file(name, markup);
    let mut page = new_window(width, height)?;
    page.visit_report(&format!("file://{}", file.display()));
    Some(page)
}

fn markup_file(name: &str, markup: &str) -> PathBuf {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.html"));
    std::fs::write(&file, markup).unwrap();
    file
}

/// An empty page in a window of `width` by `height` CSS pixels. Without Chromium it prints a message and returns `None`; if
/// peers are required (SQUALL_REQUIRE_PEERS=1), it panics.
pub fn empty(width: u32, height: u32) -> Option<Page> {
    let browser = browser()?;
    let Some(window) = browser.take_window() else {
        let window = browser.open_window();
        return Some(Page::of(browser, window, width, height));
    };
    let mut page = Page::of(browser, window, width, height);
    page.forget_earlier();
    Some(page)
}

/// Like [`empty`], in a process that has not run a page before, so that a page takes as long as for its first reader.
pub fn new_window(width: u32, height: u32) -> Option<Page> {
    let browser = browser()?;
    let window = browser.open_window();
    Some(Page::of(browser, window, width, height))
}

/// The browser; `None` as [`empty`].
fn browser() -> Option<Arc<Browser>> {
    let browser = devtools::shared();
    if browser.is_none() {
        let words = "skipped: chromium is not installed (apt-get install chromium)";
        assert!(
            std::env::var_os("SQUALL_REQUIRE_PEERS").is_none_or(|v| v != "1"),
            "{words}"
        );
        // Not eprintln!, which the test harness captures.
        let _ = std::io::stderr().write_all(format!("{words}\n").as_bytes());
    }
    browser
}

impl Page {
    fn of(browser: Arc<Browser>, window: Window, width: u32, height: u32) -> Page {
        let attach = json!({ "targetId": window.target, "flatten": true });
        let attached = browser.call("Target.attachToTarget", &attach);
        let session = attached["sessionId"].as_str().unwrap().to_owned();
        // Nothing is missed: a session reports no event before its page is asked for events.
        let messages = browser.listen(&session);
        let mut page = Page {
            browser,
            window: Some(window),
            session,
            messages,
            events: VecDeque::new(),
        };
        for domain in ["Page", "Runtime", "Network", "Log"] {
            page.call(&format!("{domain}.enable"), json!({}));
        }
        // The windows of other tests take the focus, which a page needs to receive keys. So each page behaves as if it had the
        // focus.
        page.call(
            "Emulation.setFocusEmulationEnabled",
            json!({ "enabled": true }),
        );
        page.resize(width, height);
        page
    }

    /// Removes what the earlier page of this window has left. What it emulated ended with its session.
    fn forget_earlier(&mut self) {
        self.visit(BLANK);
        self.wait_for(&format!("location.href === '{BLANK}'"));
        for method in [
            "Page.resetNavigationHistory",
            "Network.clearBrowserCache",
            "Network.clearBrowserCookies",
        ] {
            self.call(method, json!({}));
        }
        let files = json!({ "origin": "file://", "storageTypes": "all" });
        self.call("Storage.clearDataForOrigin", files);
        // With the next answer, all events of the above have arrived.
        self.eval("0");
        self.events.clear();
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

    /// Goes to the page of a report, and waits until it can be used.
    fn visit_report(&mut self, address: &str) {
        self.visit(address);
        self.wait_for("document.readyState === 'complete' && globalThis.squall !== undefined");
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

    /// The processor time that the page's process has taken so far, in seconds: in a window of [`new_window`], what this page
    /// took. Waiting for a busy processor is no part of it.
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
        // Nobody waits for the answers, and errors are ignored: the browser may have exited already.
        let window = self.window.take().expect("it is dropped once");
        if std::thread::panicking() {
            self.browser.close_window(&window);
        } else {
            let blank = json!({ "url": BLANK });
            let _ = self
                .browser
                .send(Some(&self.session), "Page.navigate", &blank);
            let session = json!({ "sessionId": self.session });
            let _ = self.browser.send(None, "Target.detachFromTarget", &session);
            self.browser.leave_window(window);
        }
        self.browser.forget(&self.session);
    }
}
