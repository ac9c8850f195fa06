//! Settings of our own stations of a trial: client, proxies and server.
//!
//! `stations` runs them; `place` decides where they are.

use std::sync::{Arc, Mutex};

use anyhow::{Context, Result};
use squall_base::plan::{Hop, Protocol, SideSettings, Trial};
use squall_http::{InboxOptions, Response, Scheme, h3, tls};
use squall_linux::tls_session;
use squall_load::Share;
use squall_stations::LogSinks;
use squall_stations::client::{ClientSettings, Route, Spin, Target, Upload};
use squall_stations::proxy::{Balance, ProxySettings, Timeouts};
use squall_stations::server::{Listener, ListenerProtocol, ServerSettings, Site};

use super::assignment::Assignment;
use super::messages::{Messages, messages};
use super::place::{SERVER_NAME, address_of};
use crate::client::spin;
use crate::run::programs::parsed_page;

/// A trial and the certificate of its stations.
pub(super) struct EmbeddedStations<'t> {
    pub(super) trial: &'t Trial,
    pub(super) assignment: &'t Assignment,
    pub(super) identity: Option<tls::Identity>,
}

impl EmbeddedStations<'_> {
    /// The client of the first hop, and the sources of its request bodies.
    pub(super) fn client(&self) -> Result<(ClientSettings, Vec<Option<Arc<Upload>>>)> {
        let Assignment {
            trial,
            requests,
            files,
            ..
        } = self.assignment;
        let hop = trial.variant.first_hop();
        let scheme = if hop.protocol.is_secure() {
            Scheme::Https
        } else {
            Scheme::Http
        };
        let port = address_of(&trial.variant, 1).port();
        let authority = format!("{SERVER_NAME}:{port}");
        let Messages { requests, uploads } = messages(requests, scheme, &authority, files)?;
        let workload = trial.load.workload(trial.seed);
        let settings = ClientSettings {
            targets: vec![self.target(0)?],
            protocol: hop.protocol,
            is_strict: true,
            asks_for_http2: false,
            side: hop.client.clone(),
            connections: hop.connections,
            pool_per_user: workload.has_own_connections(),
            pool: hop.pool,
            seed: trial.seed,
            workload,
            share: Share::WHOLE,
            requests,
            traces: trial.variant.hops.len() > 1,
            spin: self.spin(),
            observed: InboxOptions::default(),
            sample_every: trial.sample_every,
            stall_timeout: None,
            request_timeout: None,
        };
        Ok((settings, uploads))
    }

    /// How early the client stops sleeping before a request is due. It spins only if there are enough
    /// processors, of which the links' threads need some to spin, too.
    pub(super) fn spin(&self) -> Spin {
        let spinning = 1 + self.trial.variant.links() as u32;
        spin::grant(Spin::always(self.trial.load.spin), spinning).spin
    }

    /// The server of the last hop.
    pub(super) fn server(&self, log: LogSinks) -> Result<ServerSettings> {
        let trial = self.trial;
        let content_type = (
            "content-type".to_owned(),
            "application/octet-stream".to_owned(),
        );
        let body = body(trial.response.body.get());
        let response = Response::new(trial.response.status, &[content_type], body)
            .context("cannot make the response")?;
        let mut site = Site::fixed(Arc::new(response));
        if let Some(targets) = parsed_page(&trial.variant, &self.assignment.requests) {
            site = site.with_page(&targets, trial.response.body)?;
        }
        Ok(ServerSettings {
            listeners: vec![self.listener(trial.variant.stations.len() - 1)?],
            side: trial.variant.last_hop().server.clone(),
            site,
            log,
            access: None,
            sample_every: trial.sample_every,
            idle_timeout: None,
            seed: trial.seed,
            is_realtime: true,
        })
    }

    /// The proxy at that place: the hop before it is its front, the hop after it its back.
    pub(super) fn proxy(
        &self,
        place: usize,
        front_log: LogSinks,
        back_log: LogSinks,
    ) -> Result<ProxySettings> {
        let [front, back] = [place - 1, place].map(|hop| &self.trial.variant.hops[hop]);
        Ok(ProxySettings {
            listeners: vec![self.listener(place)?],
            upstreams: vec![self.target(place)?],
            protocol: back.protocol,
            front: front.server.clone(),
            back: back.client.clone(),
            connections: back.connections,
            pool: back.pool,
            balance: Balance::default(),
            timeouts: Timeouts::default(),
            min_upload_rate: None,
            client_share: None,
            delay: self.trial.variant.stations[place].asked.proxy_delay,
            front_log,
            back_log,
            access: None,
            sample_every: self.trial.sample_every,
            seed: self.trial.seed,
            is_realtime: true,
        })
    }

    /// The address and protocol that the station at that place listens with.
    fn listener(&self, station: usize) -> Result<Listener> {
        let Hop {
            protocol, server, ..
        } = &self.trial.variant.hops[station - 1];
        let protocol = match (protocol.is_secure(), &self.identity) {
            (true, Some(identity)) if *protocol == Protocol::H3 => {
                ListenerProtocol::Quic(identity.clone())
            }
            (true, Some(identity)) => ListenerProtocol::Secure(
                tls::ServerContext::new(&server.tls, &[protocol.alpn()], identity)
                    .context("cannot set up a server's TLS")?,
            ),
            _ => ListenerProtocol::Plain(protocol.version()),
        };
        Ok(Listener {
            address: address_of(&self.trial.variant, station).into(),
            protocol,
        })
    }

    /// The next station, as the target of the one at that place. Only the stations' certificate is trusted.
    fn target(&self, station: usize) -> Result<Target> {
        let Hop {
            protocol, client, ..
        } = &self.trial.variant.hops[station];
        let mut target = Target {
            address: address_of(&self.trial.variant, station + 1).into(),
            server_name: SERVER_NAME.to_owned(),
            security: None,
            quic: None,
            route: Route::Direct,
        };
        if let Some(identity) = self.identity.as_ref().filter(|_| protocol.is_secure()) {
            self.secure(&mut target, *protocol, client, identity)?;
        }
        Ok(target)
    }

    fn secure(
        &self,
        target: &mut Target,
        protocol: Protocol,
        side: &SideSettings,
        identity: &tls::Identity,
    ) -> Result<()> {
        let chain = identity
            .chain_pem()
            .context("cannot read the stations' certificate")?;
        let trust = tls::Trust::Pem(chain);
        if protocol == Protocol::H3 {
            let context = h3::ClientContext::new(&side.http3, &side.tls, &trust, self.trial.seed)
                .context("cannot set up a client's QUIC")?;
            target.quic = Some(Arc::new(Mutex::new(context)));
        } else {
            let context = tls::ClientContext::new(&side.tls, &[protocol.alpn()], &trust)
                .context("cannot set up a client's TLS")?;
            target.security = Some(context.resuming_with(tls_session::offer));
        }
        Ok(())
    }
}

/// A body of `len` printable bytes, readable in a capture.
fn body(len: u64) -> Vec<u8> {
    (b'a'..=b'z').cycle().take(len as usize).collect()
}
