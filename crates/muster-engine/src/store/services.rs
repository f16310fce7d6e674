//! Writes service classes and services.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use muster_config::{
    kinds::DefinitionKind,
    service::{self, ServiceFile},
    serviceclass,
};
use muster_core::json;
use muster_workflow::service::{ServiceClass, ServiceRecord};

use serde_json::Value as Json;

use super::{ClassFile, ConfigStore, DefinitionStatus, Files, WriteError, write};
use crate::resource_status::service_ready;

/// The states of services in the state folder.
const STATES: &str = "service_states";

impl ConfigStore {
    /// Writes a new class.
    pub(crate) async fn create_class(&self, class: &ServiceClass) -> Result<(), WriteError> {
        let text = serviceclass::text(class, None);
        self.definitions.create(DefinitionKind::ServiceClass, &class.name, text).await
    }

    /// Rewrites a class, if its file is unchanged.
    pub(crate) async fn replace_class(
        &self,
        file: &ClassFile,
        class: &ServiceClass,
    ) -> Result<(), WriteError> {
        let (before, class) = (Arc::clone(&file.class), class.clone());
        let edit = move |now: &str| {
            let known = serviceclass::parse(now, &before.name);
            let is_meant = known.is_ok_and(|known| known.value == *before);
            is_meant.then(|| serviceclass::text(&class, Some(now)))
        };
        self.definitions.change(&file.path, Box::new(edit)).await
    }

    /// Writes a new service.
    pub(crate) async fn create_service(&self, file: &ServiceFile) -> Result<(), WriteError> {
        let name = &file.service.name;
        let text = service::text(&file.service);
        self.definitions.create(DefinitionKind::Service, name, text).await?;
        let (state, record) = (self.record_path(name), json::raw(&file.record));
        self.exclusively(move || write::put_state(&state, record.get())).await
    }

    /// Writes the state of a service to the state folder, and to its definition if `in_definition` or if the store
    /// holds statuses beside definitions.
    pub(crate) async fn write_record(
        &self,
        name: &str,
        path: &Path,
        in_definition: bool,
        record: &ServiceRecord,
    ) -> Result<(), WriteError> {
        let (state, text) = (self.record_path(name), json::raw(record));
        self.exclusively(move || write::put_state(&state, text.get())).await?;
        if let Some(sink) = self.definitions.status() {
            if let Ok(Json::Object(fields)) = serde_json::to_value(record) {
                let conditions = vec![service_ready(record)];
                sink.report(path, DefinitionStatus { generation: None, fields, conditions });
            }
            return Ok(());
        }
        if !in_definition {
            return Ok(());
        }
        let (path, record) = (path.to_owned(), record.clone());
        self.exclusively(move || write::changed(&path, |now| service::with_record(now, &record)))
            .await
    }

    /// Deletes a service and its state.
    pub(crate) async fn delete_service(&self, name: &str, path: &Path) -> Result<(), WriteError> {
        let deleted = self.definitions.delete(path).await;
        let state = self.record_path(name);
        let removed = self.exclusively(move || {
            drop(fs::remove_file(&state));
            Ok(())
        });
        removed.await?;
        deleted
    }

    /// Adds the last known states of services. Earlier versions wrote them into the files of services.
    pub(super) fn add_service_records(&self, files: &mut Files) {
        for (name, (_, file)) in &mut files.services {
            let text = fs::read_to_string(self.record_path(name)).ok();
            let record = text.and_then(|text| serde_json::from_str(&text).ok());
            if let Some(record) = record
                && file.record != record
            {
                *file = Arc::new(ServiceFile { record, ..(**file).clone() });
            }
        }
    }

    /// Removes the states of services that were deleted by hand. Blocks.
    pub(crate) fn forget_services(&self, files: &Files) {
        let entries = fs::read_dir(self.state.join(STATES)).into_iter().flatten().flatten();
        for path in entries.map(|entry| entry.path()) {
            let name = path.file_stem().unwrap_or_default().to_string_lossy();
            if !files.services.contains_key(&*name) {
                let _removed = fs::remove_file(&path);
            }
        }
    }

    fn record_path(&self, name: &str) -> PathBuf {
        self.state.join(STATES).join(format!("{name}.json"))
    }
}
