//! A page: requests some of which are sent only after others have been answered.
//!
//! Only the checked description: squall-load makes arrivals from it, and the requests themselves are in the caller's
//! list.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::time::Duration;

/// The urgency of a response: 0, the most urgent, to 7 (RFC 9218, section 4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u8", into = "u8")]
pub struct Urgency(u8);

impl Urgency {
    /// This urgency, or `None` if it is above 7.
    pub const fn new(value: u8) -> Option<Urgency> {
        match value {
            0..=7 => Some(Urgency(value)),
            _ => None,
        }
    }

    /// The number, 0 to 7.
    pub const fn get(self) -> u8 {
        self.0
    }

    /// The header field that requests it (RFC 9218, section 5).
    pub fn field(self) -> (String, String) {
        ("priority".to_owned(), format!("u={}", self.0))
    }
}

impl Default for Urgency {
    /// The urgency of a request without a priority (RFC 9218, section 4.1).
    fn default() -> Urgency {
        Urgency(3)
    }
}

/// A number that is not an urgency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{0} is not an urgency: expected 0 to 7")]
pub struct UnknownUrgency(u8);

impl TryFrom<u8> for Urgency {
    type Error = UnknownUrgency;

    fn try_from(value: u8) -> Result<Urgency, UnknownUrgency> {
        Urgency::new(value).ok_or(UnknownUrgency(value))
    }
}

impl From<Urgency> for u8 {
    fn from(urgency: Urgency) -> u8 {
        urgency.0
    }
}

/// One request of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageNode {
    /// Its place among the caller's requests.
    pub what: u32,
    /// The node whose response must have arrived first, by its place in the page; `None`: this one is sent at the page's start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<u32>,
    /// How long after that response, or after the page's start, it is sent: the time that parsing and scripts take.
    #[serde(default)]
    pub delay: Duration,
    /// Its urgency.
    #[serde(default)]
    pub urgency: Urgency,
}

/// One request of a page as a user writes it, from which a [`PageNode`] and its request are made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageRequest {
    /// What it requests: a URL with `http` or `https`, or a path on the given server.
    pub url: String,
    /// The request that must have succeeded first, by its place in the page, if any.
    pub after: Option<u32>,
    /// How long after that success, or after the page's start, it is sent.
    pub delay: Duration,
    /// Its urgency; `None`: unspecified, which means 3.
    pub urgency: Option<Urgency>,
}

impl PageRequest {
    /// The node for this request, which is the caller's request `what`.
    pub fn node(&self, what: u32) -> PageNode {
        PageNode {
            what,
            after: self.after,
            delay: self.delay,
            urgency: self.urgency.unwrap_or_default(),
        }
    }
}

/// A page: at least one request. Each waits for an earlier one in the list, or is sent from the start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<PageNode>", into = "Vec<PageNode>")]
pub struct Page(Vec<PageNode>);

/// Why requests are not a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum PageError {
    /// There are no requests.
    #[error("a page has at least one request")]
    Empty,
    /// There are too many to count.
    #[error("a page has at most 2^32 - 1 requests")]
    TooMany,
    /// A request waits for itself or for a later one, so it might never be sent.
    #[error("request {node} of the page waits for request {after}, which does not come before it")]
    Order {
        /// The request that waits.
        node: u32,
        /// The request that it waits for.
        after: u32,
    },
}

impl Page {
    /// The default delay between the request that the server holds back and the one that may overtake it.
    pub const HOLD_FOR: Duration = Duration::from_millis(10);

    /// Checks `nodes`.
    pub fn new(nodes: Vec<PageNode>) -> Result<Page, PageError> {
        if nodes.is_empty() {
            return Err(PageError::Empty);
        }
        if u32::try_from(nodes.len()).is_err() {
            return Err(PageError::TooMany);
        }
        for (node, after) in (0_u32..).zip(nodes.iter().map(|node| node.after)) {
            if let Some(after) = after.filter(|after| *after >= node) {
                return Err(PageError::Order { node, after });
            }
        }
        Ok(Page(nodes))
    }

    /// One large image in pieces: a `document`, then `count` tiles together, which are the caller's requests from
    /// `first_tile` on.
    pub fn tiles(document: u32, first_tile: u32, count: u32) -> Page {
        let tile = |index| PageNode {
            after: Some(0),
            ..PageNode::plain(first_tile.saturating_add(index))
        };
        let tiles = (0..count).map(tile);
        Page(
            [PageNode::plain(document)]
                .into_iter()
                .chain(tiles)
                .collect(),
        )
    }

    /// Two requests: one that the server holds back, and `delay` after it another that does not have to wait for it.
    pub fn hold(held: u32, other: u32, delay: Duration) -> Page {
        let other = PageNode {
            delay,
            ..PageNode::plain(other)
        };
        Page(vec![PageNode::plain(held), other])
    }

    /// Its requests.
    pub fn nodes(&self) -> &[PageNode] {
        &self.0
    }
}

impl PageNode {
    /// A request that waits for nothing.
    pub fn plain(what: u32) -> PageNode {
        PageNode {
            what,
            after: None,
            delay: Duration::ZERO,
            urgency: Urgency::default(),
        }
    }
}

impl TryFrom<Vec<PageNode>> for Page {
    type Error = PageError;

    fn try_from(nodes: Vec<PageNode>) -> Result<Page, PageError> {
        Page::new(nodes)
    }
}

impl From<Page> for Vec<PageNode> {
    fn from(page: Page) -> Vec<PageNode> {
        page.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_requests_wait_only_for_earlier_ones() {
        let after = |after| PageNode {
            after,
            ..PageNode::plain(0)
        };
        assert_eq!(Page::new(vec![]), Err(PageError::Empty));
        assert!(Page::new(vec![after(None), after(Some(0)), after(None)]).is_ok());
        let circle = Page::new(vec![after(Some(1)), after(Some(0))]);
        assert_eq!(circle, Err(PageError::Order { node: 0, after: 1 }));
    }

    #[test]
    fn tile_and_hold_pages_have_the_documented_structure() {
        let tiles = Page::tiles(7, 10, 3);
        let what: Vec<u32> = tiles.nodes().iter().map(|node| node.what).collect();
        assert_eq!(what, [7, 10, 11, 12]);
        assert!(tiles.nodes()[1..].iter().all(|node| node.after == Some(0)));
        let hold = Page::hold(0, 1, Duration::from_millis(5));
        assert!(hold.nodes().iter().all(|node| node.after.is_none()));
        assert_eq!(Page::new(hold.nodes().to_vec()), Ok(hold));
        assert_eq!(Page::tiles(0, 1, 0).nodes().len(), 1);
        assert_eq!((Urgency::new(8), Urgency::default().get()), (None, 3));
    }
}
