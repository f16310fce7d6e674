//! `muster create`: creates servers, services, workflows and service classes.

mod definition;

use std::{path::PathBuf, process::ExitCode};

use clap::{Args, Subcommand};
use muster_api::service_class::ServiceClassInfo;
use muster_client::{
    import::moved_secrets::{MovedSecret, extract_secrets, store_secrets},
    local_gateway, secrets, user_dirs,
};
use muster_core::json::{Raw, RawObject};
use serde_json::{Value, json};

use super::{
    completion,
    gateway_args::{GatewayArgs, GatewaySession, one},
    resource_kinds,
    tool_args::ToolArgs,
};
use crate::{
    error::CommandError,
    output::{Printer, format::OutputFormat, next_step},
    process,
};

/// Create an MCP server, a service, a workflow or a service class
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  muster create mcpserver files --type stdio --command mcp-files --args /srv,/tmp
  muster create mcpserver search --type streamable-http --url https://search.example/mcp
  muster create service db-forward port-forward --namespace=db --port=5432
  muster create workflow --filename deploy.yaml")]
pub(crate) struct Create {
    #[command(subcommand)]
    resource: NewResource,
    #[command(flatten)]
    gateway: GatewayArgs,
}

#[derive(Debug, Subcommand)]
#[command(subcommand_value_name = "TYPE", subcommand_help_heading = "Types")]
enum NewResource {
    Mcpserver(Box<Server>),
    Service(Service),
    Workflow(definition::NewWorkflow),
    Serviceclass(definition::NewServiceClass),
    #[command(external_subcommand)]
    Unknown(Vec<String>),
}

/// Add an MCP server to the gateway
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  muster create mcpserver files --type stdio --command mcp-files --args /srv,/tmp
  muster create mcpserver files --type stdio --command mcp-files --env ROOT=/srv --autoStart
  muster create mcpserver search --type streamable-http --url https://search.example/mcp
  muster create mcpserver wiki --type streamable-http --url https://wiki.example/mcp --auth-type oauth --forward-token")]
struct Server {
    /// The name of the server
    name: String,
    /// The transport: stdio, streamable-http or sse
    #[arg(long = "type", value_name = "TYPE", add = completion::transports())]
    kind: Option<String>,
    /// Connect it now and whenever the gateway starts
    #[arg(long, visible_alias = "autoStart", value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    auto_start: Option<bool>,
    /// The program of a stdio server
    #[arg(long, value_name = "PROGRAM")]
    command: Option<String>,
    /// The arguments of the program, separated by commas
    #[arg(long, value_name = "WORDS", allow_hyphen_values = true)]
    args: Option<String>,
    /// The URL of a streamable-http or sse server
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// The connect timeout in seconds
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<u32>,
    /// The prefix of its tools, instead of its name
    #[arg(long, visible_alias = "toolPrefix", value_name = "TEXT")]
    tool_prefix: Option<String>,
    /// One line about it
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// An environment variable of the program (can be repeated); secrets are stored in files of their own if the gateway
    /// is on this machine
    #[arg(long, value_name = "KEY=VALUE")]
    env: Vec<String>,
    /// An HTTP header of every request (can be repeated)
    #[arg(long, value_name = "KEY=VALUE")]
    header: Vec<String>,
    /// How the gateway authenticates to it: oauth or none
    #[arg(long, visible_alias = "authType", value_name = "TYPE")]
    auth_type: Option<String>,
    /// The issuer of its authorization server
    #[arg(long, visible_alias = "authIssuer", value_name = "URL")]
    auth_issuer: Option<String>,
    /// The scopes to request, separated by spaces
    #[arg(long, visible_alias = "authScopes", value_name = "SCOPES", requires = "auth_issuer")]
    auth_scopes: Option<String>,
    /// Forward the caller's own token to it
    #[arg(long, visible_alias = "forwardToken", value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    forward_token: Option<bool>,
    /// Audiences that a forwarded token must have, separated by commas
    #[arg(long, visible_alias = "requiredAudiences", value_name = "AUDIENCES")]
    required_audiences: Option<String>,
}

/// Create a service of a service class
///
/// Write arguments as key=value, --key=value or --key value. They are converted to the types that the
/// class expects. --json sets all of them at once.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  muster create service db-forward port-forward --namespace=db --port=5432
  muster create service db-forward port-forward --json '{\"namespace\": \"db\"}'")]
struct Service {
    /// The name of the service
    name: Option<String>,
    /// The service class
    #[arg(value_name = "CLASS", add = completion::service_classes())]
    class: Option<String>,
    /// The arguments of the service
    #[arg(value_name = "KEY=VALUE", trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<String>,
}

pub(crate) fn run(args: &Create) -> Result<ExitCode, CommandError> {
    match &args.resource {
        NewResource::Mcpserver(server) => server.create(&args.gateway),
        NewResource::Service(service) => service.create(&args.gateway),
        NewResource::Workflow(workflow) => workflow.create(&args.gateway),
        NewResource::Serviceclass(class) => class.create(&args.gateway),
        NewResource::Unknown(words) => {
            let word = words.first().map(String::as_str).unwrap_or_default();
            Err(resource_kinds::unknown(
                word,
                &["serviceclass", "workflow", "service", "mcpserver"],
            ))
        }
    }
}

/// The arguments of a call, and the secrets to store before it.
struct ServerDefinition {
    arguments: Raw,
    secrets: Vec<MovedSecret>,
}

impl Server {
    fn create(&self, gateway: &GatewayArgs) -> Result<ExitCode, CommandError> {
        let config = local_config(gateway);
        let ServerDefinition { arguments, secrets } = self.definition(config.is_some())?;
        process::block_on(async {
            let session = gateway.open().await?;
            let known = one("name", &self.name);
            let exists = || async { session.request("core_mcpserver_get", &known).await };
            // Do not touch the secrets of a server that exists: its creation is going to fail.
            if let Some(config) = config.filter(|_| !secrets.is_empty())
                && exists().await?.failed
            {
                store_secrets(&config, &secrets)
                    .map_err(|error| CommandError::new(error.to_string()))?;
            }
            session.show("core_mcpserver_create", &arguments).await?;
            if matches!(session.style.format, OutputFormat::Table | OutputFormat::Wide) {
                let printer = Printer::stdout();
                for MovedSecret { origin, name, .. } in &secrets {
                    printer.line(&format!("{origin} is stored as {}", secrets::reference(name)))?;
                }
                let server = session.remote.reply("core_mcpserver_get", &known).await?;
                printer.line(&next_step::state_of(&server))?;
            }
            session.close().await;
            Ok(())
        })
    }

    /// Converts the flags to the definition of a server. With `stores_secrets`, secrets are replaced by references.
    fn definition(&self, stores_secrets: bool) -> Result<ServerDefinition, CommandError> {
        let mut secrets = Vec::new();
        let mut object = RawObject::new();
        object.set_value("name", &self.name);
        let texts = [
            ("type", &self.kind),
            ("command", &self.command),
            ("url", &self.url),
            ("toolPrefix", &self.tool_prefix),
            ("description", &self.description),
        ];
        for (key, text) in texts {
            if let Some(text) = text {
                object.set_value(key, text);
            }
        }
        if let Some(flag) = self.auto_start {
            object.set_value("autoStart", &flag);
        }
        if let Some(seconds) = self.timeout {
            object.set_value("timeout", &seconds);
        }
        if let Some(args) = &self.args {
            object.set_value("args", &words(args));
        }
        if let Some(auth) = self.auth() {
            object.set_value("auth", &auth);
        }
        for (key, flag, pairs) in
            [("env", "--env", &self.env), ("headers", "--header", &self.header)]
        {
            if pairs.is_empty() {
                continue;
            }
            let mut pairs = split(flag, pairs)?;
            if stores_secrets {
                pairs = extract_secrets(&self.name, pairs, &mut secrets);
            }
            let mut map = RawObject::new();
            for (key, value) in pairs {
                map.set_value(key, &value);
            }
            object.set_value(key, &map.to_raw());
        }
        Ok(ServerDefinition { arguments: object.to_raw(), secrets })
    }
}

impl Server {
    /// The `auth` section; `None` without a flag for it.
    fn auth(&self) -> Option<Value> {
        let mut auth = serde_json::Map::new();
        let mut put = |key: &str, value: Value| drop(auth.insert(key.to_owned(), value));
        if let Some(kind) = &self.auth_type {
            put("type", kind.as_str().into());
        }
        if let Some(flag) = self.forward_token {
            put("forwardToken", flag.into());
        }
        if let Some(audiences) = &self.required_audiences {
            put("requiredAudiences", json!(words(audiences)));
        }
        if let Some(issuer) = &self.auth_issuer {
            let mut server = json!({"issuer": issuer});
            if let (Some(server), Some(scopes)) = (server.as_object_mut(), &self.auth_scopes) {
                server.insert("scopes".to_owned(), scopes.as_str().into());
            }
            put("authorizationServer", server);
        }
        (!auth.is_empty()).then_some(Value::Object(auth))
    }
}

/// Splits a comma-separated list.
fn words(list: &str) -> Vec<&str> {
    list.split(',').map(str::trim).filter(|word| !word.is_empty()).collect()
}

/// The configuration directory of the gateway, if this user runs it on this machine.
fn local_config(gateway: &GatewayArgs) -> Option<PathBuf> {
    let folder = user_dirs::state_folder(&gateway.config_directory().ok()?, None).ok()?;
    let record = folder.owner()?.record?;
    let url = local_gateway::local_url(record.endpoint.as_deref()?);
    (gateway.target().ok()?.url == url).then_some(record.config)
}

fn split(flag: &str, pairs: &[String]) -> Result<Vec<(String, String)>, CommandError> {
    let split = |pair: &String| {
        // Name only the flag: the value may be a secret.
        let (key, value) = pair.split_once('=').ok_or_else(|| {
            CommandError::new(format!("a value of {flag} has no `=`"))
                .hint(format!("write {flag} KEY=VALUE"))
        })?;
        Ok((key.to_owned(), value.to_owned()))
    };
    pairs.iter().map(split).collect()
}

impl Service {
    fn create(&self, gateway: &GatewayArgs) -> Result<ExitCode, CommandError> {
        let (Some(name), Some(class)) = (&self.name, &self.class) else {
            return Err(CommandError::new(
                "service creation requires: muster create service <instance-name> <serviceclass-name> [--arg=value...]",
            ));
        };
        let words = ToolArgs::read(&self.words, gateway)?;
        process::block_on(async {
            let session = words.gateway.open().await?;
            let mut object = RawObject::new();
            object.set_value("name", name);
            object.set_value("serviceClassName", class);
            object.set_value("args", &typed_args(&session, class, &words).await);
            let done = session.show("core_service_create", &object.to_raw()).await;
            session.close().await;
            done
        })
    }
}

/// Converts the arguments to the types of the class. Unknown arguments stay text.
async fn typed_args(session: &GatewaySession, class: &str, words: &ToolArgs) -> Raw {
    let schema = match words.pairs.is_empty() {
        true => None,
        false => class_schema(session, class).await,
    };
    words.typed(&schema.unwrap_or_default())
}

async fn class_schema(session: &GatewaySession, class: &str) -> Option<Value> {
    let class: ServiceClassInfo =
        session.remote.reply("core_serviceclass_get", &one("name", class)).await.ok()?;
    Some(json!({"properties": class.args}))
}
