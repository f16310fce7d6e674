//! The dependencies of a service: tools of its class, servers and other services.

use std::collections::BTreeMap;

use muster_gateway::dispatch::GatewaySnapshot;
use muster_workflow::service::{ServiceState, class::ClassSpec, order};

use super::{Instance, Services};

/// The tools of a class that cannot be called. Core tools always can.
pub(crate) fn missing_tools(state: &GatewaySnapshot, spec: &ClassSpec) -> Vec<String> {
    let there = |tool: &str| {
        tool.starts_with("core_")
            || state.catalog.get(tool).is_some_and(|entry| state.policy.shows(entry))
    };
    let missing = spec.required_tools().into_iter().filter(|tool| !there(tool));
    missing.map(str::to_owned).collect()
}

/// A dependency of a service.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Dependency {
    /// It is running.
    Met,
    /// A service that is not running.
    Service(String),
    /// A server that is not connected.
    Server(String),
    /// Nothing has that name.
    Unknown(String),
}

impl Services {
    /// The dependencies of a service.
    pub(super) fn dependencies(&self, instance: &Instance) -> Vec<Dependency> {
        let class = self.class_of(instance);
        let names = class.map(|class| class.spec.service_config.dependencies.clone());
        names.unwrap_or_default().iter().map(|name| self.dependency(name)).collect()
    }

    fn dependency(&self, name: &str) -> Dependency {
        let met = |instance: &Instance| instance.state == ServiceState::Running;
        if let Some(service) = self.get(name) {
            return if met(&service) {
                Dependency::Met
            } else {
                Dependency::Service(name.to_owned())
            };
        }
        if let Some(server) = self.inner.deps.view.borrow().servers.get(name) {
            let up = server.status.condition.is_up();
            return if up { Dependency::Met } else { Dependency::Server(name.to_owned()) };
        }
        let all = self.all();
        let mut of_class = all.iter().filter(|instance| instance.service.class == name);
        match of_class.clone().find(|instance| met(instance)).or_else(|| of_class.next()) {
            Some(instance) if met(instance) => Dependency::Met,
            Some(instance) => Dependency::Service(instance.service.name.clone()),
            None => Dependency::Unknown(name.to_owned()),
        }
    }

    /// The dependency graph of services.
    pub(super) fn graph(&self) -> BTreeMap<String, Vec<String>> {
        let all = self.all();
        let of_name = |name: &String| -> Vec<String> {
            let is = |instance: &&std::sync::Arc<Instance>| instance.service.name == *name;
            if all.iter().any(|instance| is(&instance)) {
                return vec![name.clone()];
            }
            let of_class = all.iter().filter(|instance| instance.service.class == *name);
            of_class.map(|instance| instance.service.name.clone()).collect()
        };
        let needs = |instance: &Instance| -> Vec<String> {
            let class = self.class_of(instance);
            let names = class.map(|class| class.spec.service_config.dependencies.clone());
            names.unwrap_or_default().iter().flat_map(of_name).collect()
        };
        all.iter().map(|instance| (instance.service.name.clone(), needs(instance))).collect()
    }

    /// The cycle of dependencies that a service is part of, if any.
    pub(super) fn cycle(&self, name: &str) -> Option<String> {
        order::dependency_cycle(name, &self.graph()).map(|way| way.join(" → "))
    }

    /// Why a service cannot be started yet; `None` if it can.
    pub(super) fn blocked_by(&self, instance: &Instance) -> Option<String> {
        let Some(class) = self.class_of(instance) else {
            return Some(format!("waiting for ServiceClass {}", instance.service.class));
        };
        let missing = missing_tools(&self.inner.deps.state.borrow(), &class.spec);
        if !missing.is_empty() {
            return Some(format!("waiting for the tools {}", missing.join(", ")));
        }
        self.dependencies(instance).into_iter().find_map(|need| match need {
            Dependency::Met => None,
            Dependency::Service(name) | Dependency::Server(name) | Dependency::Unknown(name) => {
                Some(format!("waiting for {name}"))
            }
        })
    }
}
