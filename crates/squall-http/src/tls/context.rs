//! What the connections of one side share: BoringSSL's context, and a client's sessions for resumption.
//!
//! A context is created once and begins any number of connections, from any thread. QUIC has separate contexts, which
//! use only [`Identity::install`] and [`Trust::install`] from here.

use std::fmt;
use std::net::IpAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use boring::error::ErrorStack;
use boring::ex_data::Index;
use boring::ssl::{
    AlpnError, Ssl, SslContext, SslContextBuilder, SslMethod, SslOptions, SslRef,
    SslSessionCacheMode, SslSessionRef, SslSignatureAlgorithm, SslVerifyMode, SslVersion,
};
use boring::x509::X509;
use boring::x509::verify::X509VerifyFlags;
use squall_base::plan::{RecordSizes, TlsGroup, TlsSettings, TlsVersion};
use squall_base::text::bytes_without_bom;

use super::early_data::early_data_bytes;
use super::error::SetupError;
use super::identity::Identity;
use super::sizes;
use super::tickets::Tickets;

/// The signatures that a client accepts from servers: BoringSSL's defaults, plus those of P-521 and Ed25519 keys, which
/// other clients accept, too.
const ACCEPTED_SIGNATURES: [SslSignatureAlgorithm; 11] = [
    SslSignatureAlgorithm::ECDSA_SECP256R1_SHA256,
    SslSignatureAlgorithm::RSA_PSS_RSAE_SHA256,
    SslSignatureAlgorithm::RSA_PKCS1_SHA256,
    SslSignatureAlgorithm::ECDSA_SECP384R1_SHA384,
    SslSignatureAlgorithm::RSA_PSS_RSAE_SHA384,
    SslSignatureAlgorithm::RSA_PKCS1_SHA384,
    SslSignatureAlgorithm::ED25519,
    SslSignatureAlgorithm::ECDSA_SECP521R1_SHA512,
    SslSignatureAlgorithm::RSA_PSS_RSAE_SHA512,
    SslSignatureAlgorithm::RSA_PKCS1_SHA512,
    SslSignatureAlgorithm::RSA_PKCS1_SHA1,
];

/// The certificates that a client trusts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trust {
    /// Any certificate, whatever its name and validity: nothing is checked.
    Anyone,
    /// Those that the system trusts: `/etc/ssl/cert.pem` and `/etc/ssl/certs`, or the paths in SSL_CERT_FILE and
    /// SSL_CERT_DIR. BoringSSL reads them itself.
    System,
    /// These certificates, as PEM.
    Pem(Vec<u8>),
}

impl Trust {
    /// Makes a context check certificates in this way. Names are checked per connection.
    ///
    /// # Errors
    /// [`SetupError::NoRoots`], or an error from BoringSSL.
    pub fn install(&self, builder: &mut SslContextBuilder) -> Result<(), SetupError> {
        builder.set_verify_algorithm_prefs(&ACCEPTED_SIGNATURES)?;
        match self {
            Trust::Anyone => {
                builder.set_verify(SslVerifyMode::NONE);
                return Ok(());
            }
            Trust::System => builder.set_default_verify_paths()?,
            Trust::Pem(pem) => {
                let roots = X509::stack_from_pem(bytes_without_bom(pem))
                    .map_err(|_| SetupError::NoRoots)?;
                if roots.is_empty() {
                    return Err(SetupError::NoRoots);
                }
                let store = builder.cert_store_mut();
                for root in roots {
                    store.add_cert(root)?;
                }
                // A server's own certificate may be among them, and is sufficient.
                store.try_set_flags(X509VerifyFlags::PARTIAL_CHAIN)?;
            }
        }
        builder.set_verify(SslVerifyMode::PEER);
        Ok(())
    }
}

/// Makes a connection that has not begun offer a session from the same context. This is `SslRef::set_session`, which boring
/// declares unsafe because the caller must ensure that both belong to the same context. They do: a [`ClientContext`] offers
/// only sessions that its own connections received.
pub type OfferSession = fn(&mut SslRef, &SslSessionRef) -> Result<(), ErrorStack>;

/// What all connections of a client share. Clones are the same context.
#[derive(Clone)]
pub struct ClientContext {
    context: SslContext,
    records: RecordSizes,
    tickets: Arc<Tickets>,
    offer: Option<OfferSession>,
    is_resuming: bool,
}

/// What all connections of a server share. Clones are the same context.
#[derive(Clone)]
pub struct ServerContext {
    context: SslContext,
    records: RecordSizes,
}

impl ClientContext {
    /// A client that offers the application protocols `alpn`, the preferred one first.
    ///
    /// # Errors
    /// [`SetupError`] names the impossible setting.
    pub fn new(
        settings: &TlsSettings,
        alpn: &[&str],
        trust: &Trust,
    ) -> Result<ClientContext, SetupError> {
        ClientContext::with_identity(settings, alpn, trust, None)
    }

    /// A client that also presents `identity` to servers that request it (RFC 8446, section 4.3.2).
    ///
    /// # Errors
    /// As for [`ClientContext::new`].
    pub fn with_identity(
        settings: &TlsSettings,
        alpn: &[&str],
        trust: &Trust,
        identity: Option<&Identity>,
    ) -> Result<ClientContext, SetupError> {
        let mut builder = builder(settings)?;
        trust.install(&mut builder)?;
        if let Some(identity) = identity {
            identity.install(&mut builder)?;
        }
        if !alpn.is_empty() {
            builder.set_alpn_protos(&alpn_list(alpn)?)?;
        }
        let tickets = Arc::new(Tickets::default());
        if settings.resumption {
            let kept = Arc::clone(&tickets);
            builder.set_session_cache_mode(
                SslSessionCacheMode::CLIENT | SslSessionCacheMode::NO_INTERNAL,
            );
            builder.set_new_session_callback(move |ssl, session| {
                catch_panic((), || {
                    if let Some(callback_state) = callback_state(ssl) {
                        kept.put(&callback_state.server_name, session);
                    }
                });
            });
        }
        Ok(ClientContext {
            context: builder.build(),
            records: settings.records,
            tickets,
            offer: None,
            is_resuming: settings.resumption,
        })
    }

    /// Resumes sessions with `offer`, if the settings enable resumption. Without it sessions are collected but not
    /// offered.
    #[must_use]
    pub fn resuming_with(self, offer: OfferSession) -> ClientContext {
        ClientContext {
            offer: Some(offer),
            ..self
        }
    }

    /// The bytes of early data (0-RTT) that the newest ticket of a server allows, 0 if it offers none; `None` if no session
    /// of this server is kept. Early data is never sent.
    pub fn early_data_bytes(&self, server_name: &str) -> Option<u32> {
        let session = self.tickets.newest(server_name)?.to_der().ok()?;
        Some(early_data_bytes(&session))
    }

    /// The state of a new connection, and the sizes of its records.
    pub(super) fn begin(
        &self,
        server_name: Option<&str>,
    ) -> Result<(Ssl, RecordSizes), SetupError> {
        let mut ssl = begin(&self.context, server_name.unwrap_or_default())?;
        if let Some(name) = server_name {
            set_server_name(&mut ssl, name)?;
        }
        if let Some(offer) = self.offer.filter(|_| self.is_resuming)
            && let Some(session) = self.tickets.take(server_name.unwrap_or_default())
        {
            offer(&mut ssl, &session)?;
        }
        Ok((ssl, self.records))
    }
}

impl ServerContext {
    /// A server that supports the application protocols `alpn` and chooses the first one that the client offers. A
    /// client that offers none of them is refused (RFC 7301, section 3.2); a client without ALPN is accepted.
    ///
    /// # Errors
    /// [`SetupError`] names the impossible setting.
    pub fn new(
        settings: &TlsSettings,
        alpn: &[&str],
        identity: &Identity,
    ) -> Result<ServerContext, SetupError> {
        let mut builder = builder(settings)?;
        identity.install(&mut builder)?;
        // Sessions exist only in tickets, so memory does not grow with the number of clients.
        builder.set_session_cache_mode(SslSessionCacheMode::OFF);
        builder.set_session_id_context(b"squall")?;
        if !alpn.is_empty() {
            let preferred = alpn_list(alpn)?;
            builder.set_alpn_select_callback(move |_, offered| {
                catch_panic(None, || choose(&preferred, offered)).ok_or(AlpnError::ALERT_FATAL)
            });
        }
        Ok(ServerContext {
            context: builder.build(),
            records: settings.records,
        })
    }

    /// The state of a new connection, and the sizes of its records.
    pub(super) fn begin(&self) -> Result<(Ssl, RecordSizes), SetupError> {
        Ok((begin(&self.context, "")?, self.records))
    }
}

impl fmt::Debug for ClientContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientContext").finish_non_exhaustive()
    }
}

impl fmt::Debug for ServerContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerContext").finish_non_exhaustive()
    }
}

/// Data of a connection that BoringSSL's callbacks need, and what they store for it.
pub(super) struct CallbackState {
    /// The server that the connection's sessions belong to; empty if the server has no name.
    server_name: String,
    key_log: Mutex<Vec<String>>,
}

static CALLBACK_STATE: LazyLock<Result<Index<Ssl, CallbackState>, ErrorStack>> =
    LazyLock::new(Ssl::new_ex_index::<CallbackState>);

fn callback_state(ssl: &SslRef) -> Option<&CallbackState> {
    ssl.ex_data(*CALLBACK_STATE.as_ref().ok()?)
}

/// The lines of the key log since the last call.
pub(super) fn take_key_log(ssl: &SslRef) -> Vec<String> {
    let Some(callback_state) = callback_state(ssl) else {
        return Vec::new();
    };
    let mut lines = callback_state
        .key_log
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    std::mem::take(&mut *lines)
}

fn store_key_line(ssl: &SslRef, line: &str) {
    catch_panic((), || {
        if let Some(callback_state) = callback_state(ssl) {
            let mut lines = callback_state
                .key_log
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            lines.push(line.to_owned());
        }
    });
}

/// Runs the work of a callback; returns `otherwise` if it panics. A panic must not unwind through BoringSSL, because it
/// would abort the process.
fn catch_panic<R>(otherwise: R, work: impl FnOnce() -> R) -> R {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or(otherwise)
}

fn begin(context: &SslContext, server_name: &str) -> Result<Ssl, ErrorStack> {
    let mut ssl = Ssl::new(context)?;
    let callback_state = CallbackState {
        server_name: server_name.to_owned(),
        key_log: Mutex::default(),
    };
    ssl.set_ex_data(
        CALLBACK_STATE.as_ref().copied().map_err(Clone::clone)?,
        callback_state,
    );
    Ok(ssl)
}

/// Sets the name that the certificate must have and that is sent to the server. An address is not sent (RFC 6066,
/// section 3).
pub(crate) fn set_server_name(ssl: &mut SslRef, name: &str) -> Result<(), SetupError> {
    let named = match name.parse::<IpAddr>() {
        Ok(address) => ssl.verify_param_mut().set_ip(address),
        Err(_) => ssl
            .set_hostname(name)
            .and_then(|()| ssl.verify_param_mut().set_host(name)),
    };
    named.map_err(|_| SetupError::ServerName(name.to_owned()))
}

/// The settings that both sides share.
fn builder(settings: &TlsSettings) -> Result<SslContextBuilder, SetupError> {
    let (min, max) = (settings.min_version, settings.max_version);
    if min > max {
        return Err(SetupError::Versions { min, max });
    }
    sizes::check(settings.records)?;
    let mut builder = SslContextBuilder::new(SslMethod::tls())?;
    builder.set_min_proto_version(Some(version(min)))?;
    builder.set_max_proto_version(Some(version(max)))?;
    if let Some(list) = &settings.ciphers {
        set_ciphers(&mut builder, list)?;
    }
    set_groups(&mut builder, settings)?;
    if !settings.resumption {
        builder.set_session_cache_mode(SslSessionCacheMode::OFF);
        builder.set_options(SslOptions::NO_TICKET);
    }
    builder.set_keylog_callback(store_key_line);
    Ok(builder)
}

/// Sets the groups of the key exchange. BoringSSL's default lacks P-521, without which a client of TLS 1.2 accepts no
/// certificate with such a key (RFC 8422, section 5.1.1).
pub(crate) fn set_groups(
    builder: &mut SslContextBuilder,
    settings: &TlsSettings,
) -> Result<(), ErrorStack> {
    let groups = settings.groups.as_deref().unwrap_or(&TlsGroup::ALL);
    let names: Vec<&str> = groups.iter().map(|group| group.name()).collect();
    builder.set_curves_list(&names.join(":"))
}

fn version(version: TlsVersion) -> SslVersion {
    match version {
        TlsVersion::Tls12 => SslVersion::TLS1_2,
        TlsVersion::Tls13 => SslVersion::TLS1_3,
    }
}

/// Sets the list, or reports which of its names is wrong, which BoringSSL does not.
fn set_ciphers(builder: &mut SslContextBuilder, list: &str) -> Result<(), SetupError> {
    if builder.set_strict_cipher_list(list).is_ok() {
        return Ok(());
    }
    // The grammar of SSL_CTX_set_cipher_list in BoringSSL's ssl.h: names separated by `:`, groups in `[a|b]`, operators
    // as prefixes.
    let names = list
        .split([':', '|', '[', ']', ' ', ',', ';'])
        .map(|name| name.trim_start_matches(['!', '-', '+']))
        .filter(|name| !name.is_empty());
    for name in names {
        let mut probe = SslContextBuilder::new(SslMethod::tls())?;
        if probe.set_strict_cipher_list(name).is_err() {
            return Err(SetupError::Cipher(name.to_owned()));
        }
    }
    Err(SetupError::NoCiphers(list.to_owned()))
}

/// The protocols in ALPN's encoding, each preceded by its length (RFC 7301, section 3.1).
fn alpn_list(names: &[&str]) -> Result<Vec<u8>, SetupError> {
    let mut list = Vec::new();
    for name in names {
        match u8::try_from(name.len()) {
            Ok(len @ 1..) => list.push(len),
            _ => return Err(SetupError::Protocol((*name).to_owned())),
        }
        list.extend_from_slice(name.as_bytes());
    }
    Ok(list)
}

/// The first of `preferred` that is in `offered`, as a slice of `offered`.
fn choose<'a>(preferred: &[u8], offered: &'a [u8]) -> Option<&'a [u8]> {
    protocols(preferred).find_map(|wanted| protocols(offered).find(|name| *name == wanted))
}

fn protocols(mut list: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (len, rest) = list.split_first()?;
        let (name, rest) = rest.split_at_checked(usize::from(*len))?;
        list = rest;
        Some(name)
    })
}
