//! The CLIs that a gateway offers: the files in `clis`, and the bundled ones that the settings allow.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::Arc,
};

use muster_config::settings::{BundledClis, Clis};
use muster_core::{cli::CliConfig, name::BackendName};

use crate::store::Files;

/// A CLI definition that comes with the program.
#[derive(Debug, Clone)]
pub struct BundledCli {
    /// The name that settings use, such as `git`.
    pub name: Arc<str>,
    /// The definition.
    pub config: Arc<CliConfig>,
}

/// The CLIs to offer. A file replaces the bundled CLI of its name, and its tools replace bundled tools of
/// their names.
pub(crate) fn offered(
    files: &Files,
    bundled: &[BundledCli],
    is_installed: impl Fn(&CliConfig) -> bool,
) -> BTreeMap<BackendName, Arc<CliConfig>> {
    let own = files.clis.iter().flatten();
    let mut offered: BTreeMap<BackendName, Arc<CliConfig>> =
        own.map(|(path, config)| (backend(stem(path)), Arc::clone(config))).collect();
    let taken: BTreeSet<String> = offered
        .values()
        .flat_map(|config| config.tools.iter().map(|tool| tool.name.clone()))
        .collect();
    for cli in bundled {
        let name = backend(&cli.name);
        if offered.contains_key(&name) || !is_installed(&cli.config) {
            continue;
        }
        let part = part(cli, &files.settings.clis, &taken);
        offered.extend(part.map(|config| (name, config)));
    }
    offered
}

/// Whether a CLI is defined by a file.
pub(crate) fn is_own(files: &Files, name: &BackendName) -> bool {
    files.clis.iter().flatten().any(|(path, _)| backend(stem(path)) == *name)
}

/// The names in the settings that no bundled CLI has.
pub(crate) fn unknown_names<'a>(settings: &'a Clis, bundled: &[BundledCli]) -> Vec<&'a str> {
    let names = settings.enabled.iter().chain(&settings.disabled).map(String::as_str);
    names.filter(|name| !bundled.iter().any(|cli| *cli.name == **name)).collect()
}

/// The part of a bundled CLI that is offered, if any.
fn part(cli: &BundledCli, settings: &Clis, taken: &BTreeSet<String>) -> Option<Arc<CliConfig>> {
    let level = settings.offered(&cli.name);
    let mut config = CliConfig::clone(&cli.config);
    config.tools.retain(|tool| {
        let allowed = match level {
            BundledClis::All => true,
            BundledClis::ReadOnly => tool.is_local_read(),
            BundledClis::None => false,
        };
        allowed && !taken.contains(&tool.name)
    });
    (!config.tools.is_empty()).then(|| Arc::new(config))
}

fn backend(name: &str) -> BackendName {
    BackendName::new(format!("cli/{name}"))
}

/// The name of a CLI by its file.
fn stem(path: &Path) -> &str {
    let file = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    file.strip_suffix(".yaml").unwrap_or(file)
}
