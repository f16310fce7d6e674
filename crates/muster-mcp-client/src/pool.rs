//! Connections to one server that are kept for the next request.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri, header};
use http_body_util::Full;
use hyper::body::Incoming;
use muster_core::{
    credentials::BearerToken,
    logins::{AccessTokenSource, LoginError},
};

use super::{
    address::Address,
    dial::{Dialer, Sender},
    failure::Failure,
    response::whole,
};
use crate::lock::Lock;

/// Connections that wait for the next request; more than that are closed after theirs.
const IDLE: usize = 64;

/// What the server may have seen of a request that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sent {
    /// Nothing: it can be sent again.
    Nothing,
    /// All of it.
    Maybe,
}

/// Connections to one server.
#[derive(Debug)]
pub(super) struct Pool {
    dialer: Arc<Dialer>,
    address: Address,
    /// What the user wants sent with every request.
    headers: HeaderMap,
    /// Where the token comes from that one person's requests carry.
    access: Option<Arc<dyn AccessTokenSource>>,
    /// The one used last is used next, so that those beyond need grow old and are closed.
    idle: Lock<Vec<Sender>>,
}

impl Pool {
    pub(super) fn new(
        dialer: Arc<Dialer>,
        address: Address,
        headers: HeaderMap,
        access: Option<Arc<dyn AccessTokenSource>>,
    ) -> Self {
        Self { dialer, address, headers, access, idle: Lock::default() }
    }

    /// A request with what every request carries, and with what the user wants sent.
    pub(super) fn request(
        &self,
        method: Method,
        path: &Uri,
        accept: &'static str,
        body: Bytes,
    ) -> Request<Full<Bytes>> {
        let has_body = !body.is_empty();
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = path.clone();
        let headers = request.headers_mut();
        headers.insert(header::HOST, self.address.authority.clone());
        for (name, value) in &self.headers {
            headers.insert(name, value.clone());
        }
        headers.insert(header::ACCEPT, HeaderValue::from_static(accept));
        if has_body {
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        request
    }

    /// Sends a request, over a connection that waits if there is one. The connection comes back with
    /// the answer, to be given back when that has been read.
    ///
    /// A person's request carries their token. If the server does not take it, the request is sent once
    /// more with another one, if there is another: it was refused before it was looked at.
    pub(super) async fn send(
        &self,
        mut request: Request<Full<Bytes>>,
    ) -> Result<(Response<Incoming>, Sender), Failure> {
        let Some(access) = &self.access else { return self.transmit(request).await };
        let token = access.token().await.map_err(|error| no_token(error, None))?;
        sign(&mut request, &token)?;
        let mut again = request.clone();
        let (response, sender) = self.transmit(request).await?;
        let challenge = challenge(response.headers());
        if !wants_other_token(response.status(), challenge.as_deref()) {
            return Ok((response, sender));
        }
        if whole(&mut response.into_body()).await.is_ok() {
            self.give_back(sender);
        }
        let another = access.replace_rejected(&token, challenge.as_deref()).await;
        sign(&mut again, &another.map_err(|error| no_token(error, challenge))?)?;
        self.transmit(again).await
    }

    async fn transmit(
        &self,
        request: Request<Full<Bytes>>,
    ) -> Result<(Response<Incoming>, Sender), Failure> {
        self.try_send(request).await.map_err(|(failure, _)| failure)
    }

    /// The same, for whoever wants to know whether the server may have seen a request that failed.
    pub(super) async fn try_send(
        &self,
        mut request: Request<Full<Bytes>>,
    ) -> Result<(Response<Incoming>, Sender), (Failure, Sent)> {
        loop {
            let (mut sender, is_new) = match self.waiting() {
                Some(sender) => (sender, false),
                None => match self.dialer.dial(&self.address).await {
                    Ok(sender) => (sender, true),
                    Err(failure) => return Err((failure, Sent::Nothing)),
                },
            };
            if sender.ready().await.is_err() && !is_new {
                continue;
            }
            match sender.try_send_request(request).await {
                Ok(response) => return Ok((response, sender)),
                Err(mut err) => match err.take_message() {
                    // Nothing of it has been sent: the server had closed the connection.
                    Some(unsent) if !is_new => request = unsent,
                    unsent => {
                        let sent = if unsent.is_some() { Sent::Nothing } else { Sent::Maybe };
                        let err = err.into_error();
                        let what = format!("the connection broke before an answer: {err}");
                        return Err((Failure::Lost(what), sent));
                    }
                },
            }
        }
    }

    /// Keeps a connection for the next request.
    pub(super) fn give_back(&self, sender: Sender) {
        if sender.is_closed() {
            return;
        }
        let mut idle = self.idle.lock();
        if idle.len() >= IDLE {
            idle.retain(|sender| !sender.is_closed());
        }
        if idle.len() < IDLE {
            idle.push(sender);
        }
    }

    fn waiting(&self) -> Option<Sender> {
        let mut idle = self.idle.lock();
        while let Some(sender) = idle.pop() {
            if !sender.is_closed() {
                return Some(sender);
            }
        }
        None
    }

    pub(super) fn address(&self) -> &Address {
        &self.address
    }
}

fn sign(request: &mut Request<Full<Bytes>>, token: &BearerToken) -> Result<(), Failure> {
    let value = HeaderValue::from_str(&format!("Bearer {}", token.reveal()));
    let mut value = value.map_err(|_| Failure::Broken("the token cannot be sent".to_owned()))?;
    value.set_sensitive(true);
    request.headers_mut().insert(header::AUTHORIZATION, value);
    Ok(())
}

/// Whether a server refused a request for its token.
fn wants_other_token(status: StatusCode, challenge: Option<&str>) -> bool {
    let wants_more = || challenge.is_some_and(|said| said.contains("insufficient_scope"));
    status == StatusCode::UNAUTHORIZED || status == StatusCode::FORBIDDEN && wants_more()
}

/// What a server says about how to be let in.
pub(super) fn challenge(headers: &HeaderMap) -> Option<String> {
    let all = headers.get_all(header::WWW_AUTHENTICATE).iter();
    let said: Vec<&str> = all.filter_map(|value| value.to_str().ok()).collect();
    (!said.is_empty()).then(|| said.join(", "))
}

fn no_token(error: LoginError, challenge: Option<String>) -> Failure {
    match error {
        LoginError::Required | LoginError::NotConfigured => Failure::Unauthorized { challenge },
        LoginError::Unavailable(reason) => Failure::Lost(reason),
        LoginError::UnknownIssuer(_)
        | LoginError::Refused(_)
        | LoginError::InsufficientScope(_) => Failure::NotAdmitted(error.to_string()),
    }
}

/// The headers that the user wants sent.
pub(super) fn headers(given: &[(String, String)]) -> Result<HeaderMap, Failure> {
    let mut headers = HeaderMap::with_capacity(given.len());
    for (name, value) in given {
        let key: http::HeaderName = name
            .parse()
            .map_err(|_| Failure::Broken(format!("`{name}` cannot be the name of a header")))?;
        let mut value = HeaderValue::from_str(value)
            .map_err(|_| Failure::Broken(format!("the value of header `{name}` cannot be sent")))?;
        value.set_sensitive(true);
        headers.insert(key, value);
    }
    Ok(headers)
}
