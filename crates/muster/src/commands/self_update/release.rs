//! A release, as the document of a release page describes it.

use std::{
    fs, io::Write as _, os::unix::fs::OpenOptionsExt as _, path::Path, sync::Arc, time::Duration,
};

use muster_net::{AddressPolicy, HttpClient, HttpRequest, TrustStore};
use serde::Deserialize;

use super::signature::ReleaseKey;

const REDIRECTS: u8 = 5;
const LARGEST_SIGNATURE: usize = 4096;
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
}

impl Release {
    /// Downloads the document of the newest release.
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

    /// Whether the release is newer than a version. A pre-release is older than its release.
    pub(super) fn is_newer_than(&self, version: &str) -> bool {
        parts(self.version()) > parts(version)
    }

    /// Downloads the program of this release, verifies that it is signed with `key`, and replaces the installed
    /// program.
    pub(super) async fn install(&self, program: &Path, key: &ReleaseKey) -> Result<(), String> {
        let name = format!(
            "muster_{}_{}_{}",
            self.version(),
            std::env::consts::OS,
            std::env::consts::ARCH
        );
        let signature = self.asset(&format!("{name}.minisig"))?;
        let bytes = self.asset(&name)?.max_body(LARGEST).timeout(PATIENCE);
        let signature = get(signature.max_body(LARGEST_SIGNATURE)).await?;
        let bytes = get(bytes).await?;
        key.verify(&name, &bytes, &String::from_utf8_lossy(&signature))?;
        replace(program, &bytes).map_err(|err| format!("{}: {err}", program.display()))
    }

    /// The request for a file of the release.
    fn asset(&self, name: &str) -> Result<HttpRequest, String> {
        let asset = self.assets.iter().find(|asset| asset.name == name);
        let asset = asset.ok_or_else(|| format!("the release has no file `{name}`"))?;
        Ok(HttpRequest::get(&asset.browser_download_url, AddressPolicy::Private))
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
    use std::{
        fs,
        io::{BufRead as _, BufReader, Write as _},
        net::TcpListener,
    };

    use serde_json::json;

    use super::{
        super::signature::tests::{pair, sign},
        Release, ReleaseKey, parts,
    };

    const PROGRAM: &str = "the new program";

    #[test]
    fn versions_in_order() {
        let order = ["0.1.0-rc.1", "0.1.0", "0.1.1", "0.2.0", "0.10.0", "1.0.0"];
        for pair in order.windows(2) {
            assert!(parts(pair[0]) < parts(pair[1]), "{pair:?}");
        }
        assert!(parts("0.1.0") <= parts("0.1.0"));
    }

    fn name() -> String {
        format!("muster_99.0.0_{}_{}", std::env::consts::OS, std::env::consts::ARCH)
    }

    /// Serves the program and its signature. Returns its port.
    fn publish(signature: String) -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        std::thread::spawn(move || {
            for mut stream in listener.incoming().map_while(Result::ok) {
                let lines = BufReader::new(stream.try_clone().unwrap()).lines().map(Result::unwrap);
                let head: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
                let body = if head[0].contains("minisig") { &signature } else { PROGRAM };
                let length = body.len();
                write!(
                    stream,
                    "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
                )
                .unwrap();
            }
        });
        port
    }

    /// Installs a release with these files. Returns the program afterwards.
    async fn installed(
        files: &[String],
        signature: String,
        key: &ReleaseKey,
    ) -> (String, Result<(), String>) {
        let port = publish(signature);
        let asset = |name: &String| json!({"name": name, "browser_download_url": format!("http://127.0.0.1:{port}/{name}")});
        let assets: Vec<_> = files.iter().map(asset).collect();
        let release = json!({"tag_name": "v99.0.0", "assets": assets});
        let release: Release = serde_json::from_value(release).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("muster");
        fs::write(&program, "the old program").unwrap();
        let done = release.install(&program, key).await;
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing else is left");
        (fs::read_to_string(&program).unwrap(), done)
    }

    #[tokio::test]
    async fn a_program_is_replaced_by_a_signed_one_only() {
        let (pair, key) = pair();
        let files = [name(), format!("{}.minisig", name())];
        let good = sign(&pair, &name(), PROGRAM.as_bytes());
        let (program, done) = installed(&files, good.clone(), &key).await;
        assert_eq!((program.as_str(), done), (PROGRAM, Ok(())));

        let forged = sign(&pair, &name(), b"another program");
        let older = sign(&pair, "muster_0.0.1_linux_x86_64", PROGRAM.as_bytes());
        for (files, signature, expected) in [
            (&files[..], forged, "is not signed with the release key of this build"),
            (&files[..], older, "was made for another file"),
            (&files[..], String::new(), "cannot be read"),
            (&files[..1], good.clone(), ".minisig`"),
            (&files[1..], good, "the release has no file"),
        ] {
            let (program, done) = installed(files, signature, &key).await;
            assert_eq!(program, "the old program");
            let refused = done.unwrap_err();
            assert!(refused.contains(expected), "{refused}");
        }
    }
}
