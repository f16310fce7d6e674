//! The registry of services: one immutable value, replaced on every change.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use jiff::Timestamp;
use muster_workflow::service::{
    Service, ServiceClass, ServiceRecord, ServiceState, health::HealthChecks, values,
};
use serde_json::{Map, Value};
use tokio::{sync::Mutex, time::Instant};

use super::Services;
use crate::status::moment;

/// All services at one moment.
#[derive(Debug, Clone, Default)]
pub(super) struct Registry {
    pub(super) instances: Arc<BTreeMap<String, Arc<Instance>>>,
    /// Set at shutdown: from then on nothing is started.
    pub(super) shutting_down: bool,
    last_id: u64,
}

/// Distinguishes a service from earlier ones of the same name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Id(u64);

/// A service.
#[derive(Debug, Clone)]
pub(crate) struct Instance {
    pub(super) id: Id,
    pub(crate) service: Arc<Service>,
    /// The definition in its file, if edited since the start; applied with the next start.
    pub(super) edited: Option<Arc<Service>>,
    /// Its last known class.
    pub(super) class: Option<Arc<ServiceClass>>,
    /// Its file, if it outlives the gateway.
    pub(super) path: Option<PathBuf>,
    pub(crate) state: ServiceState,
    pub(crate) checks: HealthChecks,
    pub(crate) error: Option<String>,
    /// The outputs of its tools, by phase.
    pub(super) given: Map<String, Value>,
    pub(crate) outputs: Map<String, Value>,
    pub(crate) created: Timestamp,
    pub(crate) updated: Timestamp,
    /// The number of failed background starts in a row.
    pub(super) attempts: u64,
    /// When the next start is due, if one is.
    pub(super) retry_at: Option<Instant>,
    /// Whether it is being deleted.
    pub(super) deleting: bool,
    /// Incremented when its state changes.
    pub(super) changes: u64,
    /// Held during an operation.
    pub(super) lease: Arc<Mutex<()>>,
}

impl Instance {
    pub(super) fn new(
        service: Service,
        class: Option<Arc<ServiceClass>>,
        state: ServiceState,
    ) -> Self {
        let now = Timestamp::now();
        Self {
            id: Id::default(),
            service: Arc::new(service),
            edited: None,
            class,
            path: None,
            state,
            checks: HealthChecks::default(),
            error: None,
            given: Map::new(),
            outputs: Map::new(),
            created: now,
            updated: now,
            attempts: 0,
            retry_at: None,
            deleting: false,
            changes: 0,
            lease: Arc::default(),
        }
    }

    /// The outputs of all its tools, merged.
    pub(crate) fn data(&self) -> Map<String, Value> {
        values::merged_outputs(&self.given)
    }

    /// The record in its file.
    pub(super) fn record(&self) -> ServiceRecord {
        ServiceRecord {
            state: self.state.as_str().to_owned(),
            last_error: self.error.clone().unwrap_or_default(),
            given: self.given.clone(),
            outputs: self.outputs.clone(),
            created_at: moment(self.created),
            updated_at: moment(self.updated),
        }
    }
}

impl Services {
    /// Registers a service, unless the name is taken.
    pub(super) fn insert(&self, mut instance: Instance) -> Option<Arc<Instance>> {
        let mut register = None;
        self.inner.registry.send_if_modified(|registry| {
            let name = instance.service.name.clone();
            if registry.instances.contains_key(&name) {
                return false;
            }
            registry.last_id += 1;
            instance.id = Id(registry.last_id);
            let instance = Arc::new(instance.clone());
            register = Some(Arc::clone(&instance));
            Arc::make_mut(&mut registry.instances).insert(name, instance);
            true
        });
        register
    }

    /// Changes a service. Returns the new value.
    pub(super) fn change(
        &self,
        name: &str,
        id: Id,
        change: impl FnOnce(&mut Instance),
    ) -> Option<Arc<Instance>> {
        let mut changed = None;
        self.inner.registry.send_if_modified(|registry| {
            let Some(instance) = Arc::make_mut(&mut registry.instances).get_mut(name) else {
                return false;
            };
            if instance.id != id {
                return false;
            }
            change(Arc::make_mut(instance));
            changed = Some(Arc::clone(instance));
            true
        });
        changed
    }

    /// Removes a service.
    pub(super) fn remove(&self, name: &str, id: Id) {
        self.inner.registry.send_if_modified(|registry| {
            let is_registered =
                registry.instances.get(name).is_some_and(|instance| instance.id == id);
            if is_registered {
                Arc::make_mut(&mut registry.instances).remove(name);
            }
            is_registered
        });
    }
}
