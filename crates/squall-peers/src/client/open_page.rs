//! A page that squall has made, open in headless Chromium: for results that only a browser can produce, such as the files of
//! its plots.
//!
//! It starts the browser, opens the page, evaluates expressions in it, and ends the browser. It does not know what the page
//! is. `devtools` has the conversation; in trials, where a browser loads the pages of a server, `chromium` and `run` use it.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::Value;
use thiserror::Error;

use super::chromium::{self, Chromium, EMPTY_PAGE, NAME};
use super::devtools::DevTools;
use super::run::remove_leftovers;
use crate::find::{FindError, Installable, InstalledProgram, SearchPath};
use crate::process::{ExitReport, Launch, PipedStreams, Pipes, Process, StartError, write_files};

/// The size of the browser's window in CSS pixels: typical of a desktop.
const WINDOW: (u32, u32) = (1_280, 960);

/// How long a browser that has broken off the conversation may take to end, so that an error can say how it did.
const LAST_MOMENT: Duration = Duration::from_millis(500);

/// Looks for the browser.
///
/// # Errors
/// It is not in `search`, or does not report its version.
pub fn find_browser(search: &SearchPath) -> Result<InstalledProgram, FindError> {
    Chromium.find(search)
}

/// Why a page cannot be opened, or an expression has no value.
#[derive(Debug, Error)]
pub enum PageError {
    /// The browser could not be started.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The conversation with the browser broke off.
    #[error("chromium: {source}{}", ending(.exit))]
    Conversation {
        /// How the browser ended, if it has.
        exit: Option<ExitReport>,
        /// What went wrong.
        source: io::Error,
    },
    /// A script of the page threw this.
    #[error("chromium: {0}")]
    Thrown(String),
}

fn ending(exit: &Option<ExitReport>) -> String {
    exit.as_ref()
        .map_or_else(String::new, |exit| format!("; it {exit}"))
}

/// A page in a browser of its own, which ends when this is dropped.
#[derive(Debug)]
pub struct OpenPage {
    // Dropped first: the browser ends when the conversation does.
    devtools: DevTools,
    browser: Browser,
}

/// A running browser and the folder of its files. Dropping it ends the browser, and removes its profile from the folder.
#[derive(Debug)]
struct Browser {
    process: Process,
    folder: PathBuf,
}

impl OpenPage {
    /// Starts the browser and opens `url` in it, such as `file:///tmp/page.html`; returns when the page is loaded. `folder`
    /// gets the browser's log and its profile. It is made if necessary.
    ///
    /// # Errors
    /// The browser does not start, or does not open the page within half a minute.
    pub fn open(
        browser: &InstalledProgram,
        url: &str,
        folder: &Path,
    ) -> Result<OpenPage, PageError> {
        let mut browser = Browser::start(browser, folder)?;
        match connect(browser.process.take_pipes(), url) {
            Ok(devtools) => Ok(OpenPage { devtools, browser }),
            Err(source) => Err(browser.broken_off(source)),
        }
    }

    /// The value of a JavaScript expression in the page; for a promise, the value that it is fulfilled with. `undefined` is
    /// null.
    ///
    /// # Errors
    /// The page threw something, or the browser did not answer within half a minute.
    pub fn evaluate(&mut self, expression: &str) -> Result<Value, PageError> {
        match self.devtools.evaluate(expression) {
            Ok(value) => value.map_err(PageError::Thrown),
            Err(source) => Err(self.browser.broken_off(source)),
        }
    }
}

fn connect(pipes: Pipes, url: &str) -> io::Result<DevTools> {
    let (Some(stdin), Some(stdout)) = (pipes.stdin, pipes.stdout) else {
        return Err(io::Error::other("it was started without pipes"));
    };
    let mut devtools = DevTools::attach(stdin, stdout)?;
    devtools.show_as(WINDOW)?;
    devtools.open(url)?;
    Ok(devtools)
}

impl Browser {
    fn start(installed: &InstalledProgram, folder: &Path) -> Result<Browser, StartError> {
        let mut invocation = chromium::headless();
        invocation.argument(EMPTY_PAGE);
        write_files(folder, &invocation.files)?;
        let launch = Launch {
            name: NAME,
            program: &installed.path,
            arguments: &invocation.arguments,
            environment: &invocation.environment,
            folder,
            host: None,
            processors: &[],
            piped_streams: PipedStreams::Conversation,
        };
        let started = Process::start(&launch).inspect_err(|_| remove_leftovers(folder));
        Ok(Browser {
            process: started?,
            folder: folder.to_owned(),
        })
    }

    /// The error for a conversation that has failed.
    fn broken_off(&self, source: io::Error) -> PageError {
        PageError::Conversation {
            exit: self.process.wait_until(Instant::now() + LAST_MOMENT),
            source,
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        self.process.stop();
        remove_leftovers(&self.folder);
    }
}
