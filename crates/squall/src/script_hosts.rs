//! Which requests of a script are sent, by their hosts: for `squall load` and for recipes. For `squall load` also where the
//! requests go: to the host of the URL in the command, or to the recorded one.
//!
//! A browser's recording names every host that a page needed. Without a choice, a replay would put load on other people's
//! servers, or send their requests to the page's server. This module only decides: `load/plan` makes requests of the result
//! and finds addresses, and a recipe sends all of them to the station after the client.

use std::fmt;
use std::iter;

use squall_base::plan::{Script, ScriptStep};
use url::{Position, Url};

use crate::client::HttpUrl;
use crate::outcome::BadInput;

/// How many of the hosts without load are named.
const NAMED_AT_MOST: usize = 8;

/// What the flags of `squall load` say about the hosts of a script.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HostChoice<'a> {
    /// The URL in the command.
    pub(crate) url: Option<&'a str>,
    /// The hosts whose requests are sent. If it is empty: with a URL those of the recording's own host, else all.
    pub(crate) hosts: &'a [String],
    /// Whether each request is sent to its recorded host in spite of the URL.
    pub(crate) keeps_hosts: bool,
}

/// A script in which every request has its final URL.
#[derive(Debug)]
pub(crate) struct RoutedScript {
    pub(crate) script: Script,
    /// Which hosts get load, or which hosts' requests are sent; empty if the script names no host. For `squall load` in
    /// lines, otherwise without the end of a line.
    pub(crate) announcement: String,
}

/// A server that a URL names.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Server {
    scheme: String,
    host: String,
    port: u16,
}

/// The hosts whose requests are sent.
#[derive(Clone, Copy)]
enum Wanted<'a> {
    /// The recording's own.
    Own,
    All,
    /// Those with these names.
    Named(&'a [String]),
}

impl Wanted<'_> {
    /// `named` if there are any, otherwise the recording's own host or all hosts.
    fn of(named: &[String], only_own: bool) -> Wanted<'_> {
        match (named, only_own) {
            ([], true) => Wanted::Own,
            ([], false) => Wanted::All,
            (named, _) => Wanted::Named(named),
        }
    }
}

/// A host that the user named, to which the script has no request.
#[derive(Debug)]
struct UnknownHost {
    name: String,
    /// The hosts to which the script has requests.
    known: String,
}

/// Requests of a script to one server.
struct Share {
    server: Server,
    steps: usize,
    is_kept: bool,
}

impl Server {
    /// `None` for a path.
    fn of(url: &str) -> Option<Server> {
        let url = Url::parse(url).ok()?;
        Some(Server {
            scheme: url.scheme().to_owned(),
            host: url.host_str()?.to_ascii_lowercase(),
            port: url.port_or_known_default()?,
        })
    }

    /// The host without `www.`: one of the two names often only redirects to the other.
    fn site(&self) -> &str {
        self.host.strip_prefix("www.").unwrap_or(&self.host)
    }

    /// Whether `text`, a host with an optional port, names it.
    fn is_named(&self, text: &str) -> bool {
        let with_port = format!("{}:{}", self.host, self.port);
        text.eq_ignore_ascii_case(&self.host) || text.eq_ignore_ascii_case(&with_port)
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Server { scheme, host, port } = self;
        match (scheme.as_str(), port) {
            ("http", 80) | ("https", 443) => write!(f, "{scheme}://{host}"),
            _ => write!(f, "{scheme}://{host}:{port}"),
        }
    }
}

/// Decides where the requests of a script go. Those of hosts that are not wanted are left out, with their steps.
pub(crate) fn route(script: Script, choice: HostChoice<'_>) -> Result<RoutedScript, BadInput> {
    let base = choice.url.map(HttpUrl::parse).transpose()?;
    let base = base.and_then(|url| Server::of(&url.to_text()));
    let servers = servers(&script);
    if base.is_none() && servers.contains(&None) {
        let said = "the script has paths, such as /index.html: give the URL of their server";
        return Err(BadInput::new(said));
    }
    let retargets = base.is_some() && !choice.keeps_hosts;
    let wanted = Wanted::of(choice.hosts, retargets);
    let shares = shares(&script, &servers, base.as_ref(), wanted).map_err(
        |UnknownHost { name, known }| {
            BadInput::new(format!(
                "--hosts {name}: the script has no request to it, only to {known}"
            ))
        },
    )?;
    if shares.is_empty() {
        return Ok(RoutedScript {
            script,
            announcement: String::new(),
        });
    }
    let all_steps = script.steps.len();
    let mut script = without_unwanted(script, &servers, &shares);
    if retargets {
        for request in &mut script.requests {
            request.url = target_of(&request.url);
        }
    }
    let sent = script.steps.len();
    Ok(RoutedScript {
        announcement: announcement(
            base.as_ref().filter(|_| retargets),
            &shares,
            sent,
            all_steps - sent,
        ),
        script,
    })
}

/// Decides which requests of a recipe's script are sent to the station after the client: those of `hosts`. If there are none,
/// those of the recording's own host, or all if it `keeps_hosts`. Requests without a host, only with a path, are sent.
///
/// # Errors
/// If the script has no request to one of `hosts`.
pub(crate) fn route_to_station(
    script: Script,
    hosts: &[String],
    keeps_hosts: bool,
) -> Result<RoutedScript, String> {
    let servers = servers(&script);
    let wanted = Wanted::of(hosts, !keeps_hosts);
    let shares =
        shares(&script, &servers, None, wanted).map_err(|UnknownHost { name, known }| {
            format!("`hosts` has {name:?}, and the script has no request to it, only to {known}")
        })?;
    if shares.is_empty() {
        return Ok(RoutedScript {
            script,
            announcement: String::new(),
        });
    }
    let all_steps = script.steps.len();
    let script = without_unwanted(script, &servers, &shares);
    let sent = script.steps.len();
    let mut announcement = format!(
        "{sent} of {}: those to {}",
        counted(all_steps),
        known_servers(&shares)
    );
    if sent < all_steps {
        announcement += &format!(
            "; left out: {} (`hosts` selects hosts, `keep_hosts = true` keeps all)",
            listed(&shares, false, NAMED_AT_MOST)
        );
    }
    Ok(RoutedScript {
        script,
        announcement,
    })
}

/// The server of each request; `None` for a path.
fn servers(script: &Script) -> Vec<Option<Server>> {
    let requests = script.requests.iter();
    requests.map(|request| Server::of(&request.url)).collect()
}

/// The script without the requests to servers that are not wanted, and without their steps.
fn without_unwanted(script: Script, servers: &[Option<Server>], shares: &[Share]) -> Script {
    let is_kept = |server: &Server| (shares.iter()).any(|it| it.is_kept && it.server == *server);
    let mut places = Vec::with_capacity(servers.len());
    let mut requests = Vec::new();
    for (request, server) in script.requests.into_iter().zip(servers) {
        if server.as_ref().is_none_or(is_kept) {
            places.push(Some(requests.len() as u32));
            requests.push(request);
        } else {
            places.push(None);
        }
    }
    let steps = remapped(&script.steps, &places);
    Script { requests, steps }
}

/// Which hosts get load, and what is left out. `target` is the only server, if the URL in the command decides.
fn announcement(target: Option<&Server>, shares: &[Share], sent: usize, left_out: usize) -> String {
    let mut said = match target {
        Some(target) => format!(
            "the load goes to {target}: {} of the script\n",
            counted(sent)
        ),
        None => format!(
            "the load goes to the recorded hosts: {}\n",
            listed(shares, true, usize::MAX)
        ),
    };
    if left_out > 0 {
        said += &format!(
            "left out: {} to other hosts: {} (--hosts selects hosts, --keep-hosts sends each request to its own)\n",
            counted(left_out),
            listed(shares, false, NAMED_AT_MOST)
        );
    }
    said
}

/// The servers that a script names, in the order in which they are first requested, and which of them are wanted. `base` is
/// the server of requests without a host, if it is known.
fn shares(
    script: &Script,
    servers: &[Option<Server>],
    base: Option<&Server>,
    wanted: Wanted<'_>,
) -> Result<Vec<Share>, UnknownHost> {
    let mut shares: Vec<Share> = Vec::new();
    let steps = script.steps.iter();
    for server in steps.filter_map(|step| servers[step.request as usize].as_ref()) {
        match shares.iter_mut().find(|it| it.server == *server) {
            Some(share) => share.steps += 1,
            None => shares.push(Share {
                server: server.clone(),
                steps: 1,
                is_kept: true,
            }),
        }
    }
    if let Wanted::Named(names) = wanted {
        let is_known = |name: &str| shares.iter().any(|share| share.server.is_named(name));
        if let Some(name) = names.iter().find(|name| !is_known(name)) {
            return Err(UnknownHost {
                name: name.clone(),
                known: known_servers(&shares),
            });
        }
    }
    // The first request is the page's. If it is only a path, it is on the server of the URL.
    let first_step = script.steps.first();
    let first = first_step.and_then(|step| servers[step.request as usize].as_ref());
    let own = match first.or(base) {
        Some(first) => own_servers(first, &shares),
        None => Vec::new(),
    };
    for share in &mut shares {
        share.is_kept = match wanted {
            Wanted::Own => own.contains(&share.server),
            Wanted::All => true,
            Wanted::Named(names) => names.iter().any(|name| share.server.is_named(name)),
        };
    }
    Ok(shares)
}

/// The servers that are kept, or `paths` if there are none.
fn known_servers(shares: &[Share]) -> String {
    if shares.iter().any(|share| share.is_kept) {
        listed(shares, true, NAMED_AT_MOST)
    } else {
        "paths".to_owned()
    }
}

/// The recording's own server: the host of its first request, over http and https. A page that was requested over http is
/// often redirected to https. If one scheme has several ports, they are different servers, and only the first one counts.
fn own_servers(first: &Server, shares: &[Share]) -> Vec<Server> {
    let mut own: Vec<Server> = Vec::new();
    for server in iter::once(first).chain(shares.iter().map(|share| &share.server)) {
        let has_another_port =
            (own.iter()).any(|known| known.scheme == server.scheme && known.port != server.port);
        if server.site() == first.site() && !has_another_port {
            own.push(server.clone());
        }
    }
    own
}

/// The path and query of a URL.
fn target_of(url: &str) -> String {
    match Url::parse(url) {
        Ok(url) => url[Position::BeforePath..Position::AfterQuery].to_owned(),
        Err(_) => url.to_owned(),
    }
}

/// The steps whose requests are kept, with the new places of these requests.
pub(crate) fn remapped(steps: &[ScriptStep], places: &[Option<u32>]) -> Vec<ScriptStep> {
    let remap = |step: &ScriptStep| {
        let request = places[step.request as usize]?;
        Some(ScriptStep { request, ..*step })
    };
    steps.iter().filter_map(remap).collect()
}

/// A number of requests in words.
pub(crate) fn counted(requests: usize) -> String {
    match requests {
        1 => "1 request".to_owned(),
        several => format!("{several} requests"),
    }
}

/// The servers that are kept, or those that are not, with their numbers of requests. Beyond `at_most`, servers are only
/// counted.
fn listed(shares: &[Share], is_kept: bool, at_most: usize) -> String {
    let shares: Vec<&Share> = (shares.iter())
        .filter(|share| share.is_kept == is_kept)
        .collect();
    let (named, rest) = shares.split_at(at_most.min(shares.len()));
    let mut words: Vec<String> = (named.iter())
        .map(|share| format!("{} ({})", share.server, share.steps))
        .collect();
    if !rest.is_empty() {
        let steps: usize = rest.iter().map(|share| share.steps).sum();
        words.push(format!("{} more ({steps})", rest.len()));
    }
    words.join(", ")
}

#[cfg(test)]
mod tests {
    use squall_base::Duration;
    use squall_base::plan::{ScriptBody, ScriptRequest};

    use super::*;

    /// A script that requests these URLs, one after the other.
    fn script(urls: &[&str]) -> Script {
        let requests = urls.iter().map(|url| ScriptRequest {
            method: "GET".to_owned(),
            url: (*url).to_owned(),
            headers: Vec::new(),
            body: ScriptBody::Empty,
        });
        let steps = (0_u32..).zip(urls).map(|(request, _)| ScriptStep {
            at: Duration::from_millis(u64::from(request)),
            request,
        });
        Script {
            requests: requests.collect(),
            steps: steps.collect(),
        }
    }

    /// What is requested, and the announcement.
    fn routed(
        urls: &[&str],
        url: Option<&str>,
        hosts: &[&str],
        keeps_hosts: bool,
    ) -> Result<(Vec<String>, String), String> {
        let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
        let choice = HostChoice {
            url,
            hosts: &hosts,
            keeps_hosts,
        };
        let found = route(script(urls), choice).map_err(|error| error.to_string())?;
        let sent = found.script.steps.iter().map(|step| {
            let request = &found.script.requests[step.request as usize];
            request.url.clone()
        });
        Ok((sent.collect(), found.announcement))
    }

    const SHOP: [&str; 5] = [
        "http://shop.test/",
        "https://www.shop.test/?a=1",
        "https://cdn.test/x.js",
        "https://www.shop.test/b",
        "https://cdn.test/y.js",
    ];

    #[test]
    fn url_of_the_command_gets_the_requests_of_the_recordings_own_host() {
        let (sent, said) =
            routed(&SHOP, Some("https://localhost:8443/ignored"), &[], false).unwrap();
        assert_eq!(sent, ["/", "/?a=1", "/b"]);
        assert_eq!(
            said,
            "the load goes to https://localhost:8443: 3 requests of the script\nleft out: 2 requests to other hosts: \
             https://cdn.test (2) (--hosts selects hosts, --keep-hosts sends each request to its own)\n"
        );
    }

    #[test]
    fn another_port_of_one_scheme_is_another_host_but_another_scheme_is_not() {
        let urls = ["http://127.0.0.1:18080/app", "http://127.0.0.1:18090/third"];
        let (sent, said) = routed(&urls, Some("127.0.0.1:1"), &[], false).unwrap();
        assert_eq!(sent, ["/app"]);
        assert!(
            said.starts_with("the load goes to http://127.0.0.1:1: 1 request of"),
            "{said}"
        );
        let urls = ["http://localhost:18080/", "https://localhost:18443/a"];
        let (sent, said) = routed(&urls, Some("https://localhost:2/"), &[], false).unwrap();
        assert_eq!(sent, ["/", "/a"]);
        assert!(!said.contains("left out"), "{said}");
    }

    #[test]
    fn hosts_can_be_selected_and_kept() {
        let url = Some("http://localhost/");
        let (sent, _) = routed(&SHOP, url, &["CDN.test"], false).unwrap();
        assert_eq!(sent, ["/x.js", "/y.js"]);
        let (sent, _) = routed(&SHOP, url, &["cdn.test:443", "shop.test"], false).unwrap();
        assert_eq!(sent, ["/", "/x.js", "/y.js"]);
        let (sent, said) = routed(&SHOP, url, &["cdn.test"], true).unwrap();
        assert_eq!(sent, [SHOP[2], SHOP[4]]);
        assert!(
            said.contains("recorded hosts: https://cdn.test (2)\n"),
            "{said}"
        );
        let (sent, said) = routed(&SHOP, url, &[], true).unwrap();
        assert_eq!(sent, SHOP);
        assert!(!said.contains("left out"), "{said}");
        let error = routed(&SHOP, url, &["cdn"], false).unwrap_err();
        assert!(
            error.contains("--hosts cdn: ") && error.contains("https://cdn.test (2)"),
            "{error}"
        );
    }

    #[test]
    fn without_a_url_requests_go_to_the_recorded_hosts() {
        let (sent, said) = routed(&SHOP, None, &[], false).unwrap();
        assert_eq!(sent, SHOP);
        assert_eq!(
            said,
            "the load goes to the recorded hosts: http://shop.test (1), https://www.shop.test (2), https://cdn.test (2)\n"
        );
        let (sent, _) = routed(&SHOP, None, &["cdn.test"], false).unwrap();
        assert_eq!(sent, [SHOP[2], SHOP[4]]);
    }

    #[test]
    fn paths_go_to_the_server_of_the_url_without_an_announcement() {
        let (sent, said) = routed(&["/a", "/b?c"], Some("http://server/"), &[], false).unwrap();
        assert_eq!((sent.concat().as_str(), said.as_str()), ("/a/b?c", ""));
        let error = routed(&["/a"], None, &[], false).unwrap_err();
        assert!(error.contains("give the URL of their server"), "{error}");
        // If a recording begins with a path, its own host is that of the URL.
        let urls = ["/a", "http://server/b", "http://other/c"];
        let (sent, _) = routed(&urls, Some("http://server/"), &[], false).unwrap();
        assert_eq!(sent, ["/a", "/b"]);
    }

    #[test]
    fn only_the_first_of_many_hosts_without_load_are_named() {
        let others: Vec<String> = (0..12).map(|n| format!("https://h{n}.test/")).collect();
        let urls: Vec<&str> = iter::once("https://own.test/")
            .chain(others.iter().map(String::as_str))
            .collect();
        let (_, said) = routed(&urls, Some("https://server/"), &[], false).unwrap();
        assert!(said.contains("https://h7.test (1), 4 more (4)"), "{said}");
    }

    /// What a recipe sends of a script, and the announcement.
    fn sent_to_station(
        urls: &[&str],
        hosts: &[&str],
        keeps_hosts: bool,
    ) -> Result<(Vec<String>, String), String> {
        let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
        let found = route_to_station(script(urls), &hosts, keeps_hosts)?;
        let sent = found.script.steps.iter().map(|step| {
            let request = &found.script.requests[step.request as usize];
            request.url.clone()
        });
        Ok((sent.collect(), found.announcement))
    }

    #[test]
    fn recipe_sends_the_requests_of_the_recordings_own_host() {
        let (sent, said) = sent_to_station(&SHOP, &[], false).unwrap();
        assert_eq!(sent, [SHOP[0], SHOP[1], SHOP[3]]);
        assert_eq!(
            said,
            "3 of 5 requests: those to http://shop.test (1), https://www.shop.test (2); left out: https://cdn.test (2) \
             (`hosts` selects hosts, `keep_hosts = true` keeps all)"
        );
        // A script that begins with a path has no host of its own.
        let (sent, said) = sent_to_station(&["/", SHOP[2]], &[], false).unwrap();
        assert_eq!(sent, ["/"]);
        assert!(
            said.starts_with("1 of 2 requests: those to paths; left out: https://cdn.test (1)"),
            "{said}"
        );
    }

    #[test]
    fn recipe_can_select_hosts_and_keep_all() {
        let (sent, said) = sent_to_station(&SHOP, &["cdn.test", "shop.test"], false).unwrap();
        assert_eq!(sent, [SHOP[0], SHOP[2], SHOP[4]]);
        assert!(
            said.contains("left out: https://www.shop.test (2) ("),
            "{said}"
        );
        let (sent, said) = sent_to_station(&SHOP, &[], true).unwrap();
        assert_eq!(sent, SHOP);
        assert!(
            said.starts_with("5 of 5 requests: ") && !said.contains("left out"),
            "{said}"
        );
        let error = sent_to_station(&SHOP, &["cdn"], false).unwrap_err();
        assert!(
            error.contains("`hosts` has \"cdn\"") && error.contains("https://cdn.test (2)"),
            "{error}"
        );
        let (sent, said) = sent_to_station(&["/a", "/b"], &[], false).unwrap();
        assert_eq!((sent.concat().as_str(), said.as_str()), ("/a/b", ""));
    }
}
