//! A plain document over HTTP, by the same connections as everything else.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use tokio::time::timeout;

use super::{Connector, address::Address, pool::Pool, response::whole, talk::TalkError};

/// What is asked for.
#[derive(Debug, Clone)]
pub struct Ask {
    /// How.
    pub method: Method,
    /// Where.
    pub url: String,
    /// The kind of the body, and the body.
    pub body: Option<(&'static str, String)>,
}

impl Ask {
    /// A document.
    pub fn get(url: impl Into<String>) -> Self {
        Self { method: Method::GET, url: url.into(), body: None }
    }

    /// A body of some kind, sent.
    pub fn post(url: impl Into<String>, kind: &'static str, body: String) -> Self {
        Self { method: Method::POST, url: url.into(), body: Some((kind, body)) }
    }
}

/// What came back.
#[derive(Debug, Clone)]
pub struct Document {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The body as text; what is no text in it is replaced.
    pub text: String,
}

impl Connector {
    /// Asks for a document within `limit`. Redirects are not followed.
    pub async fn fetch(&self, ask: Ask, limit: Duration) -> Result<Document, TalkError> {
        let late = || TalkError::Lost(format!("no answer within {} s", limit.as_secs_f64()));
        timeout(limit, Box::pin(self.ask(ask))).await.map_err(|_| late())?
    }

    async fn ask(&self, ask: Ask) -> Result<Document, TalkError> {
        const ACCEPT: &str = "application/json, text/event-stream";
        let address = Address::parse(&ask.url)?;
        let path = address.path.clone();
        let pool = Pool::new(Arc::clone(&self.dialer), address, HeaderMap::new(), None);
        let (kind, body) =
            ask.body.map_or((None, String::new()), |(kind, body)| (Some(kind), body));
        let mut request = pool.request(ask.method, &path, ACCEPT, Bytes::from(body));
        if let Some(kind) = kind {
            request.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
        }
        let close = HeaderName::from_static("connection");
        request.headers_mut().insert(close, HeaderValue::from_static("close"));
        let (response, sender) = pool.send(request).await?;
        let (head, mut body) = response.into_parts();
        let is_endless = head
            .headers
            .get(header::CONTENT_TYPE)
            .is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"));
        let bytes = if is_endless { Bytes::new() } else { whole(&mut body).await? };
        drop(sender);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        Ok(Document { status: head.status, headers: head.headers, text })
    }
}
