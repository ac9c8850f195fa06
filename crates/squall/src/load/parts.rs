//! Which requests of a load `--report` draws, and which of them share a colour.
//!
//! A load with a single variant and a few URLs has a picture for each URL, any other load one picture. They are kept in
//! constant memory while the load runs (squall-analysis' `load::LoadPicture`); `tables` adds the requests, `report` shows it.

use squall_analysis::load::{LoadPicture, LoadTotals, MeasuredPhase};
use squall_base::Time;
use squall_base::record::RequestRecord;
use squall_base::secrets::redacted_text;

use super::plan::RequestNames;

/// The most URLs that have a picture each: as many as the page has colours.
const PARTS_AT_MOST: usize = 7;

/// Which part each request of a load belongs to.
#[derive(Clone, Debug)]
pub(super) struct Parts {
    /// The part of each request, by the request's place in the load; empty if all are one part.
    of: Vec<usize>,
    /// The name of each part; empty if all are one part.
    names: Vec<String>,
    /// How many different requests there are.
    different: usize,
}

impl Parts {
    /// The parts of a load with these methods and URLs, if it is the only variant.
    pub(super) fn of(requests: RequestNames, is_only_variant: bool) -> Parts {
        let mut different: Vec<&(String, String)> = requests.iter().collect();
        different.sort();
        different.dedup();
        let count = different.len();
        if !is_only_variant || !(2..=PARTS_AT_MOST).contains(&count) {
            return Parts {
                of: Vec::new(),
                names: Vec::new(),
                different: count,
            };
        }
        // In the order in which the user named the requests.
        let first = |request: &&(String, String)| requests.iter().position(|it| it == *request);
        different.sort_by_key(first);
        let part_of = |request: &(String, String)| {
            let place = different.iter().position(|it| *it == request);
            place.unwrap_or_default()
        };
        Parts {
            of: requests.iter().map(part_of).collect(),
            names: short_names(&different),
            different: count,
        }
    }

    fn place_of(&self, request: &RequestRecord) -> usize {
        let place = self.of.get(request.what as usize);
        place.copied().unwrap_or_default()
    }
}

/// The URLs without secrets, without the origin if all have the same one, and with their methods if those differ.
fn short_names(requests: &[&(String, String)]) -> Vec<String> {
    let origins: Vec<&str> = requests.iter().map(|(_, url)| origin_of(url)).collect();
    let is_one_origin = origins.windows(2).all(|pair| pair[0] == pair[1]);
    let is_one_method = requests.windows(2).all(|pair| pair[0].0 == pair[1].0);
    let name = |(method, url): &&(String, String)| {
        let url = redacted_text(url);
        let shown = match url.strip_prefix(origin_of(&url)) {
            Some(path) if is_one_origin && !path.is_empty() => path,
            _ => &url,
        };
        if is_one_method {
            shown.to_owned()
        } else {
            format!("{method} {shown}")
        }
    };
    requests.iter().map(name).collect()
}

/// The scheme and the host of a URL.
fn origin_of(url: &str) -> &str {
    let host = url.find("://").map_or(0, |at| at + 3);
    let path = url[host..].find(['/', '?', '#']);
    path.map_or(url, |path| &url[..host + path])
}

/// What is drawn of a part.
#[derive(Clone, Debug)]
struct DrawnPart {
    picture: LoadPicture,
    /// Its sums, unless the whole load is one part.
    totals: Option<LoadTotals>,
}

/// What is drawn of a load.
#[derive(Clone, Debug)]
pub(super) struct DrawnLoad {
    parts: Parts,
    drawn: Vec<DrawnPart>,
}

impl DrawnLoad {
    /// A load that begins at `start`, without any request.
    pub(super) fn new(parts: Parts, start: Time, phase: MeasuredPhase) -> DrawnLoad {
        let has_parts = !parts.names.is_empty();
        let part = |_| DrawnPart {
            picture: LoadPicture::new(start, phase),
            totals: has_parts.then(|| LoadTotals::new(phase)),
        };
        DrawnLoad {
            drawn: (0..parts.names.len().max(1)).map(part).collect(),
            parts,
        }
    }

    /// Takes a request that has ended.
    pub(super) fn add(&mut self, request: &RequestRecord) {
        let place = self.parts.place_of(request);
        if let Some(part) = self.drawn.get_mut(place) {
            part.picture.add(request);
            if let Some(totals) = &mut part.totals {
                totals.add(request);
            }
        }
    }

    /// The name, the picture and the sums of each part; empty if the whole load is one part.
    pub(super) fn named(&self) -> impl Iterator<Item = (&str, &LoadPicture, &LoadTotals)> {
        let names = self.parts.names.iter().map(String::as_str);
        let parts = names.zip(&self.drawn);
        parts.filter_map(|(name, part)| Some((name, &part.picture, part.totals.as_ref()?)))
    }

    /// The picture of the whole load, if it is one part; otherwise that of its first part.
    pub(super) fn picture(&self) -> Option<&LoadPicture> {
        self.drawn.first().map(|part| &part.picture)
    }

    /// How many different requests are drawn in one colour, if there are several.
    pub(super) fn urls_together(&self) -> Option<u64> {
        let count = self.parts.different as u64;
        (self.parts.names.is_empty() && count > 1).then_some(count)
    }
}

#[cfg(test)]
mod tests {
    use squall_base::Duration;

    use super::*;

    fn parts(requests: &[(&str, &str)], is_only_variant: bool) -> Parts {
        let names: Vec<(String, String)> = (requests.iter())
            .map(|(method, url)| ((*method).to_owned(), (*url).to_owned()))
            .collect();
        Parts::of(names.leak(), is_only_variant)
    }

    #[test]
    fn urls_of_one_server_are_named_by_their_paths_without_secrets() {
        let requests = [
            ("GET", "http://x:8080/b?token=abc"),
            ("GET", "http://x:8080/a"),
            ("GET", "http://x:8080/b?token=abc"),
        ];
        let of = parts(&requests, true);
        assert_eq!(of.names, ["/b?token=[redacted]", "/a"]);
        assert_eq!(of.of, [0, 1, 0]);
        assert_eq!(of.different, 2);
    }

    #[test]
    fn servers_and_methods_are_named_where_they_differ() {
        let of = parts(&[("GET", "http://x/a"), ("POST", "https://y/a")], true);
        assert_eq!(of.names, ["GET http://x/a", "POST https://y/a"]);
    }

    #[test]
    fn several_variants_and_many_urls_are_one_part() {
        let two = [("GET", "http://x/a"), ("GET", "http://x/b")];
        assert!(parts(&two, false).names.is_empty());
        assert!(parts(&two[..1], true).names.is_empty());
        let urls: Vec<String> = (0..8).map(|n| format!("http://x/{n}")).collect();
        let many: Vec<(&str, &str)> = urls.iter().map(|url| ("GET", url.as_str())).collect();
        let of = parts(&many, true);
        assert!(of.names.is_empty());
        let drawn = DrawnLoad::new(of, Time::ZERO, MeasuredPhase::default());
        assert_eq!(drawn.urls_together(), Some(8));
        assert_eq!(drawn.named().count(), 0);
    }

    #[test]
    fn requests_count_in_the_part_of_their_url() {
        let of = parts(&[("GET", "http://x/a"), ("GET", "http://x/b")], true);
        let mut drawn = DrawnLoad::new(of, Time::ZERO, MeasuredPhase::default());
        for what in [0, 1, 1] {
            drawn.add(&RequestRecord {
                what,
                end: Time::ZERO + Duration::from_millis(3),
                ..RequestRecord::due(0, Time::ZERO)
            });
        }
        let counts: Vec<(&str, u64, u64)> = (drawn.named())
            .map(|(name, picture, totals)| (name, picture.total(), totals.requests()))
            .collect();
        assert_eq!(counts, [("/a", 1, 1), ("/b", 2, 2)]);
        assert_eq!(drawn.urls_together(), None);
    }
}
