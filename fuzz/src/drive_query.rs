//! Feeds any bytes to the query parser of `squall serve`, as the path and query of a request, and checks what must hold
//! for any bytes.
//!
//! Nothing may panic. A valid query stays within the limits of sizes, times and statuses, and parses to the same value
//! when it is rewritten among meaningless words. An invalid one is refused with a reason in one line.

use squall_base::Bytes;
use squall_stations::server::QueryOptions;

/// Any text, as a query.
pub fn serve_query(input: &[u8]) {
    let query = String::from_utf8_lossy(input);
    match query.parse::<QueryOptions>() {
        Ok(options) => {
            let size = options.size.map_or(0, Bytes::get);
            assert!(size <= 1_000_000_000_000_000);
            assert!(options.delay.from <= options.delay.to);
            assert!(options.delay.to.as_nanos() <= 1_000_000_000_000_000_000);
            assert!(
                options
                    .status
                    .is_none_or(|status| (200..=599).contains(&status))
            );
            assert_eq!(written(&options).parse(), Ok(options));
            assert_eq!(format!("a=b&{query}&&x").parse(), Ok(options));
        }
        Err(error) => assert!(!error.to_string().chars().any(char::is_control)),
    }
}

fn written(options: &QueryOptions) -> String {
    let mut words = vec![format!("delay={}", options.delay)];
    words.extend(options.size.map(|size| format!("size={size}")));
    words.extend(options.status.map(|status| format!("status={status}")));
    words.extend(options.chunks.map(|chunks| {
        let sse = if chunks.are_events { "&sse" } else { "" };
        let (count, size, every) = (chunks.count, chunks.size, chunks.every);
        format!("chunks={count}&chunk={size}&every={every}{sse}")
    }));
    words.join("&")
}
