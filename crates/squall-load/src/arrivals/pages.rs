//! The load of pages: each user loads one page after another, and a page's requests wait for each other.
//!
//! A request is due its delay after its parent has succeeded, or after the page's start if it has no parent. If the parent
//! failed, it is never sent. A page ends when none of its requests is outstanding. A user begins its next page when the
//! last one has ended and the think time is over. Request n belongs to page n / nodes, and is its node n % nodes.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use squall_base::Time;
use squall_base::plan::{PageLoad, PageNode};
use squall_base::record::Phase;

use super::users::{Numbers, Phases, ThinkTimes, starts};
use super::{Arrival, Purpose, RequestEnd, Share, later, seed_of};

/// A page that was loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageEnd {
    /// Its number, from 0, unique in the whole load, across all shares.
    pub page: u64,
    /// The user that loaded it.
    pub user: u32,
    /// The part of the load that all of its requests belong to.
    pub phase: Phase,
    /// When it was meant to begin.
    pub start: Time,
    /// When its last request ended.
    pub end: Time,
    /// Requests that were sent.
    pub requests: u32,
    /// Requests that failed.
    pub failed: u32,
}

/// A load of pages in progress.
#[derive(Clone, Debug)]
pub(super) struct Pages {
    tree: Tree,
    share: Share,
    /// No page starts at or after this time.
    end: Option<Time>,
    deadline: Option<Time>,
    numbers: Numbers,
    phases: Phases,
    think_times: ThinkTimes,
    /// Requests whose time is known: the time, the request's number, its user.
    waiting: BinaryHeap<Reverse<(Time, u64, u32)>>,
    /// What each user of the share is doing, by its index in the share.
    visits: Vec<Visit>,
    ended: Vec<PageEnd>,
}

/// The page that a user is loading, will load next, or loaded last.
#[derive(Clone, Copy, Debug)]
struct Visit {
    page: PageEnd,
    /// Requests that are not yet due or not yet finished; at 0 the visit is over.
    outstanding: u32,
}

/// A page's nodes and their dependencies.
#[derive(Clone, Debug)]
struct Tree {
    nodes: Vec<PageNode>,
    /// Nodes that have a parent, grouped by parent.
    children: Vec<u32>,
    /// The range in `children` of each node's children.
    ranges: Vec<(u32, u32)>,
    roots: Vec<u32>,
}

impl Pages {
    pub(super) fn new(load: &PageLoad, start: Time, share: Share) -> Pages {
        let seed = seed_of(Purpose::ThinkTimes, load.seed);
        let end = load.duration.map(|duration| later(start, duration));
        let mut pages = Pages {
            tree: Tree::new(load.page.nodes()),
            share,
            end,
            deadline: end.map(|end| later(end, load.drain)),
            numbers: Numbers::new(load.users, share, load.pages),
            phases: Phases::new(load.warmup, start),
            think_times: ThinkTimes::new(load.think, seed, load.users, share),
            waiting: BinaryHeap::new(),
            visits: share.members(load.users).map(Visit::nothing).collect(),
            ended: Vec::new(),
        };
        for (time, user) in starts(load.users, share, start, load.starts_over) {
            pages.begin(user, time);
        }
        pages
    }

    pub(super) fn take_due(&mut self, now: Time) -> Option<Arrival> {
        let Reverse((intended, request, user)) = *self.waiting.peek()?;
        if intended > now {
            return None;
        }
        self.waiting.pop();
        let page = &mut self.visits[self.share.place(user)].page;
        page.requests += 1;
        let node = &self.tree.nodes[self.tree.node_of(request) as usize];
        Some(Arrival {
            request,
            intended,
            phase: page.phase,
            user,
            what: node.what,
            urgency: node.urgency,
        })
    }

    pub(super) fn ended(&mut self, ended: RequestEnd, now: Time) {
        let node = self.tree.node_of(ended.request);
        let visit = &mut self.visits[self.share.place(ended.user)];
        visit.outstanding -= 1;
        if ended.succeeded {
            let children = self.tree.children(node);
            visit.outstanding += children.len() as u32;
            for child in children {
                let due = later(now, self.tree.nodes[*child as usize].delay);
                let request = ended.request - u64::from(node) + u64::from(*child);
                self.waiting.push(Reverse((due, request, ended.user)));
            }
        } else {
            visit.page.failed += 1;
        }
        if visit.outstanding == 0 {
            visit.page.end = now;
            self.ended.push(visit.page);
            let next = later(now, self.think_times.next(ended.user));
            self.begin(ended.user, next);
        }
    }

    pub(super) fn next_due(&self) -> Option<Time> {
        self.waiting.peek().map(|Reverse((time, _, _))| *time)
    }

    pub(super) fn deadline(&self) -> Option<Time> {
        self.deadline
    }

    pub(super) fn take_ended(&mut self) -> Vec<PageEnd> {
        std::mem::take(&mut self.ended)
    }

    pub(super) fn unfinished(&self, now: Time) -> Vec<PageEnd> {
        let has_begun = |visit: &&Visit| visit.outstanding > 0 && visit.page.start <= now;
        let begun = self.visits.iter().filter(has_begun);
        begun
            .map(|visit| PageEnd {
                end: now,
                ..visit.page
            })
            .collect()
    }

    /// Starts a page for `user` at `start`, if there is still one to load then.
    fn begin(&mut self, user: u32, start: Time) {
        if self.end.is_some_and(|end| start >= end) {
            return;
        }
        let Some(number) = self.numbers.take() else {
            return;
        };
        let visit = &mut self.visits[self.share.place(user)];
        visit.outstanding = self.tree.roots.len() as u32;
        visit.page = PageEnd {
            page: number,
            phase: self.phases.of(number, start),
            start,
            ..Visit::nothing(user).page
        };
        let first = number.wrapping_mul(self.tree.nodes.len() as u64);
        for root in &self.tree.roots {
            let due = later(start, self.tree.nodes[*root as usize].delay);
            let request = first + u64::from(*root);
            self.waiting.push(Reverse((due, request, user)));
        }
    }
}

impl Visit {
    fn nothing(user: u32) -> Visit {
        let page = PageEnd {
            page: 0,
            user,
            phase: Phase::Measure,
            start: Time::ZERO,
            end: Time::ZERO,
            requests: 0,
            failed: 0,
        };
        Visit {
            page,
            outstanding: 0,
        }
    }
}

impl Tree {
    fn new(nodes: &[PageNode]) -> Tree {
        let numbered = || (0_u32..).zip(nodes);
        let mut edges: Vec<(u32, u32)> = numbered()
            .filter_map(|(index, node)| Some((node.after?, index)))
            .collect();
        edges.sort_unstable();
        let begin = |node| edges.partition_point(|(after, _)| *after < node) as u32;
        Tree {
            roots: numbered()
                .filter(|(_, node)| node.after.is_none())
                .map(|(index, _)| index)
                .collect(),
            ranges: numbered()
                .map(|(index, _)| (begin(index), begin(index + 1)))
                .collect(),
            children: edges.iter().map(|(_, child)| *child).collect(),
            nodes: nodes.to_vec(),
        }
    }

    fn node_of(&self, request: u64) -> u32 {
        (request % self.nodes.len() as u64) as u32
    }

    fn children(&self, node: u32) -> &[u32] {
        let (begin, end) = self.ranges[node as usize];
        &self.children[begin as usize..end as usize]
    }
}
