//! `muster test --mcp-server`: the runner as an MCP server on stdio, so that an agent can run scenarios and
//! read the results.

use std::{future::pending, io, path::PathBuf, time::Duration};

use muster_exec::launcher::Launcher;
use serde_json::{Map, Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader},
    time::timeout,
};

use crate::{
    load::{self, LoadedFile},
    options::{Category, Concept, OnFailure, RunOptions, Selection, Verbosity},
    report::{Report, human, json as json_report},
    run,
    wire::{self, INVALID_PARAMS, METHOD_NOT_FOUND, Message, RpcError, text_result},
};

/// The timeout of a run.
const RUN_LIMIT: Duration = Duration::from_secs(30);
/// The upper limit of `parallel`.
const MAX_PARALLEL: u64 = 10;

/// Serves one client until it disconnects. Requests are handled one after the other: runs share ports.
pub async fn serve(
    options: &RunOptions,
    launcher: &Launcher,
    input: impl AsyncRead + Unpin,
    mut output: impl AsyncWrite + Unpin,
) -> io::Result<()> {
    let mut server = ScenarioServer { options, launcher, last: None };
    let mut lines = BufReader::new(input).lines();
    while let Some(line) = lines.next_line().await? {
        let Some(Message::Request { id, method, params }) = wire::parse(&line) else { continue };
        let outcome = server.answer(&method, &params).await;
        output.write_all(format!("{}\n", wire::answer(&id, &outcome)).as_bytes()).await?;
        output.flush().await?;
    }
    Ok(())
}

struct ScenarioServer<'a> {
    options: &'a RunOptions,
    launcher: &'a Launcher,
    last: Option<Report>,
}

impl ScenarioServer<'_> {
    async fn answer(&mut self, method: &str, params: &Value) -> Result<Value, RpcError> {
        match method {
            "initialize" => Ok(json!({
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "muster-test", "version": env!("CARGO_PKG_VERSION")},
            })),
            "ping" => Ok(json!({})),
            "tools/list" => Ok(json!({"tools": tools()})),
            "tools/call" => {
                let args = params.get("arguments").and_then(Value::as_object).cloned();
                let args = args.unwrap_or_default();
                let name = params.get("name").and_then(Value::as_str).unwrap_or_default();
                let outcome = match name {
                    "test_run_scenarios" => self.run(&args).await,
                    "test_list_scenarios" => self.list(&args),
                    "test_validate_scenario" => validate(&args),
                    "test_get_results" => self.results(),
                    other => {
                        let text = format!("tool '{other}' not found: tool not found");
                        return Err(RpcError::new(INVALID_PARAMS, text));
                    }
                };
                Ok(match outcome {
                    Ok(text) => text_result(&text),
                    Err(text) => {
                        json!({"content": [{"type": "text", "text": text}], "isError": true})
                    }
                })
            }
            _ => Err(RpcError::new(METHOD_NOT_FOUND, format!("Method not found: {method}"))),
        }
    }

    async fn run(&mut self, args: &Map<String, Value>) -> Result<String, String> {
        let mut options = self.options.clone();
        options.selection = selection(args)?;
        options.config = path(args, "config_path").unwrap_or(options.config);
        options.timeout = RUN_LIMIT;
        let parallel = args.get("parallel").and_then(Value::as_u64);
        if let Some(parallel) = parallel {
            let allowed = (1..=MAX_PARALLEL).contains(&parallel);
            let parallel = usize::try_from(parallel).ok().filter(|_| allowed);
            options.parallel = parallel.ok_or("parallel must be between 1 and 10")?;
        }
        let truth = |name: &str| args.get(name).and_then(Value::as_bool).unwrap_or_default();
        if truth("fail_fast") {
            options.on_failure = OnFailure::Stop;
        }
        if truth("verbose") {
            options.verbosity = Verbosity::Verbose;
        }
        let mut progress = Vec::new();
        // The run has its own timeout; this one guards against a stuck runner.
        let ran =
            timeout(RUN_LIMIT * 2, run::report(&options, self.launcher, pending(), &mut progress))
                .await;
        let report = ran.map_err(|_| "the run did not stop")?.map_err(|err| err.to_string())?;
        let text = format!("{}{}", String::from_utf8_lossy(&progress), human::summary(&report));
        self.last = Some(report);
        Ok(text)
    }

    fn list(&self, args: &Map<String, Value>) -> Result<String, String> {
        let config = path(args, "config_path").unwrap_or_else(|| self.options.config.clone());
        let loaded = load::load(&config).map_err(|err| err.to_string())?;
        let selection = selection(args)?;
        let (chosen, left_out) = load::choose(loaded, &selection).map_err(|err| err.to_string())?;
        let scenarios: Vec<Value> = chosen
            .iter()
            .chain(&left_out)
            .map(|scenario| {
                json!({
                    "name": scenario.name,
                    "category": scenario.category,
                    "concept": scenario.concept,
                    "description": scenario.description,
                    "tags": scenario.tags,
                    "steps": scenario.steps.len(),
                    "skip": scenario.skip,
                    "file": scenario.file.display().to_string(),
                })
            })
            .collect();
        Ok(json!({"total": scenarios.len(), "scenarios": scenarios}).to_string())
    }

    fn results(&self) -> Result<String, String> {
        let report = self.last.as_ref().ok_or("no scenarios have been run yet")?;
        Ok(json_report::document(report, &Value::Null))
    }
}

fn validate(args: &Map<String, Value>) -> Result<String, String> {
    let path = path(args, "scenario_path").ok_or("scenario_path argument is required")?;
    let loaded = load::load(&path).map_err(|err| err.to_string())?;
    let errors: Vec<String> = loaded.iter().flat_map(LoadedFile::errors).collect();
    let warnings: Vec<String> = loaded.iter().flat_map(LoadedFile::warnings).collect();
    let valid = errors.is_empty();
    Ok(json!({"valid": valid, "files": loaded.len(), "errors": errors, "warnings": warnings})
        .to_string())
}

fn selection(args: &Map<String, Value>) -> Result<Selection, String> {
    let text = |name: &str| args.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    Ok(Selection {
        category: text("category").map(Category::parse).transpose()?,
        concept: text("concept").map(Concept::parse).transpose()?,
        scenario: text("scenario").map(str::to_owned),
        ..Selection::default()
    })
}

fn path(args: &Map<String, Value>, name: &str) -> Option<PathBuf> {
    args.get(name).and_then(Value::as_str).filter(|text| !text.is_empty()).map(PathBuf::from)
}

fn tools() -> Value {
    let text = |description: &str| json!({"type": "string", "description": description});
    let filters = json!({
        "category": text("behavioral or integration"),
        "concept": text("serviceclass, workflow, mcpserver or service"),
        "scenario": text("the exact name of one scenario"),
        "config_path": text("a scenario file or a directory of them"),
    });
    let mut running = filters.clone();
    if let Some(running) = running.as_object_mut() {
        let number = json!({"type": "integer", "minimum": 1, "maximum": MAX_PARALLEL});
        running.insert("parallel".to_owned(), number);
        running.insert("fail_fast".to_owned(), json!({"type": "boolean"}));
        running.insert("verbose".to_owned(), json!({"type": "boolean"}));
    }
    let tool = |name: &str, description: &str, properties: Value, required: &[&str]| {
        json!({
            "name": name,
            "description": description,
            "inputSchema": {"type": "object", "properties": properties, "required": required},
        })
    };
    json!([
        tool("test_run_scenarios", "Run test scenarios against muster", running, &[]),
        tool("test_list_scenarios", "List test scenarios", filters, &[]),
        tool(
            "test_validate_scenario",
            "Check scenario files without running them",
            json!({"scenario_path": text("a scenario file or a directory of them")}),
            &["scenario_path"],
        ),
        tool("test_get_results", "Get the results of the last run", json!({}), &[]),
    ])
}
