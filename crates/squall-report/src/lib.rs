//! Presents the summary of a run: tables for the terminal, one self-contained page for the browser.
//!
//! It computes no statistic and changes no verdict (squall-analysis does that) and reads no record from disk. The page
//! requests nothing from the network; served by `squall view`, it asks that server for more.
//!
//! `terminal` writes the text (`table` its rows, `causes` its bars), `points` chooses the requests to draw, `html` builds the
//! page, and `payload` packs the data for its scripts. The page's scripts and styles are in assets/, the chart library in
//! assets/vendor/. `findings` prints what is wrong, `fixes` what the tried fixes gained, `palette` has the colour and the
//! letter of each cause, `changes` compares two runs, `explain` shows one request or moment, `load` writes the texts of a load
//! without trials, `probe` what is wrong with an endpoint, and `progress` what a run prints while it works; `view` finds the
//! requests and packets in a part of a plot, `export` writes results for other tools, and `text` has what all of these share.
//! All of this is English; `lang` translates it into Chinese, and `columns` counts the columns of a terminal that Chinese
//! takes.

mod causes;
mod changes;
mod columns;
mod date;
mod deflate;
pub mod explain;
pub mod export;
mod findings;
mod fixes;
mod html;
mod lang;
pub mod load;
mod palette;
mod payload;
mod points;
pub mod probe;
mod progress;
mod shown;
mod table;
mod terminal;
mod text;
pub mod view;

pub use changes::{change_sentence_in, changes_in};
pub use columns::width_of;
pub use findings::findings_in;
pub use fixes::fixes_in;
pub use html::compared::{compared_page, compared_page_in};
pub use html::runs::{ListedRun, runs_page, runs_page_in};
pub use html::{Method, html, html_with_method, live_html};
pub use lang::Language;
pub use points::TrialPoints;
pub use progress::ProgressLines;
pub use terminal::{Detail, terminal_in};
pub use text::Colour;
