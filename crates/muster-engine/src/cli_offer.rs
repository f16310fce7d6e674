//! The CLIs that a gateway offers: the files in `clis`, and the bundled ones that the settings allow.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::Arc,
};

use muster_config::settings::{BundledClis, Clis};
use muster_core::{cli::CliConfig, name::BackendName, suggest};

use crate::store::Files;

/// A CLI definition that comes with the program.
#[derive(Debug, Clone)]
pub struct BundledCli {
    /// The name that settings use, such as `git`.
    pub name: Arc<str>,
    /// The definition.
    pub config: Arc<CliConfig>,
}

/// The CLIs to offer. A file replaces the bundled CLI of the same name, and its tools replace bundled tools of
/// the same names.
pub fn offered(
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

/// A name in the settings that no bundled CLI has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnknownCli<'a> {
    /// The setting: `clis.enabled` or `clis.disabled`.
    pub setting: &'static str,
    /// The name.
    pub name: &'a str,
    /// The bundled CLI that is most likely meant.
    pub nearest: Option<&'a str>,
}

impl UnknownCli<'_> {
    /// How to fix it.
    pub fn fix(&self) -> String {
        match self.nearest {
            Some(nearest) => format!("did you mean `{nearest}`?"),
            None => "`climax list` shows the names of the bundled CLIs".to_owned(),
        }
    }
}

/// The names in the settings that no bundled CLI has.
pub fn unknown_names<'a>(settings: &'a Clis, bundled: &'a [BundledCli]) -> Vec<UnknownCli<'a>> {
    let listed = |setting, names: &'a [String]| names.iter().map(move |name| (setting, name));
    let names = listed("clis.enabled", &settings.enabled)
        .chain(listed("clis.disabled", &settings.disabled));
    let known = bundled.iter().map(|cli| &*cli.name);
    let unknown = names.filter(|(_, name)| !known.clone().any(|known| known == name.as_str()));
    unknown
        .map(|(setting, name)| {
            let nearest = suggest::nearest(name, known.clone());
            UnknownCli { setting, name, nearest }
        })
        .collect()
}

/// The bundled tools that are not offered, by the name that agents would see, with their CLIs.
pub(crate) fn switched_off(
    offered: &BTreeMap<BackendName, Arc<CliConfig>>,
    bundled: &[BundledCli],
    is_installed: impl Fn(&CliConfig) -> bool,
) -> BTreeMap<String, Arc<str>> {
    let tools = offered.values().flat_map(|config| &config.tools);
    let offered: BTreeSet<&str> = tools.map(|tool| tool.name.as_str()).collect();
    let installed = bundled.iter().filter(|cli| is_installed(&cli.config));
    let tools = installed.flat_map(|cli| cli.config.tools.iter().map(move |tool| (cli, tool)));
    let off = tools.filter(|(_, tool)| !offered.contains(tool.name.as_str()));
    off.map(|(cli, tool)| (exposed_name(&tool.name), Arc::clone(&cli.name))).collect()
}

/// The name of a CLI's tool as agents see it.
pub(crate) fn exposed_name(tool: &str) -> String {
    format!("cli_{tool}")
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
