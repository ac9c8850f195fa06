//! Drives the reader of `squall serve`'s queries with any bytes as the path and query of a request, and checks what must hold
//! whatever they are.
//!
//! Nothing may panic. A query that is understood asks for no more than sizes, times and statuses can be, and says the same
//! when it is written anew, among words that mean nothing; one that is refused says why in one line.

use squall_base::Bytes;
use squall_stations::server::Wishes;

/// Any text, as a query.
pub fn serve_query(input: &[u8]) {
    let query = String::from_utf8_lossy(input);
    match query.parse::<Wishes>() {
        Ok(wishes) => {
            let size = wishes.size.map_or(0, Bytes::get);
            assert!(size <= 1_000_000_000_000_000);
            assert!(wishes.delay.from <= wishes.delay.to);
            assert!(wishes.delay.to.as_nanos() <= 1_000_000_000_000_000_000);
            assert!(
                wishes
                    .status
                    .is_none_or(|status| (200..=599).contains(&status))
            );
            assert_eq!(written(&wishes).parse(), Ok(wishes));
            assert_eq!(format!("a=b&{query}&&x").parse(), Ok(wishes));
        }
        Err(error) => assert!(!error.to_string().chars().any(char::is_control)),
    }
}

fn written(wishes: &Wishes) -> String {
    let mut words = vec![format!("delay={}", wishes.delay)];
    words.extend(wishes.size.map(|size| format!("size={size}")));
    words.extend(wishes.status.map(|status| format!("status={status}")));
    words.join("&")
}
