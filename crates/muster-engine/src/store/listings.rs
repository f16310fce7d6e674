//! The last listings of servers, stored in the state folder, so that after a restart the tools of a server that cannot
//! be connected are still found.

use std::{fs, path::PathBuf};

use muster_config::mcpserver::McpServer;
use muster_core::{
    connect::ServerListing,
    hex,
    json::{self, Raw},
};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::{ConfigStore, WriteError, write};

/// The folder of the listings.
const LISTINGS: &str = "listings";
/// The longest listing that is stored, in bytes.
const MAX_LISTING: usize = 8 << 20;

#[derive(Serialize, Deserialize)]
struct StoredListing {
    /// A digest of how the server is reached: another server may have its name now.
    endpoint: String,
    tools: Vec<Raw>,
}

impl ConfigStore {
    fn listing_path(&self, name: &str) -> PathBuf {
        self.state().join(LISTINGS).join(format!("{name}.json"))
    }

    /// Stores the tools of a server.
    pub(crate) async fn write_listing(
        &self,
        server: &McpServer,
        listing: &ServerListing,
    ) -> Result<(), WriteError> {
        let stored = StoredListing { endpoint: digest(server), tools: listing.tools.clone() };
        let (path, text) = (self.listing_path(&server.name), json::raw(&stored));
        if text.get().len() > MAX_LISTING {
            return Ok(());
        }
        self.exclusively(move || match fs::read_to_string(&path) {
            Ok(before) if before == text.get() => Ok(()),
            Ok(_) | Err(_) => write::put_state(&path, text.get()),
        })
        .await
    }

    /// The tools that a server listed last; `None` if its endpoint has changed.
    pub(crate) fn last_listing(&self, server: &McpServer) -> Option<ServerListing> {
        let text = fs::read_to_string(self.listing_path(&server.name)).ok()?;
        let stored: StoredListing = serde_json::from_str(&text).ok()?;
        (stored.endpoint == digest(server))
            .then(|| ServerListing { tools: stored.tools, ..ServerListing::default() })
    }

    /// Forgets the tools of a server that was deleted.
    pub(crate) fn forget_listing(&self, name: &str) {
        let _removed = fs::remove_file(self.listing_path(name));
    }
}

/// A digest, because arguments and URLs may hold secrets.
fn digest(server: &McpServer) -> String {
    hex::encode(&Sha256::digest(server.spec.endpoint().key()))
}
