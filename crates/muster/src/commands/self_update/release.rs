//! A release as the document of a release page describes it.

use std::{
    fs, io::Write as _, os::unix::fs::OpenOptionsExt as _, path::Path, sync::Arc, time::Duration,
};

use muster_auth::random::sha256;
use muster_core::hex;
use muster_net::{AddressPolicy, HttpClient, HttpRequest, TrustStore};
use serde::Deserialize;

const REDIRECTS: u8 = 5;
const LARGEST: usize = 256 * 1024 * 1024;
const PATIENCE: Duration = Duration::from_secs(10 * 60);

/// A release.
#[derive(Debug, Deserialize)]
pub(super) struct Release {
    tag_name: String,
    #[serde(default)]
    published_at: String,
    #[serde(default)]
    body: String,
    #[serde(default)]
    assets: Vec<Asset>,
}

/// A file of a release.
#[derive(Debug, Deserialize)]
struct Asset {
    name: String,
    browser_download_url: String,
    /// Such as `sha256:ab12…`.
    #[serde(default)]
    digest: Option<String>,
}

impl Release {
    /// Downloads the document.
    pub(super) async fn latest(url: &str) -> Result<Self, String> {
        let body = get(HttpRequest::get(url, AddressPolicy::Private)).await?;
        serde_json::from_slice(&body).map_err(|err| format!("no release can be read: {err}"))
    }

    pub(super) fn version(&self) -> &str {
        self.tag_name.trim_start_matches('v')
    }

    pub(super) fn published(&self) -> &str {
        if self.published_at.is_empty() { "unknown" } else { &self.published_at }
    }

    pub(super) fn notes(&self) -> &str {
        &self.body
    }

    /// Whether it is newer than a version. A pre-release is older than its release.
    pub(super) fn is_newer_than(&self, version: &str) -> bool {
        parts(self.version()) > parts(version)
    }

    /// Downloads the program of this release and replaces the installed one.
    pub(super) async fn install(&self, program: &Path) -> Result<(), String> {
        let name = format!(
            "muster_{}_{}_{}",
            self.version(),
            std::env::consts::OS,
            std::env::consts::ARCH
        );
        let asset = self.assets.iter().find(|asset| asset.name == name);
        let asset = asset.ok_or_else(|| format!("the release has no file `{name}`"))?;
        let digest = asset.digest.as_deref().and_then(|digest| digest.strip_prefix("sha256:"));
        let digest = digest.ok_or_else(|| format!("the release names no checksum of `{name}`"))?;
        let ask = HttpRequest::get(&asset.browser_download_url, AddressPolicy::Private);
        let bytes = get(ask.max_body(LARGEST).timeout(PATIENCE)).await?;
        let found = hex::encode(&sha256(&bytes));
        if !found.eq_ignore_ascii_case(digest) {
            return Err(format!("`{name}` has another checksum than the release names"));
        }
        replace(program, &bytes).map_err(|err| format!("{}: {err}", program.display()))
    }
}

/// Replaces a file atomically.
fn replace(program: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let next = program.with_extension(format!("{}.new", std::process::id()));
    let mut options = fs::OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(0o755).open(&next)?;
    let written = file.write_all(bytes).and_then(|()| file.sync_all());
    drop(file);
    let done = written.and_then(|()| fs::rename(&next, program));
    if done.is_err() {
        // Do not leave a partial file behind.
        drop(fs::remove_file(&next));
    }
    done
}

async fn get(ask: HttpRequest) -> Result<Vec<u8>, String> {
    let dialer = HttpClient::new(Arc::new(TrustStore::system()));
    let answer = dialer.send(ask.redirects(REDIRECTS)).await.map_err(|err| err.to_string())?;
    if !answer.status.is_success() {
        return Err(format!("status {}", answer.status.as_u16()));
    }
    Ok(answer.body.to_vec())
}

fn parts(version: &str) -> (Vec<u64>, bool, &str) {
    let (numbers, rest) = version.split_once('-').unwrap_or((version, ""));
    let numbers = numbers.split('.').map(|number| number.parse().unwrap_or(0)).collect();
    (numbers, rest.is_empty(), rest)
}

#[cfg(test)]
mod tests {
    use super::parts;

    #[test]
    fn versions_in_order() {
        let order = ["0.1.0-rc.1", "0.1.0", "0.1.1", "0.2.0", "0.10.0", "1.0.0"];
        for pair in order.windows(2) {
            assert!(parts(pair[0]) < parts(pair[1]), "{pair:?}");
        }
        assert!(parts("0.1.0") <= parts("0.1.0"));
    }
}
