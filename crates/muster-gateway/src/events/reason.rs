//! Why there is an event.

/// What an event is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A server behind the gateway.
    McpServer,
    /// A workflow.
    Workflow,
}

impl Kind {
    /// Its name in files and filters.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::McpServer => "MCPServer",
            Self::Workflow => "Workflow",
        }
    }
}

/// What can happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// A tool or a file added a server.
    McpServerCreated,
    /// A tool or a file changed one.
    McpServerUpdated,
    /// A tool or a file took one away.
    McpServerDeleted,
    /// It could not be connected, or its file could not be written.
    McpServerFailed,
    /// It is being connected.
    McpServerStarting,
    /// It is up.
    McpServerStarted,
    /// It was ended.
    McpServerStopped,
    /// It is being connected again after it was up.
    McpServerRestarting,
    /// What it offers is known.
    McpServerToolsDiscovered,
    /// What it offers is gone.
    McpServerToolsUnavailable,
    /// It was lost, and is being connected again.
    McpServerRecoveryStarted,
    /// It is back.
    McpServerRecoverySucceeded,
    /// It is not back yet.
    McpServerRecoveryFailed,
    /// It wants a login first.
    McpServerAuthRequired,
    /// A tool or a file added a workflow.
    WorkflowCreated,
    /// A tool or a file changed one.
    WorkflowUpdated,
    /// A tool or a file took one away.
    WorkflowDeleted,
    /// A definition that a tool was given is wrong.
    WorkflowValidationFailed,
    /// A definition that a tool was given is right.
    WorkflowValidationSucceeded,
    /// It can be called.
    WorkflowToolRegistered,
    /// What clients can list has changed with it.
    WorkflowCapabilitiesRefreshed,
    /// It was called while its tools were missing.
    WorkflowUnavailable,
    /// A run began.
    WorkflowExecutionStarted,
    /// A run has a record.
    WorkflowExecutionTracked,
    /// A run came to its end.
    WorkflowExecutionCompleted,
    /// A run did not.
    WorkflowExecutionFailed,
    /// A step of a run began.
    WorkflowStepStarted,
    /// A step came to its end.
    WorkflowStepCompleted,
    /// A step did not.
    WorkflowStepFailed,
    /// A step was not done, because its condition did not hold.
    WorkflowStepSkipped,
    /// Whether a step is done was decided.
    WorkflowStepConditionEvaluated,
}

impl Reason {
    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::McpServerCreated => "MCPServerCreated",
            Self::McpServerUpdated => "MCPServerUpdated",
            Self::McpServerDeleted => "MCPServerDeleted",
            Self::McpServerFailed => "MCPServerFailed",
            Self::McpServerStarting => "MCPServerStarting",
            Self::McpServerStarted => "MCPServerStarted",
            Self::McpServerStopped => "MCPServerStopped",
            Self::McpServerRestarting => "MCPServerRestarting",
            Self::McpServerToolsDiscovered => "MCPServerToolsDiscovered",
            Self::McpServerToolsUnavailable => "MCPServerToolsUnavailable",
            Self::McpServerRecoveryStarted => "MCPServerRecoveryStarted",
            Self::McpServerRecoverySucceeded => "MCPServerRecoverySucceeded",
            Self::McpServerRecoveryFailed => "MCPServerRecoveryFailed",
            Self::McpServerAuthRequired => "MCPServerAuthRequired",
            Self::WorkflowCreated => "WorkflowCreated",
            Self::WorkflowUpdated => "WorkflowUpdated",
            Self::WorkflowDeleted => "WorkflowDeleted",
            Self::WorkflowValidationFailed => "WorkflowValidationFailed",
            Self::WorkflowValidationSucceeded => "WorkflowValidationSucceeded",
            Self::WorkflowToolRegistered => "WorkflowToolRegistered",
            Self::WorkflowCapabilitiesRefreshed => "WorkflowCapabilitiesRefreshed",
            Self::WorkflowUnavailable => "WorkflowUnavailable",
            Self::WorkflowExecutionStarted => "WorkflowExecutionStarted",
            Self::WorkflowExecutionTracked => "WorkflowExecutionTracked",
            Self::WorkflowExecutionCompleted => "WorkflowExecutionCompleted",
            Self::WorkflowExecutionFailed => "WorkflowExecutionFailed",
            Self::WorkflowStepStarted => "WorkflowStepStarted",
            Self::WorkflowStepCompleted => "WorkflowStepCompleted",
            Self::WorkflowStepFailed => "WorkflowStepFailed",
            Self::WorkflowStepSkipped => "WorkflowStepSkipped",
            Self::WorkflowStepConditionEvaluated => "WorkflowStepConditionEvaluated",
        }
    }

    /// What it is about.
    pub fn kind(self) -> Kind {
        match self.as_str().starts_with(Kind::Workflow.as_str()) {
            true => Kind::Workflow,
            false => Kind::McpServer,
        }
    }

    /// Whether somebody should look.
    pub const fn is_warning(self) -> bool {
        matches!(
            self,
            Self::McpServerFailed
                | Self::McpServerToolsUnavailable
                | Self::McpServerRecoveryFailed
                | Self::WorkflowExecutionFailed
                | Self::WorkflowValidationFailed
                | Self::WorkflowUnavailable
                | Self::WorkflowStepFailed
        )
    }

    /// The sentence about it; `detail` says more where there is more to say.
    pub(super) fn message(self, name: &str, detail: &str) -> String {
        let what = match self {
            Self::McpServerCreated => "was created",
            Self::McpServerUpdated => "was updated",
            Self::McpServerDeleted => "was deleted",
            Self::McpServerFailed => "failed",
            Self::McpServerStarting => "is starting",
            Self::McpServerStarted => "started",
            Self::McpServerStopped => "stopped",
            Self::McpServerRestarting => "is restarting",
            Self::McpServerToolsDiscovered => "offers its tools",
            Self::McpServerToolsUnavailable => "no longer offers its tools",
            Self::McpServerRecoveryStarted => "was lost and is being connected again",
            Self::McpServerRecoverySucceeded => "is back",
            Self::McpServerRecoveryFailed => "could not be connected again",
            Self::McpServerAuthRequired => "requires a login",
            Self::WorkflowCreated => "was created with",
            Self::WorkflowUpdated => "was updated with",
            Self::WorkflowDeleted => "was deleted",
            Self::WorkflowValidationFailed => "is not valid",
            Self::WorkflowValidationSucceeded => "is valid",
            Self::WorkflowToolRegistered => "can be called",
            Self::WorkflowCapabilitiesRefreshed => "is among the tools that clients can list",
            Self::WorkflowUnavailable => "cannot run",
            Self::WorkflowExecutionStarted => "began to run",
            Self::WorkflowExecutionTracked => "has a record of its run",
            Self::WorkflowExecutionCompleted => "came to its end",
            Self::WorkflowExecutionFailed => "failed",
            Self::WorkflowStepStarted => "started",
            Self::WorkflowStepCompleted => "completed",
            Self::WorkflowStepFailed => "failed",
            Self::WorkflowStepSkipped => "skipped",
            Self::WorkflowStepConditionEvaluated => "had its condition evaluated",
        };
        let kind = self.kind().as_str();
        let is_step = self.as_str().starts_with("WorkflowStep");
        match detail {
            // The detail begins with the step.
            detail if is_step => match detail.split_once(": ") {
                Some((step, more)) => format!("{kind} {name}: step {step} {what}: {more}"),
                None => format!("{kind} {name}: step {detail} {what}"),
            },
            detail if matches!(self, Self::WorkflowCreated | Self::WorkflowUpdated) => {
                format!("{kind} {name} {what} {detail}")
            }
            "" => format!("{kind} {name} {what}"),
            detail => format!("{kind} {name} {what}: {detail}"),
        }
    }
}
