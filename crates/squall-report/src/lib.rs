//! A run's summary as people see it: tables for the terminal, one self-contained page for the browser.
//!
//! It computes no statistic and changes no verdict (squall-analysis does that), reads no record from disk,
//! and the page that it makes asks the network for nothing. `terminal` is the text, `points` chooses the
//! requests to draw, `html` builds the page, `payload` packs what its scripts need; the page's own scripts
//! and styles are in assets/, the chart library in assets/vendor/. `findings` says what is wrong, `explain` shows one
//! request or moment, `load` is the texts of a load without trials.

mod causes;
mod changes;
mod date;
pub mod explain;
mod findings;
mod html;
pub mod load;
mod payload;
mod points;
mod terminal;

pub use changes::changes;
pub use findings::findings;
pub use html::html;
pub use points::TrialPoints;
pub use terminal::{Colour, Detail, terminal};
