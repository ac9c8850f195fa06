//! Drives the reader of thresholds with any text, and checks what must hold whatever it says.
//!
//! Nothing may panic. What is understood is written in one way, which is understood as the same; a fault is in the text.

use squall_analysis::change::ChangeThreshold;
use squall_analysis::{Threshold, ThresholdError};

/// Any text, as a limit on a load and on a change.
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
