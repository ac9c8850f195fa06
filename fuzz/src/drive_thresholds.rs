//! Feeds any text to the threshold parser, and checks what must hold for any text.
//!
//! Nothing may panic. A valid threshold prints as a text that parses to the same threshold; a fault lies within the
//! text.

use squall_analysis::change::ChangeThreshold;
use squall_analysis::{Threshold, ThresholdError};

/// Any text, as a threshold for a load and for a change.
pub fn threshold(input: &[u8]) {
    let text = &*String::from_utf8_lossy(input);
    match text.parse::<Threshold>() {
        Ok(threshold) => {
            assert!(threshold.limit.is_finite() && threshold.limit >= 0.0);
            let written = threshold.to_string();
            assert_eq!(written.parse(), Ok(threshold), "{written}");
        }
        Err(error) => check(&error, text),
    }
    match text.parse::<ChangeThreshold>() {
        Ok(threshold) => {
            let written = threshold.to_string();
            assert_eq!(written.parse(), Ok(threshold), "{written}");
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

fn check(error: &ThresholdError, text: &str) {
    assert_eq!(error.text, text);
    assert!(error.column <= text.chars().count());
    assert!(!error.to_string().chars().any(char::is_control));
}
