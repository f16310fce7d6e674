//! The surfaces of the gateway: what its clients see.

use std::{path::Path, sync::Arc};

use muster_client::models::SearchModel;
use muster_config::settings::SearchSettings;
use muster_core::{
    request::{ServerCapabilities, ServerInfo},
    shared::ReplicaLink as _,
};
use muster_engine::engine::Engine;
use muster_gateway::{
    dispatch::Dispatcher,
    embeddings::ToolEmbeddings,
    front::Front,
    outputs::Outputs,
    surface::{
        Surface,
        discovery::DiscoverySurface,
        meta::{Meta, native::NativeOptions},
    },
};
use muster_shared::Replica;
use muster_telemetry::Telemetry;
use tokio::runtime::Handle;

use super::{
    args::{Serve, SurfaceArg},
    replicas,
};

/// The capabilities of the gateway. Servers come and go, so it declares all capabilities that a server may have.
const CAPABILITIES: ServerCapabilities = ServerCapabilities {
    tools_change: true,
    resources: true,
    prompts: true,
    completions: true,
    logging: true,
};

/// The fronts of the gateway, one for each kind of client.
pub(super) struct Fronts {
    pub(super) agents: Arc<Front>,
    /// The front of the console, which has meta-tools whatever surface agents see.
    pub(super) console: Arc<Front>,
}

pub(super) fn fronts(
    shown: SurfaceArg,
    identity: &ServerInfo,
    surface: Box<dyn Surface>,
    (dispatcher, engine): (&Arc<Dispatcher>, &Engine),
    state: &Path,
    replica: Option<&Arc<Replica>>,
) -> Fronts {
    let front = |surface| {
        let (identity, changes) = (identity.clone(), engine.changes());
        Front::new(identity, CAPABILITIES, surface, Arc::clone(dispatcher), changes)
    };
    let agents = front(surface);
    let agents = Arc::new(match replica {
        Some(replica) => agents.sharing(replicas::link(replica)),
        None => agents,
    });
    let console = match shown {
        SurfaceArg::Muster | SurfaceArg::Auto => Arc::clone(&agents),
        SurfaceArg::Climax => Arc::new(front(Box::new(meta(engine, state, replica)))),
    };
    Fronts { agents, console }
}

/// The dispatcher of calls that agents make through a surface.
pub(super) fn dispatcher(
    engine: &Engine,
    telemetry: &Telemetry,
    surface: &'static str,
) -> Arc<Dispatcher> {
    let dispatcher = Dispatcher::new(engine.state())
        .with_principals(engine.user_connections())
        .with_observer(telemetry.observer())
        .serving(surface);
    Arc::new(dispatcher)
}

/// The surface that clients see, with semantic search unless it is switched off.
pub(super) fn surface(
    args: &Serve,
    settings: &SearchSettings,
    engine: &Engine,
    state: &Path,
    replica: Option<&Arc<Replica>>,
) -> Box<dyn Surface> {
    match args.surface {
        SurfaceArg::Climax => Box::new(DiscoverySurface::storing(outputs(state, replica))),
        SurfaceArg::Muster | SurfaceArg::Auto => {
            let native = NativeOptions {
                read_tool: args.read_tool,
                ui_tools: args.ui_tools,
                direct_tokens: args.direct_tokens(),
            };
            let meta = meta(engine, state, replica).with_native(native);
            let model = settings.model.then(SearchModel::find).flatten();
            let Some(model) = model else { return Box::new(meta) };
            let embeddings = ToolEmbeddings::new(Box::new(move || model.load()));
            let embeddings = Arc::new(embeddings.cached_in(state.join("meanings/vectors")));
            engine.embed(Arc::clone(&embeddings));
            Box::new(meta.with_embeddings(embeddings))
        }
    }
}

/// The surface of meta-tools.
fn meta(engine: &Engine, state: &Path, replica: Option<&Arc<Replica>>) -> Meta {
    Meta::storing(outputs(state, replica)).with_steps(engine.step_runner())
}

/// The storage of long results, which clients read in pieces.
fn outputs(state: &Path, replica: Option<&Arc<Replica>>) -> Outputs {
    let outputs = Outputs::at(state.join("outputs"));
    match replica {
        Some(replica) => outputs.shared_by(Arc::clone(replica.state()), Handle::current()),
        None => outputs,
    }
}
