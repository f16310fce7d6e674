//! One server, spoken to by a program for a person: requests as they are typed, results as they come.
//!
//! The gateway reaches servers by [`muster_core::connect`], where only what a policy permitted can be
//! called. A program at the other side of a gateway has no policy to ask; it gets what the gateway
//! gives it.

use std::{sync::Arc, time::Duration};

use muster_core::{
    connect::{Connection as _, ConnectionObserver, Endpoint},
    json::{Raw, RawObject},
};
use serde_json::value::RawValue;
use thiserror::Error;
use tokio::time::timeout;

use super::{
    McpConnector,
    connection::Conn,
    failure::Failure,
    listing::{self, List},
    peer::Want,
};

/// What servers list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Tools.
    Tools,
    /// Resources.
    Resources,
    /// Prompts.
    Prompts,
}

/// Whether a program wants to hear what a server says unasked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hearing {
    /// It will ask its question and leave.
    Nothing,
    /// It stays, and wants to know what changes.
    Changes,
}

/// A connected server.
#[derive(Debug)]
pub struct Talk {
    conn: Conn,
    limit: Duration,
}

/// Who a server says it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct About {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The version of the protocol that is spoken with it.
    pub protocol: String,
}

/// Why a server has no result for a request. Texts never hold a secret.
#[derive(Debug, Error)]
pub enum TalkError {
    /// It wants a login first.
    #[error("authentication required")]
    Unauthorized {
        /// Its challenge, if it sent one.
        challenge: Option<String>,
    },
    /// It answered with an error of the protocol.
    #[error("{message}")]
    Refused {
        /// The error's number.
        code: i64,
        /// The error's words.
        message: String,
    },
    /// It answered, but not as a server of this protocol does.
    #[error("it answered with status {status}")]
    Status {
        /// The HTTP status.
        status: u16,
    },
    /// It could not be reached, or went away.
    #[error("{0}")]
    Lost(String),
    /// It will not work like this.
    #[error("{0}")]
    Broken(String),
}

impl From<Failure> for TalkError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Refused { error, .. } => {
                Self::Refused { code: error.code, message: error.message }
            }
            Failure::Unauthorized { challenge } => Self::Unauthorized { challenge },
            Failure::Status { status } | Failure::SessionGone { status } => Self::Status { status },
            Failure::Lost(reason) => Self::Lost(reason),
            Failure::NotAdmitted(reason) | Failure::Insecure(reason) | Failure::Broken(reason) => {
                Self::Broken(reason)
            }
        }
    }
}

impl McpConnector {
    /// Connects to a server and introduces itself, within `limit`, which also holds for each page of
    /// a list.
    pub async fn talk(
        &self,
        endpoint: &Endpoint,
        limit: Duration,
        hearing: Hearing,
        events: Arc<dyn ConnectionObserver>,
    ) -> Result<Talk, TalkError> {
        const NAME: &str = "muster";
        let connecting = async {
            let peer = self.open(NAME, endpoint, None, limit, &events).await?;
            Ok::<_, Failure>(match hearing {
                Hearing::Nothing => {
                    peer.link.introduced();
                    Conn::unheard(NAME, peer, limit)
                }
                Hearing::Changes => Conn::new(NAME, peer, limit).await,
            })
        };
        match timeout(limit, Box::pin(connecting)).await {
            Ok(conn) => Ok(Talk { conn: conn?, limit }),
            Err(_) => Err(TalkError::Lost(format!("no answer within {} s", limit.as_secs_f64()))),
        }
    }
}

impl Talk {
    /// Who it says it is.
    pub fn about(&self) -> About {
        let about = &self.conn.peer.about;
        let server = about.server.as_deref().and_then(RawObject::parse).unwrap_or_default();
        let text = |key: &str| server.get_text(key).unwrap_or_default();
        About { name: text("name"), version: text("version"), protocol: about.version.clone() }
    }

    /// Runs a tool; the result as it came.
    pub async fn call_tool(&self, tool: &str, arguments: &RawValue) -> Result<Raw, TalkError> {
        let want = Want { method: "tools/call", name: Some(tool), ..Want::default() };
        let answer = self
            .conn
            .peer
            .request(want, |writing| writing.text("name", tool).raw("arguments", arguments));
        Ok(Box::pin(answer).await?)
    }

    /// Reads a resource; the result as it came.
    pub async fn read(&self, uri: &str) -> Result<Raw, TalkError> {
        let want = Want { method: "resources/read", name: Some(uri), ..Want::default() };
        let answer = self.conn.peer.request(want, |writing| writing.text("uri", uri));
        Ok(Box::pin(answer).await?)
    }

    /// Fills in a prompt; the result as it came.
    pub async fn prompt(&self, name: &str, arguments: &RawValue) -> Result<Raw, TalkError> {
        let want = Want { method: "prompts/get", name: Some(name), ..Want::default() };
        let answer = self
            .conn
            .peer
            .request(want, |writing| writing.text("name", name).raw("arguments", arguments));
        Ok(Box::pin(answer).await?)
    }

    /// Everything of a kind that it lists, each item as it wrote it.
    pub async fn list(&self, kind: Kind) -> Result<Vec<Raw>, TalkError> {
        let list: List = match kind {
            Kind::Tools => listing::TOOLS,
            Kind::Resources => listing::RESOURCES,
            Kind::Prompts => listing::PROMPTS,
        };
        Ok(Box::pin(listing::all(&self.conn.peer, list, self.limit)).await?)
    }

    /// Says goodbye.
    pub async fn close(&self) {
        self.conn.close().await;
    }
}
