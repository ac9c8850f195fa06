//! The browser that the tests share, and the messages of the DevTools protocol.
//!
//! With `--remote-debugging-pipe` the browser exchanges JSON messages, each terminated by a NUL, on its file descriptors 3 and
//! 4; a shell connects these to its standard input and output. So no port, no WebSocket and no further crate is needed.
//! Starting and ending a browser takes longer than most tests, so all tests that run at the same time share one, and the last
//! of them closes it. It also ends with the test process, however that ends, because its descriptor 3 is then closed; only its
//! profile stays. `chromium` gives each test a page of its own.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Result, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

/// How long the browser may take to exit after it is asked to.
const FAREWELL: Duration = Duration::from_secs(10);

/// Longer than anything here takes on a busy machine with two cores.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Chromium without its desktop parts, which runs all tests of the report in a quarter less time, and full Chromium where that
/// is not installed. Both draw the same pages.
const PROGRAMS: [&str; 2] = ["chromium-headless-shell", "chromium"];

const FLAGS: &[&str] = &[
    "--headless",
    // Without this, the first of the programs places letters differently from the second.
    "--font-render-hinting=none",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    // The pages of other tests are open too; none of them must be slowed down as a page in the background.
    "--disable-background-timer-throttling",
    "--disable-backgrounding-occluded-windows",
    "--disable-renderer-backgrounding",
    "--remote-debugging-pipe",
];

/// Stands for the session of messages that belong to none: the answers to the browser's own calls.
const NO_SESSION: &str = "";

/// What receives the messages of each session.
type Listeners = Mutex<BTreeMap<String, Sender<Value>>>;

/// The browser, as long as a test uses it.
static SHARED: Mutex<Weak<Browser>> = Mutex::new(Weak::new());

/// A window in a browser context of its own, as a private window has. One page at a time is open in it.
pub struct Window {
    /// The id of the target that is its page.
    pub target: String,
    context: String,
}

/// A running Chromium, which is ended when this is dropped.
pub struct Browser {
    process: Child,
    to_browser: Mutex<ChildStdin>,
    listeners: Arc<Listeners>,
    /// Messages without a session.
    own: Mutex<Receiver<Value>>,
    /// Windows whose pages were left.
    free_windows: Mutex<Vec<Window>>,
    last_id: AtomicU64,
    _profile: TempDir,
}

/// The browser that other tests use at the moment, or a new one. `None` if none of the programs starts.
pub fn shared() -> Option<Arc<Browser>> {
    let mut shared = lock(&SHARED);
    if let Some(browser) = shared.upgrade()
        && browser.is_running()
    {
        return Some(browser);
    }
    let browser = Arc::new(Browser::launch(program()?));
    *shared = Arc::downgrade(&browser);
    Some(browser)
}

/// The first of the programs that starts.
fn program() -> Option<&'static str> {
    static FOUND: OnceLock<Option<&str>> = OnceLock::new();
    *FOUND.get_or_init(|| {
        PROGRAMS.into_iter().find(|program| {
            let mut command = Command::new(program);
            let version = command.arg("--version").stderr(Stdio::null()).output();
            version.is_ok_and(|output| output.status.success())
        })
    })
}

// Poisoning is ignored: a test that fails while it holds a lock leaves nothing behind that could harm the next.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Browser {
    fn launch(program: &str) -> Browser {
        let profile = tempfile::tempdir().unwrap();
        let mut process = Command::new("sh")
            .args([
                "-c",
                "exec \"$0\" \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1",
                program,
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
        let to_browser = process.stdin.take().unwrap();
        let from_browser = process.stdout.take().unwrap();
        let (sender, own) = channel();
        let listeners = BTreeMap::from([(NO_SESSION.to_owned(), sender)]);
        let listeners = Arc::new(Mutex::new(listeners));
        let of_thread = Arc::clone(&listeners);
        std::thread::spawn(move || deliver(from_browser, &of_thread));
        Browser {
            process,
            to_browser: Mutex::new(to_browser),
            listeners,
            own: Mutex::new(own),
            free_windows: Mutex::default(),
            last_id: AtomicU64::new(0),
            _profile: profile,
        }
    }

    fn is_running(&self) -> bool {
        lock(&self.listeners).contains_key(NO_SESSION)
    }

    /// Sends a call of a method, and returns the id of its answer. The call belongs to a session, or to the browser as a whole.
    pub fn send(&self, session: Option<&str>, method: &str, params: &Value) -> Result<u64> {
        let id = self.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        let mut message = json!({ "id": id, "method": method, "params": params });
        if let Some(session) = session {
            message["sessionId"] = json!(session);
        }
        let message = message.to_string() + "\0";
        lock(&self.to_browser).write_all(message.as_bytes())?;
        Ok(id)
    }

    /// Calls a method of the browser as a whole, such as one that opens a page.
    pub fn call(&self, method: &str, params: &Value) -> Value {
        let own = lock(&self.own);
        let id = self.send(None, method, params).unwrap();
        answer(&own, id, method, drop)
    }

    /// A new window, with an empty page.
    pub fn open_window(&self) -> Window {
        let text = |answer: &Value, key: &str| answer[key].as_str().unwrap().to_owned();
        let context = self.call("Target.createBrowserContext", &json!({}));
        let context = text(&context, "browserContextId");
        let place = json!({ "url": "about:blank", "browserContextId": context });
        let target = text(&self.call("Target.createTarget", &place), "targetId");
        Window { target, context }
    }

    /// A window that another page has left, if there is one.
    pub fn take_window(&self) -> Option<Window> {
        lock(&self.free_windows).pop()
    }

    /// Offers a window to the next page.
    pub fn leave_window(&self, window: Window) {
        lock(&self.free_windows).push(window);
    }

    /// Closes a window. Nobody waits for the answer, and errors are ignored: the browser may have exited already.
    pub fn close_window(&self, window: &Window) {
        let context = json!({ "browserContextId": window.context });
        let _ = self.send(None, "Target.disposeBrowserContext", &context);
    }

    /// From now on, the messages of this session arrive at the receiver.
    pub fn listen(&self, session: &str) -> Receiver<Value> {
        let (sender, receiver) = channel();
        lock(&self.listeners).insert(session.to_owned(), sender);
        receiver
    }

    /// Forgets a session, whose further messages are discarded.
    pub fn forget(&self, session: &str) {
        lock(&self.listeners).remove(session);
    }
}

/// Hands each message to the listener of its session, until the browser ends.
fn deliver(from_browser: ChildStdout, listeners: &Listeners) {
    let mut reader = BufReader::new(from_browser);
    let mut message = Vec::new();
    while reader.read_until(0, &mut message).is_ok_and(|n| n > 0) {
        let Ok(value) = serde_json::from_slice::<Value>(&message[..message.len() - 1]) else {
            break;
        };
        let session = value["sessionId"].as_str().unwrap_or(NO_SESSION);
        let listener = lock(listeners).get(session).cloned();
        if let Some(listener) = listener {
            // A page may close while a message is in transit.
            let _ = listener.send(value);
        }
        message.clear();
    }
    // A page that still waits learns that no message follows.
    lock(listeners).clear();
}

/// Waits for the answer to a call. What arrives before it goes to `keep`.
pub fn answer(
    messages: &Receiver<Value>,
    id: u64,
    method: &str,
    mut keep: impl FnMut(Value),
) -> Value {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let message = messages
            .recv_timeout(left)
            .unwrap_or_else(|error| panic!("the browser does not answer {method}: {error}"));
        if message["id"] != id {
            keep(message);
            continue;
        }
        assert!(
            message.get("error").is_none(),
            "{method}: {}",
            message["error"]
        );
        return message["result"].clone();
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Killed immediately, it would leave child processes that still write to the profile while it is removed. Errors
        // are ignored, because the browser may have exited already.
        let _ = self.send(None, "Browser.close", &json!({}));
        let give_up = Instant::now() + FAREWELL;
        while self.process.try_wait().is_ok_and(|ended| ended.is_none()) && Instant::now() < give_up
        {
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
