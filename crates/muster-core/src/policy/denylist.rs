//! Tools that are known to be destructive, by their backend's own names.

/// Whether a tool is on the list.
pub(super) fn contains(local_name: &str) -> bool {
    DESTRUCTIVE.contains(&local_name)
}

const DESTRUCTIVE: [&str; 32] = [
    "apply_kubernetes_manifest",
    "delete_kubernetes_resource",
    "kubectl_apply",
    "kubectl_create",
    "kubectl_delete",
    "kubectl_patch",
    "kubectl_rollout",
    "kubectl_scale",
    "capi_create_cluster",
    "capi_create_machinedeployment",
    "capi_delete_cluster",
    "capi_delete_machine",
    "capi_move_cluster",
    "capi_pause_cluster",
    "capi_remediate_machine",
    "capi_resume_cluster",
    "capi_scale_cluster",
    "capi_scale_machinedeployment",
    "capi_update_cluster",
    "capi_upgrade_cluster",
    "install_helm_chart",
    "uninstall_helm_chart",
    "upgrade_helm_chart",
    "reconcile_flux_helmrelease",
    "reconcile_flux_kustomization",
    "reconcile_flux_resourceset",
    "reconcile_flux_source",
    "resume_flux_reconciliation",
    "suspend_flux_reconciliation",
    "cleanup",
    "create_incident",
    "update_dashboard",
];
