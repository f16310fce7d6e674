//! A gateway with a server behind it and a user at a terminal, for tests of commands: exit code, standard
//! output and standard error of each, through the real binary and a real `muster serve`.

use std::{
    fmt::Write as _,
    process::{Command, Stdio},
};

use expect_test::Expect;

use super::{
    client::Folder,
    serve::{Gateway, MUSTER},
};

/// Searches go by words only: the index by meaning is ready some time after the first search.
const CONFIG: &str = "aggregator: {port: 0}\nclis: {bundled: none}\nsearch: {model: false}\n";

const MOCK: &str = "\
tools:
  - name: greet
    description: Greet somebody
    input_schema:
      type: object
      required: [name]
      properties:
        name: {type: string, description: The name to greet}
        times: {type: integer, default: 1}
    responses:
      - response: {greeting: \"hello {{ .name }}\"}
";

const DEPLOY: &str = "\
name: deploy
description: Greet the owner of an environment
args:
  environment: {type: string, required: true, description: Where it goes}
  replicas: {type: integer, default: 1}
steps:
  - id: greet
    tool: x_github_greet
    args: {name: \"{{ .input.environment }}\"}
";

const BROKEN: &str = "\
name: broken
description: Greet nobody
steps:
  - {id: greet, tool: x_github_greet}
";

const FORWARD: &str = "\
name: port-forward
description: A greeting that stays
args:
  namespace: {type: string, required: true}
  port: {type: integer, default: 8080}
serviceConfig:
  lifecycleTools:
    start: {tool: x_github_greet, args: {name: \"{{ .args.namespace }}\"}}
    stop: {tool: x_github_greet, args: {name: \"{{ .args.namespace }}\"}}
";

/// A gateway with a server behind it, and a user with a home.
pub(crate) struct Desk {
    pub(crate) gateway: Gateway,
    pub(crate) home: Folder,
}

impl Desk {
    pub(crate) fn new() -> Self {
        let home = Folder::new(&[("mock.yaml", MOCK)]);
        let mock = home.file("mock.yaml");
        let github = format!(
            "name: github\ntype: stdio\nautoStart: false\ncommand: {MUSTER}\nargs: [test, --mock-mcp-server, --mock-config, {}]\n",
            mock.display()
        );
        let files = [
            ("config.yaml", CONFIG),
            ("mcpservers/github.yaml", &*github),
            ("workflows/deploy.yaml", DEPLOY),
            ("workflows/broken.yaml", BROKEN),
            ("serviceclasses/port-forward.yaml", FORWARD),
        ];
        Self { gateway: Gateway::start(&files, &[]), home }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://localhost:{}/mcp", self.gateway.port)
    }

    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(MUSTER);
        command
            .env("HOME", self.home.path())
            .env("MUSTER_ENDPOINT", self.url())
            .env("TZ", "UTC")
            .env_remove("MUSTER_CONTEXT")
            .env_remove("MUSTER_AUTH_MODE")
            .env_remove("MUSTER_RELEASES_URL")
            .stdin(Stdio::null());
        command
    }

    /// A command and all that came of it.
    pub(crate) fn run(&self, words: &[&str]) -> String {
        let output = self.command().args(words).output().unwrap();
        let mut said = format!("$ muster {}\n", self.settled(words.join(" ").as_bytes()));
        said.push_str(&self.settled(&output.stdout));
        for line in self.settled(&output.stderr).lines() {
            writeln!(said, "{}", format!("stderr: {line}").trim_end()).unwrap();
        }
        match output.status.code() {
            Some(0) => (),
            code => writeln!(said, "exit {}", code.unwrap()).unwrap(),
        }
        said
    }

    /// What differs between two runs of the same is left out.
    pub(crate) fn settled(&self, bytes: &[u8]) -> String {
        let text = String::from_utf8_lossy(bytes)
            .replace(&format!(":{}", self.gateway.port), ":[PORT]")
            .replace(&self.home.path().display().to_string(), "[HOME]")
            .replace(MUSTER, "[MUSTER]");
        let mut settled = String::new();
        for line in text.split_inclusive('\n') {
            settled.push_str(&without_times(line));
        }
        settled
    }

    #[track_caller]
    pub(crate) fn check(&self, commands: &[&[&str]], expect: Expect) {
        let said: String = commands.iter().map(|words| self.run(words)).collect();
        expect.assert_eq(&said);
    }
}

/// `2026-02-03 04:05:06` as `[TIME]`.
fn without_times(line: &str) -> String {
    const SHAPE: &[u8] = b"dddd-dd-ddtdd:dd:dd";
    let mut rest = line;
    let mut settled = String::new();
    while let Some(letter) = rest.chars().next() {
        let is_time = rest.as_bytes().get(..SHAPE.len()).is_some_and(|found| {
            found.iter().zip(SHAPE).all(|(byte, shape)| match shape {
                b'd' => byte.is_ascii_digit(),
                b't' => matches!(byte, b' ' | b'T'),
                shape => byte == shape,
            })
        });
        let length = if is_time { SHAPE.len() } else { letter.len_utf8() };
        let (text, behind) = rest.split_at(length);
        settled.push_str(if is_time { "[TIME]" } else { text });
        rest = behind;
    }
    settled
}
