//! Getting to know a server: which era it speaks, and what it can do.
//!
//! A modern server answers `server/discover`; whatever else comes of that, short of a lost
//! connection, means `initialize`. Error codes are no help: legacy servers refuse an unknown method
//! in several ways, and some say nothing.

use std::sync::Arc;

use muster_core::json::{Raw, RawObject};
use muster_mcp::{
    param_headers::Mirrored,
    version::{Era, LEGACY, MODERN, SERVER_INFO_KEY},
    wire::{RpcError, code},
};
use serde_json::value::RawValue;

use super::{
    failure::Failure,
    inbox::Inbox,
    link::{Link, Sending, WhenDropped},
    message::Writing,
    peer::{About, Me, modern_meta},
};

const DISCOVER: &str = "server/discover";

/// What a probe came to.
#[derive(Debug)]
pub(super) enum Verdict {
    /// It is modern, and this is what it says about itself.
    Modern(About),
    /// It is to be introduced to.
    Legacy,
}

/// Asks a server in the modern way.
pub(super) async fn probe(link: &Link, inbox: &Arc<Inbox>, me: &Me) -> Result<Verdict, Failure> {
    let [mut version, ..] = MODERN;
    // A server may know another version than our newest, and says so once.
    for _ in 0..2 {
        let mirrored = Mirrored::new(version, DISCOVER, None, Vec::new());
        let sending = Sending {
            mirrored: matches!(link, Link::Http(_)).then_some(mirrored),
            end: WhenDropped::Leave,
            ..Sending::default()
        };
        let answer = link.request(inbox, sending, |id| {
            let meta = modern_meta(id, None, version, me, &me.capabilities).to_raw();
            Writing::request(id, DISCOVER).raw("_meta", &meta).finish()
        });
        let failure = match answer.await {
            Ok(result) => return Ok(discovered(&result.load().await?)),
            Err(failure) => failure,
        };
        match failure {
            Failure::Lost(_)
            | Failure::Insecure(_)
            | Failure::Unauthorized { .. }
            | Failure::NotAdmitted(_) => {
                return Err(failure);
            }
            Failure::Refused { error, .. } if error.code == code::UNSUPPORTED_VERSION => {
                match mutual(&error) {
                    Some(mutual) if mutual != version => version = mutual,
                    Some(_) | None => return Ok(Verdict::Legacy),
                }
            }
            Failure::Refused { status: Some(status), error } if is_modern(status, error.code) => {
                return Ok(Verdict::Modern(About {
                    era: Era::Modern,
                    version: version.to_owned(),
                    capabilities: None,
                    instructions: None,
                    server: None,
                }));
            }
            Failure::Refused { .. }
            | Failure::Status { .. }
            | Failure::SessionGone { .. }
            | Failure::Broken(_) => return Ok(Verdict::Legacy),
        }
    }
    Ok(Verdict::Legacy)
}

/// Whether only a modern server refuses like this.
const fn is_modern(status: u16, error: i64) -> bool {
    match status {
        404 if error == code::METHOD_NOT_FOUND => true,
        400 | 404 | 405 => matches!(error, code::HEADER_MISMATCH | code::MISSING_CAPABILITY),
        _ => false,
    }
}

/// The version that both sides speak, out of what a refusal says.
fn mutual(error: &RpcError) -> Option<&'static str> {
    let data = error.data.as_deref().and_then(RawObject::parse)?;
    newest_of(&MODERN, data.get("supported")?)
}

fn newest_of(ours: &[&'static str], theirs: &RawValue) -> Option<&'static str> {
    let theirs: Vec<String> = serde_json::from_str(theirs.get()).unwrap_or_default();
    ours.iter().copied().find(|version| theirs.iter().any(|other| other == version))
}

/// A server may also list legacy versions only, and means to be introduced to.
fn discovered(result: &RawValue) -> Verdict {
    let result = RawObject::parse(result).unwrap_or_default();
    let version = result.get("supportedVersions").and_then(|all| newest_of(&MODERN, all));
    let Some(version) = version else { return Verdict::Legacy };
    Verdict::Modern(About {
        era: Era::Modern,
        version: version.to_owned(),
        capabilities: Some(capabilities(&result)),
        instructions: result.get_text("instructions"),
        server: result
            .get("_meta")
            .and_then(RawObject::parse)
            .and_then(|meta| meta.get(SERVER_INFO_KEY).map(ToOwned::to_owned)),
    })
}

fn capabilities(result: &RawObject<'_>) -> Raw {
    result.get("capabilities").map_or_else(|| RawObject::new().to_raw(), ToOwned::to_owned)
}

/// Introduces us to a legacy server.
pub(super) async fn introduce(link: &Link, inbox: &Arc<Inbox>, me: &Me) -> Result<About, Failure> {
    let result = match link {
        Link::Http(http) => http.initialize().await?,
        Link::Pipe(_) | Link::Sse(_) => {
            let sending = Sending { end: WhenDropped::Leave, ..Sending::default() };
            let result = link.request(inbox, sending, |id| initialize(id, me)).await?;
            let result = result.load().await?;
            link.notify(initialized()).await?;
            result
        }
    };
    let result = RawObject::parse(&result).unwrap_or_default();
    let Some(version) = result.get_text("protocolVersion") else {
        let what = "its answer to `initialize` names no protocol version";
        return Err(Failure::Broken(what.to_owned()));
    };
    Ok(About {
        era: Era::Legacy,
        version,
        capabilities: Some(capabilities(&result)),
        instructions: result.get_text("instructions"),
        server: result.get("serverInfo").map(ToOwned::to_owned),
    })
}

/// The request that introduces us to a legacy server.
pub(super) fn initialize(id: u64, me: &Me) -> Vec<u8> {
    let [newest, ..] = LEGACY;
    Writing::request(id, "initialize")
        .text("protocolVersion", newest)
        .raw("capabilities", &me.capabilities)
        .raw("clientInfo", &me.info)
        .finish()
}

/// Tells a legacy server that its answer was understood.
pub(super) fn initialized() -> Vec<u8> {
    Writing::notification("notifications/initialized").finish()
}
