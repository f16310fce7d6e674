//! Writes the core tools of an instance to a schema file, and validates scenarios against it.
//!
//! Unknown tools and misspelled arguments are found without running a scenario. Steps that expect a failure
//! may have both on purpose.

use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use muster_core::{name::is_behind_meta_tools, suggest::similar};
use muster_exec::launcher::Launcher;
use serde_json::{Map, Value, json};
use thiserror::Error;
use tokio::time::Instant;

use crate::{
    builtin,
    client::{CALL_TIMEOUT, Client, ClientError, NotificationStream},
    instance::{Instance, InstanceError, RunEnvironment},
    load::{self, ScenarioLoadError},
    options::RunOptions,
    report::RunVerdict,
    scenario::{Scenario, Step},
};

/// The timeout for listing the tools.
const LIMIT: Duration = Duration::from_secs(60);
/// Prefixes of tools that depend on the setup of a scenario.
const PREPARED: [&str; 3] = ["x_", "workflow_", "api_"];

/// Why a schema cannot be written or used.
#[derive(Debug, Error)]
pub enum SchemaError {
    /// The file cannot be read or written.
    #[error("cannot use `{}`: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The file is not a schema.
    #[error("`{}` is not a tool schema; create one with `muster test --generate-schema`", .0.display())]
    NotOurs(PathBuf),
    /// The instance did not start.
    #[error(transparent)]
    InstanceError(#[from] InstanceError),
    /// The tools cannot be listed.
    #[error("cannot list the tools of the instance: {0}")]
    Untold(#[from] ClientError),
    /// The scenarios cannot be loaded.
    #[error(transparent)]
    Load(#[from] ScenarioLoadError),
    /// The output cannot be written.
    #[error(transparent)]
    Output(#[from] io::Error),
}

/// Starts an empty instance, lists its meta-tools and core tools, and writes their schemas.
pub async fn generate(
    options: &RunOptions,
    launcher: &Launcher,
    file: &Path,
    out: &mut (dyn Write + Send),
) -> Result<(), SchemaError> {
    let environment = RunEnvironment::new(launcher.clone(), options)?;
    let deadline = Instant::now() + LIMIT;
    let scenario = Scenario::empty("generate-schema");
    let mut instance = Instance::start(&Arc::new(environment), &scenario, deadline).await?;
    let target = instance.target(NotificationStream::Closed);
    let client = instance.ready(&target).await?;
    let mut tools = client.direct_tools(CALL_TIMEOUT).await?;
    tools.extend(core_tools(&client).await?);
    let schema = document(&tools);
    let count = schema.get("tools").and_then(Value::as_object).map_or(0, Map::len);
    fs::write(file, format!("{schema:#}\n"))
        .map_err(|source| SchemaError::File { path: file.to_owned(), source })?;
    writeln!(out, "📄 {}: {count} tools", file.display())?;
    drop(client);
    instance.stop().await;
    Ok(())
}

/// All core tools with their schemas, from all pages.
async fn core_tools(client: &Client) -> Result<Vec<Value>, ClientError> {
    let mut args = Map::new();
    args.insert("pattern".to_owned(), "core_*".into());
    args.insert("include_schema".to_owned(), true.into());
    args.insert("limit".to_owned(), 1000.into());
    let mut tools = Vec::new();
    let mut offset = 0;
    loop {
        let answer = client.call("filter_tools", Some(&args), CALL_TIMEOUT).await?;
        let page = answer.first_object().unwrap_or_default();
        tools.extend(page.get("tools").and_then(Value::as_array).into_iter().flatten().cloned());
        match page.get("next_offset").and_then(Value::as_u64) {
            Some(next) if next > offset => offset = next,
            Some(_) | None => return Ok(tools),
        }
        args.insert("offset".to_owned(), offset.into());
    }
}

fn document(tools: &[Value]) -> Value {
    let tools: Map<String, Value> = tools
        .iter()
        .filter_map(|tool| {
            let name = tool.get("name")?.as_str()?.to_owned();
            let schema = tool.get("inputSchema").cloned();
            let schema = schema.unwrap_or_else(|| json!({"type": "object"}));
            Some((name, json!({"description": tool.get("description"), "inputSchema": schema})))
        })
        .collect();
    json!({"title": "tools of muster", "tools": tools})
}

/// Checks the format of every scenario, and its steps against a schema if there is one.
pub fn validate(
    scenarios: &Path,
    schema: Option<&Path>,
    out: &mut (dyn Write + Send),
) -> Result<RunVerdict, SchemaError> {
    let tools = schema.map(read).transpose()?;
    let loaded = load::load(scenarios)?;
    let mut errors = 0;
    for loaded in &loaded {
        let steps = loaded.scenario.iter().flat_map(|scenario| {
            let problems = scenario.all_steps().filter_map(|step| {
                let problem = tools.as_ref().and_then(|tools| check(step, tools))?;
                Some(format!("{}: line {}: {problem}", scenario.file.display(), step.line))
            });
            problems.collect::<Vec<_>>()
        });
        for error in loaded.errors().chain(steps) {
            errors += 1;
            writeln!(out, "❌ {error}")?;
        }
        for warning in loaded.warnings() {
            writeln!(out, "⚠️  {warning}")?;
        }
    }
    if tools.is_none() {
        writeln!(out, "ℹ️  without a schema the tools of steps are not checked")?;
    }
    writeln!(out, "{} files checked, {errors} errors", loaded.len())?;
    Ok(if errors == 0 { RunVerdict::Passed } else { RunVerdict::Failed })
}

fn read(file: &Path) -> Result<Map<String, Value>, SchemaError> {
    let text = fs::read_to_string(file)
        .map_err(|source| SchemaError::File { path: file.to_owned(), source })?;
    let schema: Option<Value> = serde_json::from_str(&text).ok();
    let tools = schema.as_ref().and_then(|schema| schema.get("tools")?.as_object());
    tools.cloned().ok_or_else(|| SchemaError::NotOurs(file.to_owned()))
}

/// The problem of a step, if its tool does not depend on the setup.
fn check(step: &Step, tools: &Map<String, Value>) -> Option<String> {
    let (id, tool) = (&step.id, step.tool.as_str());
    let near = |names: &[&str]| match similar(tool, names.iter().copied()).first() {
        Some(near) => format!(", did you mean `{near}`?"),
        None => String::new(),
    };
    if tool.starts_with(builtin::PREFIX) {
        let unknown = !builtin::TOOLS.contains(&tool);
        return unknown
            .then(|| format!("step `{id}`: unknown test tool `{tool}`{}", near(&builtin::TOOLS)));
    }
    if PREPARED.iter().any(|prefix| tool.starts_with(prefix)) {
        return None;
    }
    let Some(known) = tools.get(tool) else {
        let names: Vec<&str> = tools.keys().map(String::as_str).collect();
        let message = format!("step `{id}`: unknown tool `{tool}`{}", near(&names));
        return step.expected.success.then_some(message);
    };
    // The schema of a meta-tool does not list every argument.
    if !step.expected.success || !is_behind_meta_tools(tool) {
        return None;
    }
    let problem = arguments(step.args.as_ref(), known.get("inputSchema")?)?;
    Some(format!("step `{id}`: {tool}: {problem}"))
}

fn arguments(args: Option<&Map<String, Value>>, schema: &Value) -> Option<String> {
    let properties = schema.get("properties").and_then(Value::as_object);
    let names: Vec<&str> = properties.into_iter().flat_map(Map::keys).map(String::as_str).collect();
    let given = args.into_iter().flat_map(Map::keys);
    let unknown = given.into_iter().find(|name| !names.contains(&name.as_str()));
    if let (Some(unknown), Some(_)) = (unknown, properties) {
        let near = similar(unknown, names.iter().copied());
        let near = near.first().map(|near| format!(", did you mean `{near}`?"));
        return Some(format!("unknown argument `{unknown}`{}", near.unwrap_or_default()));
    }
    let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
    let missing = required
        .filter_map(Value::as_str)
        .find(|name| !args.is_some_and(|args| args.contains_key(*name)));
    missing.map(|name| format!("missing argument `{name}`"))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use expect_test::expect;
    use serde_json::json;

    use super::{document, validate};
    use crate::report::RunVerdict;

    #[test]
    fn steps_are_validated_against_the_schema() {
        let dir = tempfile::tempdir().unwrap();
        let schema = dir.path().join("schema.json");
        let tools = [
            json!({"name": "core_config_get"}),
            json!({"name": "list_tools"}),
            json!({"name": "core_service_status", "inputSchema": {
                "properties": {"name": {"type": "string"}}, "required": ["name"]}}),
        ];
        fs::write(&schema, document(&tools).to_string()).unwrap();
        let scenario = dir.path().join("a.yaml");
        let text = r#"
name: a
category: behavioral
concept: service
steps:
  - {id: fine, tool: core_service_status, args: {name: a}, expected: {success: true}}
  - {id: free, tool: core_config_get, args: {anything: 1}, expected: {success: true}}
  - {id: typo, tool: core_service_statu, args: {name: a}, expected: {success: true}}
  - {id: argument, tool: core_service_status, args: {nam: a}, expected: {success: true}}
  - {id: missing, tool: core_service_status, expected: {success: true}}
  - {id: on-purpose, tool: core_service_status}
  - {id: prepared, tool: x_a_b, expected: {success: true}}
  - {id: meta, tool: list_tools, expected: {success: true}}
  - {id: built-in, tool: test_create_usr}
"#;
        fs::write(&scenario, text).unwrap();
        let mut out = Vec::new();
        let verdict = validate(&scenario, Some(&schema), &mut out).unwrap();
        assert_eq!(verdict, RunVerdict::Failed);
        let dir = format!("{}/", dir.path().display());
        expect![[r#"
            ❌ a.yaml: line 8: step `typo`: unknown tool `core_service_statu`, did you mean `core_service_status`?
            ❌ a.yaml: line 9: step `argument`: core_service_status: unknown argument `nam`, did you mean `name`?
            ❌ a.yaml: line 10: step `missing`: core_service_status: missing argument `name`
            ❌ a.yaml: line 14: step `built-in`: unknown test tool `test_create_usr`, did you mean `test_create_user`?
            1 files checked, 4 errors
        "#]].assert_eq(&String::from_utf8(out).unwrap().replace(&dir, ""));
        let mut out = Vec::new();
        assert_eq!(validate(&scenario, None, &mut out).unwrap(), RunVerdict::Passed);
        assert!(validate(&scenario, Some(&scenario), &mut out).is_err());
    }
}
