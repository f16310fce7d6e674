//! The files of services that outlive the gateway.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use jiff::Timestamp;
use muster_config::service::ServiceFile;
use muster_workflow::service::{ServiceRecord, ServiceState};

use muster_core::backend::boxed;

use super::{Instance, Services, registry::Id};
use crate::{
    events::Reason,
    resource_status::service_ready,
    store::{DefinitionStatus, WriteError},
};

impl Services {
    /// Applies the files of services: registers new services, and stops deleted ones.
    pub(crate) fn take(&self, files: &BTreeMap<String, (PathBuf, Arc<ServiceFile>)>, first: bool) {
        for (name, (path, file)) in files {
            match self.get(name) {
                Some(instance) => self.take_again(&instance, path, file),
                None => self.take_new(path, file, first),
            }
        }
        for instance in self.all() {
            let name = &instance.service.name;
            if instance.path.is_some() && !instance.deleting && !files.contains_key(name) {
                self.take_away(&instance);
            }
        }
    }

    fn take_again(&self, instance: &Instance, path: &Path, file: &ServiceFile) {
        let newest = instance.edited.as_ref().unwrap_or(&instance.service);
        let same = instance.path.as_deref() == Some(path) && **newest == file.service;
        if same || instance.deleting {
            return;
        }
        let service = Arc::new(file.service.clone());
        self.change(&instance.service.name, instance.id, |instance| {
            instance.path = Some(path.to_owned());
            // A running service must be stopped with the arguments it was started with.
            match instance.state.may_run() || instance.state.is_passing() {
                true => instance.edited = Some(service),
                false => instance.service = service,
            }
        });
    }

    fn take_new(&self, path: &Path, file: &ServiceFile, first: bool) {
        let ServiceFile { service, record } = file;
        if self.is_static(&service.name) {
            tracing::warn!("{}: the name '{}' is that of a server", path.display(), service.name);
            return;
        }
        let class = self.class(&service.class);
        let asks = class
            .as_ref()
            .is_some_and(|class| class.spec.service_config.lifecycle_tools.status.is_some());
        let state = match ServiceState::remembered(&record.state) {
            // The status tool can tell whether it is still running.
            ServiceState::Unknown if asks => ServiceState::Unknown,
            _ if service.auto_start => ServiceState::Waiting,
            state => state,
        };
        let ServiceRecord { last_error, given, outputs, created_at, .. } = record.clone();
        let mut instance = Instance::new(service.clone(), class, state);
        instance.path = Some(path.to_owned());
        instance.given = given;
        instance.outputs = outputs;
        instance.error = Some(last_error).filter(|error| !error.is_empty());
        instance.created = created_at.parse().unwrap_or_else(|_| Timestamp::now());
        if let Some(register) = self.insert(instance) {
            if !first {
                self.record(Reason::ServiceInstanceCreated, &register, "");
            }
            self.report_ready(path, &register);
            self.spawn_controller(&register);
        }
    }

    /// Reports whether a service is running, if statuses are reported. The next change of its state may be far off.
    fn report_ready(&self, path: &Path, instance: &Instance) {
        if let Some(sink) = self.inner.deps.store.definitions().status() {
            let conditions = vec![service_ready(&instance.record())];
            sink.report(path, DefinitionStatus { conditions, ..DefinitionStatus::default() });
        }
    }

    /// Deletes a service whose file was deleted by hand.
    fn take_away(&self, instance: &Instance) {
        let (name, id): (String, Id) = (instance.service.name.clone(), instance.id);
        self.change(&name, id, |instance| {
            instance.deleting = true;
            instance.path = None;
        });
        let services = self.clone();
        self.inner.deps.tasks.spawn(boxed(async move {
            if let Err(error) = services.delete(services.system(), &name).await {
                tracing::debug!(service = name, "{error}");
            }
        }));
    }

    /// Writes the state of a service that has a file, and into the file itself if the settings say so.
    pub(super) async fn save(&self, instance: &Instance) {
        let Some(path) = &instance.path else { return };
        let writes_status = self.inner.deps.view.borrow().settings.write_status;
        let (store, name) = (&self.inner.deps.store, &instance.service.name);
        match store.write_record(name, path, writes_status, &instance.record()).await {
            // The next change is written over the concurrent edit.
            Ok(()) | Err(WriteError::Gone(_) | WriteError::Changed(_)) => (),
            Err(error) => tracing::warn!("{error}"),
        }
    }
}
