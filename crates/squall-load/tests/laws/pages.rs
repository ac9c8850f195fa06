//! Pages: which request waits for which, and what a page's end reports.

use std::collections::BTreeMap;

use proptest::prelude::*;
use squall_base::plan::{Page, PageLoad, PageNode, ThinkTime, Urgency, Warmup, Workload};
use squall_base::record::Phase;
use squall_base::{Duration, Time};
use squall_load::{Arrivals, PageEnd, RequestEnd, Share};

use super::drive::{Caller, Course, FinishedRequest, START, callers, drive_all, drive_shares};

fn load(page: Page) -> PageLoad {
    PageLoad {
        page,
        users: 3,
        think: ThinkTime::None,
        starts_over: Duration::ZERO,
        pages: Some(10),
        duration: None,
        warmup: Warmup::First(2),
        drain: Duration::ZERO,
        seed: 5,
    }
}

fn pages() -> impl Strategy<Value = Page> {
    let node = (
        any::<Option<prop::sample::Index>>(),
        0_u64..2_000,
        0_u8..8,
        0_u32..4,
    );
    proptest::collection::vec(node, 1..12).prop_map(|nodes| {
        let mut page = Vec::new();
        for (place, (after, delay, urgency, what)) in nodes.into_iter().enumerate() {
            page.push(PageNode {
                what,
                after: after
                    .filter(|_| place > 0)
                    .map(|after| after.index(place) as u32),
                delay: Duration::from_nanos(delay),
                urgency: Urgency::new(urgency).unwrap(),
            });
        }
        Page::new(page).unwrap()
    })
}

fn loads() -> impl Strategy<Value = PageLoad> {
    (pages(), 1_u32..6, 0_u64..3_000, 0_u64..5_000, 0_u64..30).prop_map(
        |(page, users, think, starts_over, count)| PageLoad {
            users,
            think: ThinkTime::Constant(Duration::from_nanos(think)),
            starts_over: Duration::from_nanos(starts_over),
            pages: Some(count),
            ..load(page)
        },
    )
}

/// The requests of each page, by node.
fn by_page(course: &Course, page: &Page) -> BTreeMap<u64, BTreeMap<usize, FinishedRequest>> {
    let nodes = page.nodes().len() as u64;
    let mut pages: BTreeMap<u64, BTreeMap<usize, FinishedRequest>> = BTreeMap::new();
    for done in &course.done {
        let (page, node) = (done.arrival.request / nodes, done.arrival.request % nodes);
        let twice = pages.entry(page).or_default().insert(node as usize, *done);
        assert_eq!(twice, None);
    }
    pages
}

proptest! {
    /// Each node is requested once, its delay after its parent succeeded, and never if the parent failed.
    #[test]
    fn a_node_is_requested_its_delay_after_its_parent_succeeds(load in loads(), caller in callers()) {
        let course = drive_all(&Workload::Pages(load.clone()), caller);
        let by_page = by_page(&course, &load.page);
        let ends: BTreeMap<u64, PageEnd> = course.pages.iter().map(|end| (end.page, *end)).collect();
        prop_assert_eq!(ends.len(), course.pages.len());
        prop_assert!(ends.keys().copied().eq(0..load.pages.unwrap()));
        for (number, end) in &ends {
            let asked = &by_page[number];
            for (index, node) in load.page.nodes().iter().enumerate() {
                let from = match node.after.map(|after| asked.get(&(after as usize))) {
                    None => Some(end.start),
                    Some(parent) => parent.filter(|done| done.succeeded).map(|done| done.ended),
                };
                let arrival = asked.get(&index).map(|done| done.arrival);
                prop_assert_eq!(arrival.map(|a| a.intended), from.map(|time| time + node.delay));
                if let Some(arrival) = arrival {
                    prop_assert_eq!((arrival.what, arrival.urgency), (node.what, node.urgency));
                    prop_assert_eq!((arrival.user, arrival.phase), (end.user, end.phase));
                }
            }
            prop_assert_eq!(end.requests as usize, asked.len());
            prop_assert_eq!(end.failed as usize, asked.values().filter(|done| !done.succeeded).count());
            prop_assert_eq!(Some(end.end), asked.values().map(|done| done.ended).max());
            prop_assert_eq!(end.phase == Phase::Warmup, *number < 2);
        }
    }

    /// A user loads one page at a time, and begins the next one after its think time.
    #[test]
    fn users_load_one_page_after_the_other(load in loads(), caller in callers()) {
        let course = drive_all(&Workload::Pages(load.clone()), caller);
        let ThinkTime::Constant(think) = load.think else { panic!("it is constant here") };
        for user in 0..load.users {
            let mut mine: Vec<PageEnd> = course.pages.iter().filter(|end| end.user == user).copied().collect();
            mine.sort_by_key(|end| end.start);
            let spread = load.starts_over.as_nanos() * u64::from(user) / u64::from(load.users);
            if let Some(first) = mine.first() {
                prop_assert_eq!(first.start, START + Duration::from_nanos(spread));
            }
            for pair in mine.windows(2) {
                prop_assert_eq!(pair[1].start, pair[0].end + think);
            }
        }
    }

    #[test]
    fn shares_partition_the_pages(load in loads(), of in 1_u32..5) {
        let workload = Workload::Pages(load);
        let whole = drive_all(&workload, Caller::PROMPT).by_number();
        prop_assert!(drive_shares(&workload, of).into_keys().eq(whole.into_keys()));
    }
}

#[test]
fn tiles_are_requested_when_the_document_arrives() {
    let mut page = load(Page::tiles(0, 1, 180));
    page.users = 1;
    page.pages = Some(1);
    let mut load = Arrivals::new(&Workload::Pages(page), START, Share::WHOLE);
    let document = load.take_due(START).unwrap();
    assert_eq!(
        (load.take_due(START), load.next_change(START)),
        (None, None)
    );
    let answered = START + Duration::from_millis(20);
    let ended = |request, succeeded| RequestEnd {
        request,
        user: 0,
        succeeded,
    };
    load.ended(ended(document.request, true), answered);
    let tiles: Vec<_> = std::iter::from_fn(|| load.take_due(answered)).collect();
    assert_eq!(tiles.len(), 180);
    assert!(tiles.iter().all(|tile| tile.intended == answered));
    let now = answered + Duration::from_millis(3);
    let unfinished = load.unfinished_pages(now);
    assert_eq!((unfinished.len(), unfinished[0].requests), (1, 181));
    for tile in &tiles {
        load.ended(ended(tile.request, tile.what != 9), now);
    }
    assert!(load.is_over(now) && load.unfinished_pages(now).is_empty());
    let end = PageEnd {
        page: 0,
        user: 0,
        phase: Phase::Warmup,
        start: START,
        end: now,
        requests: 181,
        failed: 1,
    };
    assert_eq!(load.take_ended_pages(), [end]);
    assert!(load.take_ended_pages().is_empty());
}

#[test]
fn a_held_request_does_not_hold_up_the_other() {
    let delay = Duration::from_millis(100);
    let mut page = load(Page::hold(0, 1, delay));
    (page.users, page.pages) = (1, Some(1));
    let mut load = Arrivals::new(&Workload::Pages(page), START, Share::WHOLE);
    assert_eq!(load.take_due(START).map(|a| a.what), Some(0));
    assert_eq!(load.next_change(START), Some(START + delay));
    let other = load.take_due(START + delay).unwrap();
    assert_eq!((other.what, other.intended), (1, START + delay));
}

#[test]
fn a_page_whose_document_failed_requests_no_tiles() {
    let mut page = load(Page::tiles(0, 1, 5));
    (page.users, page.pages) = (1, Some(2));
    let caller = Caller {
        fails_one_in: 1,
        ..Caller::PROMPT
    };
    let course = drive_all(&Workload::Pages(page), caller);
    assert_eq!(course.done.len(), 2);
    assert!(
        course
            .pages
            .iter()
            .all(|end| (end.requests, end.failed) == (1, 1))
    );
}

#[test]
fn a_page_that_has_begun_may_end_after_the_duration() {
    let second = Duration::from_secs(1);
    let mut page = load(Page::tiles(0, 1, 1));
    page.users = 1;
    (page.pages, page.duration, page.drain) = (None, Some(second), second);
    let mut load = Arrivals::new(&Workload::Pages(page), START, Share::WHOLE);
    let end = START + second;
    let ended = |request| RequestEnd {
        request,
        user: 0,
        succeeded: true,
    };
    assert!(load.take_due(START).is_some());
    load.ended(ended(0), end);
    assert_eq!(load.take_due(end).map(|a| a.request), Some(1));
    assert!(!load.is_over(end) && load.is_over(end + second));
    load.ended(ended(1), end);
    assert!(load.is_over(end), "no page begins any more");
}

#[test]
fn pages_that_have_not_begun_are_not_unfinished() {
    let spread = PageLoad {
        starts_over: Duration::from_secs(3),
        ..load(Page::tiles(0, 1, 1))
    };
    let load = Arrivals::new(&Workload::Pages(spread), START, Share::WHOLE);
    assert!(load.unfinished_pages(Time::ZERO).is_empty());
    assert_eq!(load.unfinished_pages(START).len(), 1);
}
