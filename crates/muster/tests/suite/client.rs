//! A client of the real binary over its standard streams, and a folder to run it in.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio},
};

use serde_json::{Value, json};

pub(crate) const CLIMAX: &str = env!("CARGO_BIN_EXE_climax");

/// A folder of files that goes away with the test.
#[derive(Debug)]
pub(crate) struct Folder(tempfile::TempDir);

impl Folder {
    pub(crate) fn new(files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        Self(folder)
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Runs a command to its end in this folder.
    pub(crate) fn climax(&self, words: &[&str]) -> Output {
        Command::new(CLIMAX)
            .args(words)
            .current_dir(self.path())
            .env("HOME", self.path())
            .env_remove("XDG_DATA_HOME")
            .env_remove("CLIMAX_LOG_FILE")
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }

    /// Starts a server in this folder.
    pub(crate) fn serve(&self, words: &[&str]) -> Client {
        self.serve_by(CLIMAX, words)
    }

    /// Starts a server of one of the programs in this folder.
    pub(crate) fn serve_by(&self, program: &str, words: &[&str]) -> Client {
        let mut child = Command::new(program)
            .args(words)
            .current_dir(self.path())
            .env("HOME", self.path())
            .env("TMPDIR", self.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Client { child, stdin, stdout, last_id: 0 }
    }
}

/// The conversation of an exit code, stdout and stderr, for snapshots.
pub(crate) fn transcript(output: &Output, folder: &Folder) -> String {
    let text = |bytes: &[u8]| {
        String::from_utf8_lossy(bytes).replace(&folder.path().display().to_string(), "[FOLDER]")
    };
    format!(
        "exit code: {}\n----- stdout -----\n{}----- stderr -----\n{}",
        output.status.code().map_or("none".to_owned(), |code| code.to_string()),
        text(&output.stdout),
        text(&output.stderr)
    )
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    last_id: u64,
}

impl Client {
    pub(crate) fn send_line(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().unwrap();
        writeln!(stdin, "{line}").unwrap();
        stdin.flush().unwrap();
    }

    pub(crate) fn send(&mut self, method: &str, params: Value) -> u64 {
        self.last_id += 1;
        let message =
            json!({"jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params});
        self.send_line(&message.to_string());
        self.last_id
    }

    pub(crate) fn notify(&mut self, method: &str, params: Value) {
        self.send_line(&json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string());
    }

    pub(crate) fn receive_line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        line
    }

    /// The line that answers a request; notices on the way are passed over.
    pub(crate) fn receive_answer_line(&mut self, id: u64) -> String {
        loop {
            let line = self.receive_line();
            assert!(!line.is_empty(), "the server left without an answer");
            let message: Value = serde_json::from_str(&line).unwrap();
            if message["id"] == json!(id) {
                return line;
            }
            assert!(message.get("method").is_some(), "an answer to no question: {line}");
        }
    }

    pub(crate) fn receive(&mut self) -> Value {
        let line = self.receive_line();
        serde_json::from_str(&line).unwrap_or_else(|err| panic!("{err}: {line:?}"))
    }

    /// Asks, and waits for the answer to that question.
    pub(crate) fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params);
        let answer = self.receive();
        assert_eq!(answer["id"], json!(id), "{answer}");
        answer
    }

    pub(crate) fn initialize(&mut self) -> Value {
        let answer = self.ask(
            "initialize",
            json!({"protocolVersion": "2025-11-25", "capabilities": {},
                   "clientInfo": {"name": "test", "version": "1"}}),
        );
        self.notify("notifications/initialized", json!({}));
        answer
    }

    pub(crate) fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.ask("tools/call", json!({"name": tool, "arguments": arguments}))["result"].take()
    }

    pub(crate) fn climax_call(&mut self, tool: &str, args: Value) -> Value {
        self.call("climax_call", json!({"tool_name": tool, "args": args}))
    }

    /// Closes our end; the server sees the end of its input.
    pub(crate) fn hang_up(&mut self) {
        drop(self.stdin.take());
    }

    /// Closes both ends, as a client that was killed does.
    pub(crate) fn vanish(&mut self) {
        drop(self.stdin.take());
        let (nobody, _) = std::os::unix::net::UnixStream::pair().unwrap();
        let nobody = ChildStdout::from(std::os::fd::OwnedFd::from(nobody));
        drop(std::mem::replace(&mut self.stdout, BufReader::new(nobody)));
    }

    /// Hangs up and waits for the exit code.
    pub(crate) fn leave(mut self) -> Option<i32> {
        self.hang_up();
        self.child.wait().unwrap().code()
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        drop(self.stdin.take());
        // Already gone when the test said goodbye itself.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
