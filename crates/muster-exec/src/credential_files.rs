//! Files that hold credentials, and the refusal of calls that name them.
//!
//! Paths are resolved as the kernel would, symbolic links included, right before the program starts. A caller that can
//! change links in the meantime may win the race; a caller that can only read cannot.

use std::{
    env,
    ffi::OsString,
    fs, io,
    os::unix::fs::FileTypeExt as _,
    path::{Component, Path, PathBuf},
};

use muster_core::{
    arguments::Arguments,
    cli::{CliConfig, CliTool, CredentialFiles, Param, ParamType, Placement},
    python,
};
use rustix::fs::{Access, access};

use crate::{argv, environment::Environment};

/// Files and folders with credentials in a home directory.
pub const IN_HOME: &[&str] = &[
    ".ssh",
    ".gnupg",
    ".aws",
    ".azure",
    ".kube",
    ".docker/config.json",
    ".docker/contexts",
    ".config/containers/auth.json",
    ".config/gcloud",
    ".config/doctl",
    ".config/gh",
    ".config/glab-cli",
    ".config/hub",
    ".config/op",
    ".config/rclone",
    ".config/ngrok",
    ".config/stripe",
    ".oci",
    ".fly",
    ".pulumi",
    ".databrickscfg",
    ".boto",
    ".kaggle",
    ".huggingface",
    ".cache/huggingface/token",
    ".config/sops",
    ".config/muster",
    ".local/state/muster",
    ".netrc",
    ".git-credentials",
    ".config/git/credentials",
    ".npmrc",
    ".yarnrc.yml",
    ".pypirc",
    ".config/pip/pip.conf",
    ".pip/pip.conf",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".gem/credentials",
    ".bundle/config",
    ".composer/auth.json",
    ".config/composer/auth.json",
    ".nuget/NuGet/NuGet.Config",
    ".m2/settings.xml",
    ".gradle/gradle.properties",
    ".pgpass",
    ".my.cnf",
    ".mylogin.cnf",
    ".vault-token",
    ".terraform.d",
    ".terraformrc",
    ".s3cfg",
    ".password-store",
    ".local/share/gopass",
    ".config/Bitwarden",
    ".config/1Password",
    ".local/share/keyrings",
    ".local/share/kwalletd",
    ".local/share/containers/auth.json",
    ".bash_history",
    ".zsh_history",
    ".python_history",
    ".psql_history",
    ".mysql_history",
    ".sqlite_history",
    ".node_repl_history",
    ".rediscli_history",
    ".local/share/fish/fish_history",
    ".claude.json",
    ".claude/.credentials.json",
    ".codex/auth.json",
    ".cursor/mcp.json",
    ".gemini/oauth_creds.json",
    ".config/Claude",
    ".codeium",
    ".config/github-copilot",
    ".mozilla",
    ".thunderbird",
    ".config/google-chrome",
    ".config/chromium",
    ".config/BraveSoftware",
    ".config/microsoft-edge",
    ".config/vivaldi",
    ".config/opera",
    "snap/firefox",
    "snap/chromium",
    ".var/app/org.mozilla.firefox",
    ".var/app/org.mozilla.Thunderbird",
    ".var/app/org.chromium.Chromium",
    ".var/app/com.google.Chrome",
    ".var/app/com.brave.Browser",
    ".config/Signal",
    ".config/Slack",
    ".config/discord",
    ".local/share/TelegramDesktop",
    "Library/Keychains",
    "Library/Cookies",
    "Library/Application Support/Firefox",
    "Library/Application Support/Google/Chrome",
    "Library/Application Support/BraveSoftware",
    "Library/Application Support/Claude",
    "Library/Application Support/com.apple.TCC",
];

/// Stores that are known by their names in every folder, such as a copy or another mount of a home.
pub const IN_ANY_FOLDER: &[&str] = &[
    ".ssh",
    ".gnupg",
    ".aws/credentials",
    ".kube/config",
    ".docker/config.json",
    ".netrc",
    ".git-credentials",
    ".pgpass",
    ".password-store",
    ".vault-token",
];

/// Variables that name files and folders with credentials, several separated by colons.
pub const IN_VARIABLES: &[&str] = &[
    "AWS_CONFIG_FILE",
    "AWS_SHARED_CREDENTIALS_FILE",
    "AZURE_CONFIG_DIR",
    "CLOUDSDK_CONFIG",
    "DOCKER_CONFIG",
    "GH_CONFIG_DIR",
    "GNUPGHOME",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "HISTFILE",
    "KRB5_KTNAME",
    "KUBECONFIG",
    "NETRC",
    "NPM_CONFIG_USERCONFIG",
    "PASSWORD_STORE_DIR",
    "PGPASSFILE",
    "REGISTRY_AUTH_FILE",
    "VAULT_TOKEN_PATH",
];

/// Folders of a home directory that a variable may move.
const MOVED_BY_VARIABLES: &[(&str, &str)] = &[
    ("XDG_CONFIG_HOME", ".config"),
    ("XDG_DATA_HOME", ".local/share"),
    ("XDG_CACHE_HOME", ".cache"),
    ("CARGO_HOME", ".cargo"),
];

/// Files and folders with credentials of the system.
pub const OF_THE_SYSTEM: &[&str] = &[
    "/etc/shadow",
    "/etc/gshadow",
    "/etc/krb5.keytab",
    "/etc/kubernetes",
    "/etc/letsencrypt",
    "/etc/NetworkManager/system-connections",
    "/etc/pki/tls/private",
    "/etc/rancher",
    "/etc/ssh/ssh_host_ecdsa_key",
    "/etc/ssh/ssh_host_ed25519_key",
    "/etc/ssh/ssh_host_rsa_key",
    "/etc/ssl/private",
    "/etc/wireguard",
    "/proc/kcore",
    "/run/secrets",
    "/var/lib/docker",
    "/var/lib/kubelet",
    "/var/lib/teleport",
    "/var/run/tbot",
];

/// A device that holds nothing.
const NULL_DEVICE: &str = "/dev/null";

/// Returns why a call is refused, if its arguments name a file that holds credentials and the config refuses such
/// files. Accesses the file system, so it may block.
pub(crate) fn refusal(
    config: &CliConfig,
    tool: &CliTool,
    arguments: &Arguments,
    environment: &Environment,
) -> Option<String> {
    if config.credential_files == CredentialFiles::Allow {
        return None;
    }
    let here = env::current_dir().unwrap_or_default();
    let chosen = argv::working_dir(tool, arguments).map(python::text);
    let base = match chosen.as_deref().or(config.working_dir.as_deref()) {
        Some(directory) => here.join(directory),
        None => here,
    };
    let stores = Stores::of(environment);
    let refused = |path: &Path| match stores.holding(path) {
        Some(store) => Some(refused_file(path, &store)),
        None => is_device(path).then(|| refused_device(path)),
    };
    if chosen.is_some()
        && let Some(refusal) = refused(&base)
    {
        return Some(refusal);
    }
    let mut texts = Vec::new();
    let mut roots = Vec::new();
    for param in &tool.params {
        let value = arguments.get(&param.name).or(param.default.as_ref()).map(python::text);
        if let Some(value) = &value {
            if is_word(param) {
                texts.extend(possible_paths(value).map(|path| base.join(path)));
            }
            if param.recursive && param.placement != Placement::WorkingDir {
                roots.push(base.join(value));
            }
        }
    }
    if roots.is_empty() && tool.params.iter().any(|param| param.recursive) {
        roots.push(base);
    }
    let below = |root: &PathBuf| stores.below(root).map(|store| refused_tree(root, &store));
    texts.iter().find_map(|path| refused(path)).or_else(|| roots.iter().find_map(below))
}

fn refused_file(path: &Path, store: &Path) -> String {
    let path: PathBuf = path.components().collect();
    let (path, store) = (path.display(), store.display());
    format!(
        "`{path}` belongs to `{store}`, which holds credentials, and this CLI does not open such files"
    )
}

fn refused_device(path: &Path) -> String {
    let path: PathBuf = path.components().collect();
    format!("`{}` is a device, and this CLI does not open devices", path.display())
}

fn refused_tree(root: &Path, store: &Path) -> String {
    let root: PathBuf = root.components().collect();
    let (root, store) = (root.display(), store.display());
    format!(
        "`{root}` contains `{store}`, which holds credentials, and this CLI does not search such folders; name a folder below it"
    )
}

/// Whether the value becomes a word of the command line, or part of one, that the program may read as a path.
fn is_word(param: &Param) -> bool {
    param.kind == ParamType::String
        && matches!(
            param.placement,
            Placement::Positional | Placement::Flag(_) | Placement::Joined(_)
        )
}

/// The paths that a program may find in a value: the whole value, and the text after `@`, `=` or `file://`.
fn possible_paths(value: &str) -> impl Iterator<Item = &str> {
    let after_equals = value.split_once('=').map(|(_, path)| path);
    let named = [Some(value), after_equals].into_iter().flatten();
    named.flat_map(|text| {
        let text = text.strip_prefix('@').unwrap_or(text);
        [Some(text), text.strip_prefix("file://")].into_iter().flatten()
    })
}

/// Where credentials are on this machine.
struct Stores {
    /// The homes of all users. Stores in them are known by their names.
    homes: Vec<PathBuf>,
    /// The stores of this user, of the system and of the gateway, with all links resolved.
    known: Vec<PathBuf>,
}

impl Stores {
    fn of(environment: &Environment) -> Self {
        let resolved = |home: &str| Path::new(home).canonicalize().ok();
        let mut homes: Vec<PathBuf> = environment.homes().filter_map(resolved).collect();
        homes.retain(|home| home.parent().is_some());
        homes.sort();
        homes.dedup();
        let own = environment.get("HOME").map(Path::new).into_iter();
        let own = own.flat_map(|home| IN_HOME.iter().map(move |store| home.join(store)));
        let moved = MOVED_BY_VARIABLES.iter().filter_map(|(name, usual)| {
            let folder = Path::new(environment.get(name)?);
            Some(IN_HOME.iter().filter_map(move |store| {
                Some(folder.join(Path::new(store).strip_prefix(usual).ok()?))
            }))
        });
        let named = IN_VARIABLES.iter().filter_map(|name| environment.get(name));
        let named = named.flat_map(|paths| paths.split(':')).map(PathBuf::from);
        // A relative path depends on the directory that a program runs in; an empty one names nothing.
        let set = moved.flatten().chain(named);
        let set = set.filter(|path| {
            path.is_absolute() && path.parent().is_some() && path != Path::new(NULL_DEVICE)
        });
        let existing = own.chain(set).chain(OF_THE_SYSTEM.iter().map(PathBuf::from));
        let existing = existing.filter_map(|store| store.canonicalize().ok());
        let private = environment.private_paths().iter().map(|path| resolve(path));
        Self { homes, known: existing.chain(private).collect() }
    }

    /// Returns the store that contains a path, or that the path itself names.
    fn holding(&self, path: &Path) -> Option<PathBuf> {
        // Some programs remove `..` without regard to links, and open what the kernel would not find.
        [path.to_owned(), resolve(path), without_parents(path)].iter().find_map(|path| {
            of_a_process(path)
                .or_else(|| self.known.iter().find(|store| path.starts_with(store)).cloned())
                .or_else(|| self.named_in_a_home(path))
                .or_else(|| named_in_any_folder(path))
        })
    }

    /// Returns the store in a home directory that contains a path, judged by the name of the store.
    fn named_in_a_home(&self, path: &Path) -> Option<PathBuf> {
        self.homes.iter().find_map(|home| {
            let inside = path.strip_prefix(home).ok()?;
            let store =
                IN_HOME.iter().find(|store| starts_with_any_case(inside, Path::new(store)))?;
            Some(home.join(store))
        })
    }

    /// A readable store at or below a folder.
    fn below(&self, root: &Path) -> Option<PathBuf> {
        let root = resolve(root);
        let proc = Path::new("/proc");
        if proc.starts_with(&root) && proc.exists() {
            return Some(proc.to_owned());
        }
        let inside = |store: &PathBuf| {
            store.starts_with(&root) && access(store.as_path(), Access::READ_OK).is_ok()
        };
        let homes = self.homes.iter();
        let homes = homes.filter(|home| home.starts_with(&root) || root.starts_with(home));
        let named = homes.flat_map(|home| IN_HOME.iter().map(|store| home.join(store)));
        self.known.iter().cloned().chain(named).find(inside)
    }
}

/// Returns the store that contains an existing path, judged by a name that stores have everywhere. Others are not refused:
/// a text to search for may look like such a name.
fn named_in_any_folder(path: &Path) -> Option<PathBuf> {
    let is_store = |folder: &&Path| IN_ANY_FOLDER.iter().any(|store| folder.ends_with(store));
    let store = path.ancestors().find(is_store)?;
    path.exists().then(|| store.to_owned())
}

/// Whether a path begins with another one. Case does not count, because some file systems ignore it.
fn starts_with_any_case(path: &Path, prefix: &Path) -> bool {
    let mut components = path.components();
    prefix.components().all(|expected| {
        let found = components.next();
        found.is_some_and(|found| found.as_os_str().eq_ignore_ascii_case(expected.as_os_str()))
    })
}

/// Whether a path leads to a device. Disks hold all files, and terminals hold what is typed.
fn is_device(path: &Path) -> bool {
    let is_device = |found: fs::Metadata| {
        found.file_type().is_block_device() || found.file_type().is_char_device()
    };
    fs::metadata(path).is_ok_and(is_device) && resolve(path) != Path::new(NULL_DEVICE)
}

/// The path without `.` and `..`, as if it had no links.
fn without_parents(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => {
                plain.pop();
            }
            Component::CurDir => {}
            other => plain.push(other),
        }
    }
    plain
}

/// Returns the folder of a process in `/proc` that contains a path. Such a folder gives access to the environment and
/// the open files of the process.
fn of_a_process(path: &Path) -> Option<PathBuf> {
    let inside = path.strip_prefix("/proc").ok()?;
    let Some(Component::Normal(process)) = inside.components().next() else { return None };
    let process = process.to_str()?;
    let is_process =
        process == "self" || process == "thread-self" || process.parse::<u32>().is_ok();
    is_process.then(|| Path::new("/proc").join(process))
}

/// The path with all links resolved, as far as it exists.
fn resolve(path: &Path) -> PathBuf {
    let mut rest: Vec<OsString> = Vec::new();
    let mut existing = path.to_owned();
    loop {
        match existing.canonicalize() {
            Ok(mut resolved) => {
                resolved.extend(rest.iter().rev());
                return resolved;
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(_) => return path.to_owned(),
        }
        match (existing.parent().map(Path::to_owned), existing.file_name()) {
            (Some(parent), Some(name)) => {
                rest.push(name.to_owned());
                existing = parent;
            }
            _ => return path.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests;
