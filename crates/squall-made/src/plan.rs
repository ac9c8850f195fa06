//! What is to be done: paths between our own stations, conditions, a load, and the trials and plans made of them.
//!
//! squall-recipe makes real ones from the text of a recipe.

use squall_base::plan::{
    Condition, Connections, Hop, Implementation, Load, Measure, Plan, PoolOrder, PoolSettings,
    Protocol, RequestBody, RequestTemplate, ResponseTemplate, SAMPLE_EVERY, SideSettings, Station,
    StationOptions, Trial, Variant,
};
use squall_base::{Bytes, Duration, Probability, Rate};

/// A hop across a link, over one connection, with the default settings.
pub fn hop(protocol: Protocol) -> Hop {
    Hop {
        protocol,
        across_link: true,
        connections: Connections::Fixed(1),
        pool: PoolSettings {
            order: PoolOrder::Turns,
            streams_at_most: None,
            warm: 0,
        },
        client: SideSettings::default(),
        server: SideSettings::default(),
    }
}

/// One of our own stations.
pub fn station(name: &str) -> Station {
    Station {
        name: name.to_owned(),
        runs: Implementation::Embedded,
        asked: StationOptions::default(),
    }
}

/// Our own client and server, with one [`hop`] between them.
pub fn variant(name: &str, protocol: Protocol) -> Variant {
    Variant {
        name: name.to_owned(),
        path: format!("client ~{protocol}~> server"),
        stations: vec![station("client"), station("server")],
        hops: vec![hop(protocol)],
    }
}

/// A link with this one-way delay in milliseconds and this share of lost packets, both in each direction.
///
/// # Panics
/// If `loss` is not between 0 and 1.
pub fn condition(delay_ms: u64, loss: f64) -> Condition {
    let loss = Probability::new(loss).expect("a share is from 0 to 1");
    Condition {
        delay: Duration::from_millis(delay_ms).into(),
        loss: loss.into(),
        link: String::new().into(),
        schedule: String::new(),
        next_links: Vec::new(),
    }
}

/// Evenly spaced requests, this many per second.
///
/// # Panics
/// If the rate is 0, or if the rate and the times cannot be computed exactly.
pub fn load(per_s: u64, warmup: Duration, duration: Duration, drain: Duration) -> Load {
    let rate = Rate::new(per_s, Duration::from_secs(1)).expect("the rate is above 0");
    Load::constant(rate, warmup, duration, drain).expect("the times are exact")
}

/// `GET /`, without a body.
pub fn get() -> RequestTemplate {
    RequestTemplate {
        method: "GET".to_owned(),
        target: "/".to_owned(),
        headers: Vec::new(),
        body: RequestBody::default(),
    }
}

/// The first trial of a run: 100 requests in a second without a warm-up, each answered with 1,024 bytes.
pub fn trial(variant: Variant, condition: Condition) -> Trial {
    let second = Duration::from_secs(1);
    Trial {
        index: 0,
        repetition: 0,
        seed: 1,
        variant,
        condition,
        load: load(100, Duration::ZERO, second, second),
        response: ResponseTemplate {
            status: 200,
            body: Bytes::new(1_024),
        },
        sample_every: SAMPLE_EVERY,
        fast: Vec::new(),
    }
}

/// A plan without trials, with one request for its loads.
pub fn plan() -> Plan {
    Plan {
        recipe: "test".to_owned(),
        question: "Which?".to_owned(),
        measures: vec![Measure::USUAL],
        primary: None,
        profile: "quick".to_owned(),
        variants: Vec::new(),
        conditions: Vec::new(),
        requests: vec![get()],
        files: Vec::new(),
        trials: Vec::new(),
        fixes: None,
    }
}
