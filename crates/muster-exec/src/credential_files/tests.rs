//! Paths to credentials, plain and in disguise.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use muster_core::arguments::{self, Arguments};
use serde_json::{Value, json};

use super::{CliConfig, refusal};
use crate::environment::Environment;

const CONFIG: &str = "\
name: files
command: env
credential_files: refuse
tools:
  - name: read
    description: d
    args:
      - {name: path, flag: --}
      - {name: joined, flag: path=}
      - {name: word, positional: true}
      - {name: lines, type: integer}
      - {name: input, stdin: true}
      - {name: directory, cwd: true}
  - name: search
    description: d
    args:
      - {name: pattern, flag: -e}
      - {name: path, flag: --, default: ., recursive: true}
      - {name: directory, cwd: true}
  - name: walk
    description: d
    args: [{name: directory, cwd: true, recursive: true}]
";

/// A home with credentials, a project, and links between them.
struct Home {
    dir: tempfile::TempDir,
    root: PathBuf,
    environment: Environment,
}

impl Home {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        for folder in [
            ".ssh",
            ".docker",
            "project/src",
            "project/backup/.ssh",
            "mounted/.aws",
            "elsewhere/keys",
            "other/.aws",
            "state",
            "kube",
            "config/gh",
        ] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        for file in [
            ".ssh/id_ed25519",
            ".docker/config.json",
            "project/a",
            "state/tokens.json",
            "project/backup/.ssh/id_ed25519",
            "mounted/.aws/credentials",
            "mounted/.aws/task.json",
            "kube/one",
            "kube/two",
            "config/gh/hosts.yml",
        ] {
            fs::write(root.join(file), "secret").unwrap();
        }
        symlink(root.join(".ssh"), root.join("project/link")).unwrap();
        symlink(root.join(".ssh/id_ed25519"), root.join("project/file-link")).unwrap();
        symlink(root.join("elsewhere/keys"), root.join(".gnupg")).unwrap();
        let passwd = format!("other:x:1:1::{}/other:/bin/sh\n", root.display());
        let at = |name: &str| root.join(name).display().to_string();
        let variables = [
            ("HOME", root.display().to_string()),
            ("KUBECONFIG", format!("{}::relative:{}", at("kube/one"), at("kube/two"))),
            ("XDG_CONFIG_HOME", at("config")),
            ("HISTFILE", "/dev/null".to_owned()),
        ];
        let variables = variables.map(|(name, value)| (name.to_owned(), value));
        let environment = Environment::new(variables, &passwd)
            .with_private_paths([root.join("state"), root.join("not-yet/secret")]);
        Self { dir, root, environment }
    }

    #[expect(clippy::needless_pass_by_value, reason = "reads better in the tables")]
    fn refusal(&self, config: &CliConfig, tool: &str, args: Value) -> Option<String> {
        let text = args.to_string().replace("~", &self.root.display().to_string());
        let tool = config.tools.iter().find(|one| one.name == tool).unwrap();
        let given = serde_json::value::RawValue::from_string(text).unwrap();
        let arguments = arguments::coerce(&tool.params, Arguments::from_json(&given)).unwrap();
        refusal(config, tool, &arguments, &self.environment)
    }
}

fn config(text: &str) -> CliConfig {
    muster_config::cli::parse(text).unwrap().value
}

#[test]
fn paths_to_credentials_are_refused() {
    let (home, config) = (Home::new(), config(CONFIG));
    let refused = [
        ("read", json!({"path": "~/.ssh/id_ed25519"})),
        ("read", json!({"path": "~/.ssh"})),
        ("read", json!({"path": "~/.ssh/../.ssh/new"})),
        ("read", json!({"path": "~/project/../.ssh/id_ed25519"})),
        ("read", json!({"path": "~/project/file-link"})),
        ("read", json!({"path": "~/project/link/id_ed25519"})),
        ("read", json!({"path": "~/project/link/not-yet"})),
        ("read", json!({"path": "~/.docker/config.json"})),
        ("read", json!({"path": "~/.aws/credentials"})),
        ("read", json!({"path": "~/elsewhere/keys/x"})),
        ("read", json!({"path": "~/state/tokens.json"})),
        ("read", json!({"path": "~/not-yet/secret"})),
        ("read", json!({"path": "~/other/.aws/credentials"})),
        ("read", json!({"path": "id_ed25519", "directory": "~/.ssh"})),
        ("read", json!({"path": "../.ssh/id_ed25519", "directory": "~/project"})),
        ("read", json!({"directory": "~/project/link"})),
        ("read", json!({"joined": "~/.ssh/id_ed25519"})),
        ("read", json!({"word": "~/.ssh/id_ed25519"})),
        ("read", json!({"word": "@~/.ssh/id_ed25519"})),
        ("read", json!({"word": "key=~/.ssh/id_ed25519"})),
        ("read", json!({"word": "key=@~/.ssh/id_ed25519"})),
        ("read", json!({"word": "file://~/.ssh/id_ed25519"})),
        ("read", json!({"path": "/proc/self/environ"})),
        ("read", json!({"path": "/proc/1/environ"})),
        ("read", json!({"path": "/proc/self/root~/.ssh/id_ed25519"})),
        ("read", json!({"path": "~/not-there/../.ssh/id_ed25519"})),
        ("read", json!({"path": "../not-there/../.ssh/id_ed25519", "directory": "~/project"})),
        ("read", json!({"path": "~/.SSH/id_ed25519"})),
        ("read", json!({"path": "~/project/backup/.ssh/id_ed25519"})),
        ("read", json!({"path": "~/mounted/.aws/credentials"})),
        ("read", json!({"path": "~/kube/one"})),
        ("read", json!({"path": "~/kube/two"})),
        ("read", json!({"path": "~/config/gh/hosts.yml"})),
        ("read", json!({"path": "~/.local/state/muster/gateways/8090.json"})),
        ("read", json!({"path": "/dev/tty"})),
        ("read", json!({"path": "/dev/full"})),
        ("read", json!({"path": "../full", "directory": "/dev/shm"})),
        ("search", json!({"pattern": "x", "path": "~/.ssh"})),
        ("search", json!({"pattern": "x", "path": "~/config"})),
        ("search", json!({"pattern": "x", "path": "~"})),
        ("search", json!({"pattern": "x", "path": "/"})),
        ("search", json!({"pattern": "x", "path": "/proc"})),
        ("search", json!({"pattern": "x", "path": "..", "directory": "~/project"})),
        ("search", json!({"pattern": "x", "directory": "~"})),
        ("search", json!({"pattern": "x", "path": "~/.docker"})),
        ("search", json!({"pattern": "x", "path": "~/other"})),
        ("walk", json!({"directory": "~"})),
    ];
    for (tool, args) in refused {
        let refusal = home.refusal(&config, tool, args.clone());
        assert!(refusal.is_some(), "{tool} {args}");
    }
    let allowed = [
        ("read", json!({"path": "~/project/a"})),
        ("read", json!({"path": "~/.sshd"})),
        ("read", json!({"path": "~/mounted/.aws/task.json"})),
        ("read", json!({"path": "~"})),
        ("read", json!({"path": "/etc/hostname", "lines": 3})),
        ("read", json!({"path": "/proc/cpuinfo"})),
        ("read", json!({"path": "/dev/null"})),
        ("read", json!({"path": "~/kube/three"})),
        ("read", json!({"input": "~/.ssh/id_ed25519"})),
        ("read", json!({"directory": "~"})),
        ("search", json!({"pattern": ".ssh", "directory": "~/project"})),
        ("search", json!({"pattern": "x", "path": "~/project/src", "directory": "~"})),
        ("walk", json!({"directory": "~/project"})),
    ];
    for (tool, args) in allowed {
        assert_eq!(home.refusal(&config, tool, args.clone()), None, "{tool} {args}");
    }
    assert!(home.dir.path().exists());
}

#[test]
fn a_config_may_allow_them() {
    let text = CONFIG.replace("credential_files: refuse\n", "");
    let home = Home::new();
    let args = json!({"path": "~/.ssh/id_ed25519"});
    assert_eq!(home.refusal(&config(&text), "read", args), None);
}

#[test]
fn refusals_name_the_file_and_the_store() {
    let (home, config) = (Home::new(), config(CONFIG));
    let told = |tool: &str, args| {
        let refusal = home.refusal(&config, tool, args).unwrap();
        refusal.replace(&*home.root.to_string_lossy(), "~")
    };
    assert_eq!(
        told("read", json!({"path": "~/project/file-link"})),
        "`~/project/file-link` belongs to `~/.ssh`, which holds credentials, and this CLI does not open such files"
    );
    assert_eq!(
        home.refusal(&config, "read", json!({"path": "/dev/full"})).unwrap(),
        "`/dev/full` is a device, and this CLI does not open devices"
    );
    assert_eq!(
        told("search", json!({"pattern": "x", "path": "~"})),
        "`~` contains `~/.ssh`, which holds credentials, and this CLI does not search such folders; name a folder below it"
    );
}

#[test]
fn lists_are_relative_to_a_home() {
    assert!(super::IN_HOME.iter().all(|store| Path::new(store).is_relative()));
    assert!(super::OF_THE_SYSTEM.iter().all(|store| Path::new(store).is_absolute()));
}

#[test]
fn every_store_is_in_the_reference() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/config.md");
    let page = fs::read_to_string(page).unwrap();
    let in_home = super::IN_HOME.iter().map(|store| format!("`~/{store}`"));
    let others = super::OF_THE_SYSTEM.iter().chain(super::IN_VARIABLES).chain(super::IN_ANY_FOLDER);
    let stores = in_home.chain(others.map(|store| format!("`{store}`")));
    for store in stores {
        assert!(page.contains(&store), "{store}");
    }
}
