//! Commands that run something: call, workflow, prompt.

use muster_api::execution::{ExecutionReply, StepStatus};
use muster_client::{inventory::ToolInfo, remote::tool_response::ToolResponse};
use muster_core::json::raw;
use serde_json::{Map, Value};

use super::{
    ReplError, Shell,
    arguments::{self, BadJson},
    commands::Spec,
    format,
    inspect::text,
};

impl Shell {
    pub(super) async fn call(&self, spec: &Spec, rest: &str) -> Result<(), ReplError> {
        let (tool, rest) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        if tool.is_empty() {
            return Err(ReplError::usage(spec));
        }
        let inventory = self.inventory();
        let about = inventory.tool(tool);
        let arguments = match arguments::arguments(rest) {
            Ok(arguments) => arguments,
            Err(BadJson { position, reason }) => {
                self.say(&format!("Invalid JSON at position {position}: {reason}"));
                self.say("Write one JSON object, such as {\"key\": \"value\"}, or key=value words");
                if let Some(about) = about {
                    self.explain(about);
                }
                return Ok(());
            }
        };
        let needs = about.is_some_and(|tool| tool.parameters().iter().any(|one| one.required));
        if let (true, true, Some(about)) = (arguments.is_empty(), needs, about) {
            self.explain(about);
            return Ok(());
        }
        self.say(&format!("Executing tool: {tool}..."));
        let answer = self.execute(tool, &arguments).await?;
        self.say(&format::answer(&answer));
        Ok(())
    }

    async fn execute(
        &self,
        tool: &str,
        arguments: &Map<String, Value>,
    ) -> Result<ToolResponse, ReplError> {
        let called = self.remote()?.call(tool, &raw(arguments)).await;
        called.map_err(|err| ReplError::new(format!("Tool execution failed: {err}")))
    }

    /// Shows the parameters of a tool.
    fn explain(&self, tool: &ToolInfo) {
        self.say(&format!("Tool: {}", tool.name));
        self.say(&format!("Description: {}\n", tool.description));
        let parameters = tool.parameters();
        self.say("Parameters:");
        for one in &parameters {
            let mark = if one.required { "*" } else { " " };
            self.say(&format!("  {mark} {} ({})", one.name, one.kind));
            if !one.description.is_empty() {
                self.say(&format!("      {}", one.description));
            }
        }
        self.say("  * = required parameter");
        let required: Vec<&str> =
            parameters.iter().filter(|one| one.required).map(|one| one.name).collect();
        let words: Vec<String> = required.iter().map(|name| format!("{name}=<value>")).collect();
        let members: Vec<String> =
            required.iter().map(|name| format!("\"{name}\": \"<value>\"")).collect();
        self.say("\nUsage examples:");
        self.say(&format!("  call {} {}", tool.name, words.join(" ")));
        self.say(&format!("  call {} {{{}}}", tool.name, members.join(", ")));
    }

    pub(super) async fn workflow(&self, spec: &Spec, rest: &str) -> Result<(), ReplError> {
        let (name, rest) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        if name.is_empty() {
            return Err(ReplError::usage(spec));
        }
        self.say(&format!("Executing workflow: {name}..."));
        let answer = self.execute(&format!("workflow_{name}"), &arguments::texts(rest)).await?;
        let text = answer.texts().first().copied().unwrap_or_default();
        let Ok(execution) = serde_json::from_str::<ExecutionReply>(text) else {
            self.say(&format::answer(&answer));
            return Ok(());
        };
        let (icon, status) = match answer.failed {
            true => ("❌", StepStatus::Failed),
            false => ("✅", StepStatus::Completed),
        };
        self.say(&format!("Execution ID: {}", execution.execution_id()));
        self.say(&format!("Workflow: {name}"));
        self.say(&format!("Status: {icon} {}", status.as_str()));
        let (error, input) = match execution {
            ExecutionReply::Report(report) => (report.error, report.input),
            ExecutionReply::Output(members) => {
                let error = members.get("error").filter(|_| answer.failed);
                (error.and_then(Value::as_str).map(str::to_owned), Map::new())
            }
        };
        if let Some(error) = error {
            self.say(&format!("Error: {error}"));
        }
        let mut input: Vec<(&String, &Value)> = input.iter().collect();
        input.sort_unstable_by_key(|(key, _)| *key);
        if !input.is_empty() {
            self.say("Input:");
        }
        for (key, value) in input {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            self.say(&format!("  {key}: {value}"));
        }
        Ok(())
    }

    pub(super) async fn prompt(&self, spec: &Spec, rest: &str) -> Result<(), ReplError> {
        let (name, rest) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        if name.is_empty() {
            return Err(ReplError::usage(spec));
        }
        let arguments = arguments::arguments(rest).map_err(|bad| {
            ReplError::new(format!("Invalid JSON at position {}: {}", bad.position, bad.reason))
        })?;
        let words = arguments.into_iter().map(|(key, value)| match value {
            Value::String(text) => (key, text),
            other => (key, other.to_string()),
        });
        let arguments: Map<String, Value> =
            words.map(|(key, text)| (key, Value::String(text))).collect();
        self.say(&format!("Getting prompt: {name}..."));
        let failed = |err| ReplError::new(format!("Failed to get prompt: {err}"));
        let result = self.remote()?.prompt(name, &raw(&arguments)).await.map_err(failed)?;
        let result: Value = serde_json::from_str(result.get()).unwrap_or_default();
        self.say("Messages:");
        let messages = result.get("messages").and_then(Value::as_array);
        for (number, message) in (1..).zip(messages.into_iter().flatten()) {
            self.say(&format!("\n[{number}] Role: {}", text(message, "role")));
            let content = message.get("content").unwrap_or(&Value::Null);
            match content.get("text").and_then(Value::as_str) {
                Some(text) => self.say(&format!("Content: {text}")),
                None => self.say(&format!("Content: {}", format::json(content))),
            }
        }
        Ok(())
    }
}
