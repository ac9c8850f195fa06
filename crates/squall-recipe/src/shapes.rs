//! The tables of a recipe and their keys: the whole vocabulary in one place.
//!
//! It does not say what the values mean: `read` does, and docs/RECIPES.md explains them to recipe authors.

/// Which keys a kind of table has.
pub(crate) struct Shape {
    /// What messages call the table.
    pub(crate) label: &'static str,
    /// Its keys, separated by blanks.
    keys: &'static str,
}

impl Shape {
    const fn new(label: &'static str, keys: &'static str) -> Shape {
        Shape { label, keys }
    }

    pub(crate) fn keys(&self) -> Vec<&'static str> {
        self.keys.split(' ').collect()
    }
}

pub(crate) const RECIPE: Shape = Shape::new(
    "the recipe",
    "name question measure primary default_profile repetitions congestion_control sample_every load request \
     response conditions variant station profile",
);
pub(crate) const PRIMARY: Shape =
    Shape::new("`primary`", "variant baseline delay loss link schedule");
pub(crate) const STATION: Shape = Shape::new(
    "[station.NAME]",
    "command configuration ready extends threads extra",
);
pub(crate) const LOAD: Shape = Shape::new(
    "[load]",
    "kind rate stages arrivals targets users think stagger requests script speed media drop_cookies hosts \
     keep_hosts page tiles tile other after pages warmup duration drain spin",
);
/// An element of `page` of `[load]`.
pub(crate) const PAGE: Shape = Shape::new("[[load.page]]", "target after delay urgency");
pub(crate) const REQUEST: Shape =
    Shape::new("[request]", "method target body headers browser_headers");
pub(crate) const REQUESTS: Shape = Shape::new(
    "[[request]]",
    "method target body headers browser_headers weight",
);
pub(crate) const BODY: Shape = Shape::new("`body`", "size text file form");
/// A field of a form that is an upload.
pub(crate) const UPLOAD: Shape = Shape::new("an upload", "file size name");
pub(crate) const RESPONSE: Shape = Shape::new("[response]", "status body");
pub(crate) const CONDITIONS: Shape =
    Shape::new("[conditions]", "delay loss link schedule fast next_link");
/// The conditions of a link after the first.
pub(crate) const NEXT_LINK: Shape = Shape::new("[[conditions.next_link]]", "delay loss link");
/// `delay`, `loss` and `link` where directions differ.
pub(crate) const DIRECTIONS: Shape = Shape::new("`delay`, `loss` and `link`", "up down");
pub(crate) const VARIANT: Shape = Shape::new(
    "[[variant]]",
    "name path connections pool client server http1 http2 http3 tls tcp congestion_control pinned hop",
);
pub(crate) const HOP: Shape = Shape::new(
    "[variant.hop.N]",
    "connections pool client server http1 http2 http3 tls tcp proxy_delay",
);
/// `client` and `server` of a variant.
pub(crate) const SIDE: Shape =
    Shape::new("`client` and `server`", "preset http1 http2 http3 tls tcp");
/// An assignment of the command line.
pub(crate) const SETTINGS: Shape = Shape::new("the settings", "http1 http2 http3 tls tcp");
pub(crate) const POOL: Shape = Shape::new("`pool`", "order streams_at_most warm");
pub(crate) const CONNECTIONS: Shape = Shape::new("`connections`", "at_most");
pub(crate) const HTTP1: Shape = Shape::new("`http1`", "framing requests_per_connection");
pub(crate) const FRAMING: Shape = Shape::new("`framing`", "chunked");
pub(crate) const HTTP2: Shape = Shape::new(
    "`http2`",
    "stream_window connection_window window_updates max_frame_size max_concurrent_streams header_table_size \
     data_size goaway_after requests_per_connection retry_unprocessed",
);
pub(crate) const WINDOW_UPDATES: Shape = Shape::new("`window_updates`", "every each_data grant");
pub(crate) const HTTP3: Shape = Shape::new(
    "`http3`",
    "stream_window connection_window max_concurrent_streams congestion_control pacing max_ack_delay \
     max_udp_payload gso send_buffer receive_buffer local_ports requests_per_connection retry_unprocessed",
);
pub(crate) const TLS: Shape = Shape::new(
    "`tls`",
    "min_version max_version ciphers groups resumption records",
);
pub(crate) const RECORDS: Shape = Shape::new("`records`", "small warmup idle");
pub(crate) const TCP: Shape = Shape::new(
    "`tcp`",
    "congestion_control no_delay notsent_lowat send_buffer receive_buffer keep_alive slow_start_after_idle \
     max_cwnd max_pacing_rate write_size local_ports",
);
pub(crate) const PROFILE: Shape = Shape::new(
    "[profile.NAME]",
    "delay loss link schedule users stagger speed warmup duration drain body response_body variants \
     repetitions primary primary_repetitions",
);

/// The tables that are searched, in this order, for the home of a key in the wrong table.
pub(crate) const ALL: [&Shape; 27] = [
    &RECIPE,
    &LOAD,
    &REQUEST,
    &REQUESTS,
    &PAGE,
    &BODY,
    &UPLOAD,
    &RESPONSE,
    &CONDITIONS,
    &NEXT_LINK,
    &DIRECTIONS,
    &VARIANT,
    &HOP,
    &SIDE,
    &POOL,
    &HTTP1,
    &HTTP2,
    &HTTP3,
    &TLS,
    &TCP,
    &PROFILE,
    &PRIMARY,
    &STATION,
    &CONNECTIONS,
    &WINDOW_UPDATES,
    &FRAMING,
    &RECORDS,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reference_documents_every_key() {
        let reference = include_str!("../../../docs/RECIPES.md");
        for shape in ALL
            .iter()
            .filter(|shape| ![PROFILE.label, HOP.label].contains(&shape.label))
        {
            for key in shape.keys() {
                // A row of a table, the title of a section, or an example.
                let forms = [
                    format!("| `{key}` |"),
                    format!("`[{key}]`"),
                    format!("[[{key}]]"),
                    format!("[{key}.NAME]"),
                    format!("{{ {key} ="),
                ];
                let is_there = forms.iter().any(|form| reference.contains(form));
                assert!(
                    is_there,
                    "`{key}` of {} is not in docs/RECIPES.md",
                    shape.label
                );
            }
        }
    }
}
