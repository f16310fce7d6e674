//! Writes service classes and services.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use muster_config::{
    service::{self, ServiceFile},
    serviceclass,
};
use muster_core::json;
use muster_workflow::service::{ServiceClass, ServiceRecord};

use super::{CLASSES, ClassFile, ConfigStore, Files, SERVICES, WriteError, write};

/// The states of services in the state folder.
const STATES: &str = "service_states";

impl ConfigStore {
    /// Writes a new class.
    pub(crate) async fn create_class(&self, class: &ServiceClass) -> Result<(), WriteError> {
        let folder = self.root.join(CLASSES);
        let path = folder.join(format!("{}.yaml", class.name));
        let text = serviceclass::text(class, None);
        self.exclusively(move || write::create(&folder, &path, &text)).await
    }

    /// Rewrites a class, if its file is unchanged.
    pub(crate) async fn replace_class(
        &self,
        file: &ClassFile,
        class: &ServiceClass,
    ) -> Result<(), WriteError> {
        let (ClassFile { path, class: before }, class) = (file.clone(), class.clone());
        let is_meant = move |now: &str| {
            serviceclass::parse(now, &before.name).is_ok_and(|now| now.value == *before)
        };
        self.exclusively(move || {
            let old = fs::read_to_string(&path).ok();
            write::replace(&path, &serviceclass::text(&class, old.as_deref()), is_meant)
        })
        .await
    }

    /// Writes a new service.
    pub(crate) async fn create_service(&self, file: &ServiceFile) -> Result<(), WriteError> {
        let folder = self.root.join(SERVICES);
        let path = folder.join(format!("{}.yaml", file.service.name));
        let (text, state) = (service::text(&file.service), self.record_path(&file.service.name));
        let record = json::raw(&file.record);
        self.exclusively(move || {
            write::create(&folder, &path, &text)?;
            write::put_state(&state, record.get())
        })
        .await
    }

    /// Writes the state of a service, and if `file` is given, also into its file.
    pub(crate) async fn write_record(
        &self,
        name: &str,
        file: Option<&Path>,
        record: &ServiceRecord,
    ) -> Result<(), WriteError> {
        let (state, file) = (self.record_path(name), file.map(Path::to_owned));
        let record: Arc<ServiceRecord> = Arc::new(record.clone());
        self.exclusively(move || {
            write::put_state(&state, json::raw(&*record).get())?;
            match file {
                Some(path) => write::changed(&path, |now| service::with_record(now, &record)),
                None => Ok(()),
            }
        })
        .await
    }

    /// Deletes a service and its state.
    pub(crate) async fn delete_service(&self, name: &str, path: &Path) -> Result<(), WriteError> {
        let (path, state) = (path.to_owned(), self.record_path(name));
        self.exclusively(move || {
            let deleted = write::delete(&path);
            let _removed = fs::remove_file(state);
            deleted
        })
        .await
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
