//! Commands that look at what there is: help, list, describe, filter, get.

use muster_client::{
    inventory::{MAX_TOKENS, json_text},
    remote::{no_arguments, tool_response::ToolResponse},
};
use muster_core::json::raw;
use serde_json::{Value, json};

use super::{
    ReplError, Shell,
    commands::{self, Spec},
    format,
};

impl Shell {
    pub(super) fn help(&self, word: &str) -> Result<(), ReplError> {
        if word.is_empty() {
            self.say("Available commands:");
            for spec in &commands::ALL {
                self.say(&format!("  {:<50} - {}", spec.usage, spec.description));
            }
            self.say("");
            self.say("Values of key=value are JSON where they can be, else text.");
            self.say("Keyboard: TAB completes, the arrows go through the history, Ctrl+R searches it, Ctrl+D leaves.");
            return Ok(());
        }
        let spec = commands::find(word)
            .ok_or_else(|| ReplError::new(format!("Unknown command: {word}")))?;
        self.say(&format!("Command: {}", spec.name));
        self.say(&format!("Description: {}", spec.description));
        self.say(&format!("Usage: {}", spec.usage));
        if !spec.aliases.is_empty() {
            self.say(&format!("Aliases: [{}]", spec.aliases.join(" ")));
        }
        Ok(())
    }

    pub(super) async fn list(&self, spec: &Spec, word: &str) -> Result<(), ReplError> {
        match word.to_lowercase().as_str() {
            "" => Err(ReplError::usage(spec)),
            "tools" | "tool" => self.list_tools().await,
            "resources" | "resource" => {
                let known = self.known();
                self.list_known(&known.resources, ("resources", "uri", 40));
                Ok(())
            }
            "prompts" | "prompt" => {
                let known = self.known();
                self.list_known(&known.prompts, ("prompts", "name", 30));
                Ok(())
            }
            "workflows" | "workflow" => self.list_workflows().await,
            "core-tools" | "core-tool" => self.list_core_tools().await,
            other => Err(ReplError::target(other, &commands::LISTS)),
        }
    }

    async fn list_tools(&self) -> Result<(), ReplError> {
        let remote = self.remote()?;
        let arguments = json!({"limit": 10_000, "max_tokens": MAX_TOKENS});
        let answer = read(&remote.call("list_tools", &raw(&arguments)).await?)?;
        let empty = Vec::new();
        let list = |key: &str| answer.get(key).and_then(Value::as_array).unwrap_or(&empty);
        let mut tools: Vec<(&str, String)> = list("tools")
            .iter()
            .map(|tool| (text(tool, "name"), format::brief(text(tool, "description"))))
            .collect();
        tools.sort_unstable();
        if tools.is_empty() {
            self.say("No tools available");
        } else {
            self.say(&format!("Available tools ({}):\n", tools.len()));
        }
        for (number, (name, description)) in (1..).zip(&tools) {
            self.say(&format::item(number, name, 30, description));
        }
        let total = answer.get("total").and_then(Value::as_u64).unwrap_or_default();
        if total > tools.len() as u64 {
            self.say(&format!(
                "\n{} more; find one with: filter tools <pattern>",
                total - tools.len() as u64
            ));
        }
        let locked = list("servers_requiring_auth");
        if !locked.is_empty() {
            self.say("\nServers requiring authentication:");
            for server in locked {
                let (name, tool) = (text(server, "name"), text(server, "auth_tool"));
                self.say(&format!("  - {name} (use '{tool}' to authenticate)"));
            }
        }
        Ok(())
    }

    fn list_known(&self, items: &[Value], (what, key, width): (&str, &str, usize)) {
        if items.is_empty() {
            return self.say(&format!("No {what} available."));
        }
        self.say(&format!("Available {what} ({}):\n", items.len()));
        for (number, one) in (1..).zip(items) {
            let description = Some(text(one, "description")).filter(|text| !text.is_empty());
            let description = format::brief(description.unwrap_or(text(one, "name")));
            self.say(&format::item(number, text(one, key), width, &description));
        }
    }

    async fn list_core_tools(&self) -> Result<(), ReplError> {
        self.say("Fetching core muster tools...");
        let remote = self.remote()?;
        let answer =
            read(&remote.call("list_core_tools", &raw(&json!({"max_tokens": MAX_TOKENS}))).await?)?;
        let tools = answer.get("tools").and_then(Value::as_array).cloned().unwrap_or_default();
        let total = answer.get("total_tools").and_then(Value::as_u64).unwrap_or_default();
        self.say(&format!("Core muster tools ({} found out of {total} total):\n", tools.len()));
        for (number, tool) in (1..).zip(&tools) {
            self.say(&format::item(
                number,
                text(tool, "name"),
                27,
                &format::brief(described(tool)),
            ));
        }
        Ok(())
    }

    async fn list_workflows(&self) -> Result<(), ReplError> {
        self.say("Fetching available workflows...");
        let remote = self.remote()?;
        let answer = read(&remote.call("core_workflow_list", &no_arguments()).await?)?;
        let workflows = answer.get("workflows").and_then(Value::as_array).cloned();
        let workflows = workflows.unwrap_or_default();
        if workflows.is_empty() {
            self.say("No workflows found");
            return Ok(());
        }
        self.say(&format!("Available workflows ({} found):\n", workflows.len()));
        for (number, workflow) in (1..).zip(&workflows) {
            let name = text(workflow, "name");
            let available = workflow.get("available") != Some(&Value::Bool(false));
            let state = if available { "[available]" } else { "[unavailable]" };
            let about = Some(text(workflow, "description")).filter(|text| !text.is_empty());
            let about = about.map(|text| format!(" - {text}")).unwrap_or_default();
            self.say(&format!("  {number}. {name:<20} {state}{about}"));
            let one = remote.call("core_workflow_get", &raw(&json!({"name": name}))).await?;
            let one = json_text(&one).unwrap_or_default();
            if let Some(args) = one.pointer("/workflow/args").and_then(Value::as_object)
                && !args.is_empty()
            {
                let names: Vec<&str> = args.keys().map(String::as_str).collect();
                self.say(&format!("     Parameters: {}", names.join(", ")));
            }
            if number < workflows.len() {
                self.say("");
            }
        }
        Ok(())
    }

    pub(super) async fn describe(&self, spec: &Spec, rest: &str) -> Result<(), ReplError> {
        let words: Vec<&str> = rest.split_whitespace().collect();
        let [kind, name, ..] = words.as_slice() else { return Err(ReplError::usage(spec)) };
        let known = self.known();
        match kind.to_lowercase().as_str() {
            "tool" | "tools" => {
                let remote = self.remote()?;
                let answer = remote.call("describe_tool", &raw(&json!({"name": name}))).await?;
                let tool = read(&answer)?;
                self.say(&format!("Tool: {}", text(&tool, "name")));
                self.say(&format!("Description: {}", text(&tool, "description")));
                self.say("Input Schema:");
                self.say(&format::json(tool.get("inputSchema").unwrap_or(&Value::Null)));
            }
            "resource" | "resources" => {
                let found = known.resources.iter().find(|one| text(one, "uri") == *name);
                let resource =
                    found.ok_or_else(|| ReplError::new(format!("Resource not found: {name}")))?;
                self.say(&format!("Resource: {}", text(resource, "uri")));
                self.say(&format!("Name: {}", text(resource, "name")));
                self.fields(resource, &[("Description", "description"), ("MIME Type", "mimeType")]);
            }
            "prompt" | "prompts" => {
                let found = known.prompts.iter().find(|one| text(one, "name") == *name);
                let prompt =
                    found.ok_or_else(|| ReplError::new(format!("Prompt not found: {name}")))?;
                self.say(&format!("Prompt: {}", text(prompt, "name")));
                self.fields(prompt, &[("Description", "description")]);
                let arguments = prompt.get("arguments").and_then(Value::as_array);
                for (place, one) in arguments.into_iter().flatten().enumerate() {
                    if place == 0 {
                        self.say("Arguments:");
                    }
                    let needed = one.get("required") == Some(&Value::Bool(true));
                    let needed = if needed { " (required)" } else { "" };
                    let (name, about) = (text(one, "name"), text(one, "description"));
                    self.say(&format!("  - {name}{needed}: {about}"));
                }
            }
            other => return Err(ReplError::target(other, &commands::DESCRIBED)),
        }
        Ok(())
    }

    fn fields(&self, value: &Value, fields: &[(&str, &str)]) {
        for (label, key) in fields {
            if let Some(text) = value.get(key).and_then(Value::as_str) {
                self.say(&format!("{label}: {text}"));
            }
        }
    }

    pub(super) async fn filter(&self, spec: &Spec, rest: &str) -> Result<(), ReplError> {
        let words: Vec<&str> = rest.split_whitespace().collect();
        let Some((target, rest)) = words.split_first() else { return Err(ReplError::usage(spec)) };
        if !matches!(target.to_lowercase().as_str(), "tools" | "tool") {
            return Err(ReplError::target(target, &["tools"]));
        }
        let place = |at: usize| rest.get(at).copied().filter(|word| *word != "\"\"");
        let (pattern, description) = (place(0), place(1));
        let is_true = |at: usize| rest.get(at).is_some_and(|word| *word == "true");
        let (case_sensitive, detailed) = (is_true(2), is_true(3));
        let mut arguments = json!({
            "case_sensitive": case_sensitive, "include_schema": detailed, "limit": 1000,
            "max_tokens": MAX_TOKENS});
        for (key, value) in [("pattern", pattern), ("description_filter", description)] {
            if let (Some(value), Some(arguments)) = (value, arguments.as_object_mut()) {
                arguments.insert(key.to_owned(), json!(value));
            }
        }
        let remote = self.remote()?;
        let answer = read(&remote.call("filter_tools", &raw(&arguments)).await?)?;
        let tools = answer.get("tools").and_then(Value::as_array).cloned().unwrap_or_default();
        let total = answer.get("total_tools").and_then(Value::as_u64).unwrap_or_default();
        self.lines.info("Filtering tools with:");
        for (label, value) in [("Pattern", pattern), ("Description filter", description)] {
            if let Some(value) = value {
                self.lines.info(&format!("  {label}: {value}"));
            }
        }
        self.lines.info(&format!("  Case sensitive: {case_sensitive}"));
        self.lines.info(&format!("Results: {} of {total} tools match", tools.len()));
        if tools.is_empty() {
            self.say("No tools match the specified filters.");
            return Ok(());
        }
        self.say("Matching tools:");
        for (number, tool) in (1..).zip(&tools) {
            let (name, about) = (text(tool, "name"), described(tool));
            if !detailed {
                self.say(&format::item(number, name, 30, &format::brief(about)));
                continue;
            }
            self.say(&format!(
                "{}\n{number}. {name}\n   {about}\n{}",
                "=".repeat(60),
                "-".repeat(40)
            ));
            self.say(&format::json(tool.get("inputSchema").unwrap_or(&Value::Null)));
        }
        Ok(())
    }

    pub(super) async fn get(&self, spec: &Spec, uri: &str) -> Result<(), ReplError> {
        if uri.is_empty() {
            return Err(ReplError::usage(spec));
        }
        self.say(&format!("Retrieving resource: {uri}..."));
        let failed = |err| ReplError::new(format!("Failed to get resource: {err}"));
        let result = self.remote()?.read(uri).await.map_err(failed)?;
        let result: Value = serde_json::from_str(result.get()).unwrap_or_default();
        self.say("Contents:");
        for part in result.get("contents").and_then(Value::as_array).into_iter().flatten() {
            match (part.get("text").and_then(Value::as_str), part.get("blob")) {
                (Some(text), _) => self.say(&format::pretty(text)),
                (None, Some(blob)) => {
                    let letters = blob.as_str().unwrap_or_default();
                    let padding = letters.bytes().rev().take_while(|byte| *byte == b'=').count();
                    let size = (letters.len() / 4 * 3).saturating_sub(padding);
                    self.say(&format!("[Binary data: {size} bytes]"));
                }
                (None, None) => self.say(&format::json(part)),
            }
        }
        Ok(())
    }
}

pub(super) fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// A tool in one line, which is called by two names.
fn described(tool: &Value) -> &str {
    Some(text(tool, "description")).filter(|text| !text.is_empty()).unwrap_or(text(tool, "summary"))
}

/// The document in an answer, or what the tool says is wrong.
fn read(answer: &ToolResponse) -> Result<Value, ReplError> {
    if answer.failed {
        return Err(ReplError::new(answer.texts().join("; ")));
    }
    Ok(json_text(answer).unwrap_or_default())
}
