//! Where a service is, and where it goes from there: one pure function.

/// Where a service is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServiceState {
    /// A gateway that is gone may have left it running.
    Unknown,
    /// It is wanted, and something else has to be up first.
    Waiting,
    /// A tool is starting it.
    Starting,
    /// It runs.
    Running,
    /// A tool is stopping it.
    Stopping,
    /// It does not run.
    Stopped,
    /// A tool that starts or stops it failed.
    Failed,
    /// It could not be started, and will be tried again.
    Retrying,
}

/// Everything that can happen to a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServiceEvent {
    /// It is to run.
    Start,
    /// It is not to run.
    Stop,
    /// It is to run anew.
    Restart,
    /// The tool has done its work.
    Done,
    /// The tool has failed, or nobody waited for it.
    Failed,
    /// It is to run when what it depends on is up.
    Wait,
    /// It is to be tried again.
    Retry,
    /// It turned out to run.
    FoundUp,
    /// It turned out not to run.
    FoundDown,
}

/// What follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transition {
    /// It is somewhere else, and nothing has to be done for that.
    MoveTo(ServiceState),
    /// A tool has to be run; until it is done the service is there.
    Run(LifecycleTool, ServiceState),
    /// It is so already.
    Already,
    /// Not now: a tool is running.
    Busy,
    /// This cannot happen here, and changes nothing.
    Ignored,
}

/// Which tool has to be run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LifecycleTool {
    /// The one that starts.
    Start,
    /// The one that stops.
    Stop,
    /// The one that restarts, or the one that stops and the one that starts.
    Restart,
}

/// What follows when `event` happens to a service that is at `state`.
pub const fn next(state: ServiceState, event: ServiceEvent) -> Transition {
    match (state, event) {
        (
            ServiceState::Unknown
            | ServiceState::Waiting
            | ServiceState::Stopped
            | ServiceState::Failed
            | ServiceState::Retrying,
            ServiceEvent::Start,
        )
        | (
            ServiceState::Waiting | ServiceState::Stopped | ServiceState::Retrying,
            ServiceEvent::Restart,
        ) => Transition::Run(LifecycleTool::Start, ServiceState::Starting),
        (
            ServiceState::Unknown | ServiceState::Running | ServiceState::Failed,
            ServiceEvent::Restart,
        ) => Transition::Run(LifecycleTool::Restart, ServiceState::Starting),
        (
            ServiceState::Unknown | ServiceState::Running | ServiceState::Failed,
            ServiceEvent::Stop,
        ) => Transition::Run(LifecycleTool::Stop, ServiceState::Stopping),
        // Nothing was started, so there is nothing for a tool to stop.
        (ServiceState::Waiting | ServiceState::Retrying, ServiceEvent::Stop)
        | (ServiceState::Unknown, ServiceEvent::FoundDown)
        | (ServiceState::Stopping, ServiceEvent::Done) => Transition::MoveTo(ServiceState::Stopped),
        (ServiceState::Unknown, ServiceEvent::FoundUp)
        | (ServiceState::Starting, ServiceEvent::Done) => Transition::MoveTo(ServiceState::Running),
        (ServiceState::Starting | ServiceState::Stopping, ServiceEvent::Failed) => {
            Transition::MoveTo(ServiceState::Failed)
        }
        (ServiceState::Waiting | ServiceState::Failed, ServiceEvent::Retry) => {
            Transition::MoveTo(ServiceState::Retrying)
        }
        (
            ServiceState::Unknown
            | ServiceState::Stopped
            | ServiceState::Failed
            | ServiceState::Retrying,
            ServiceEvent::Wait,
        ) => Transition::MoveTo(ServiceState::Waiting),
        (ServiceState::Running, ServiceEvent::Start | ServiceEvent::Wait)
        | (ServiceState::Stopped, ServiceEvent::Stop)
        | (ServiceState::Waiting, ServiceEvent::Wait) => Transition::Already,
        (
            ServiceState::Starting | ServiceState::Stopping,
            ServiceEvent::Start | ServiceEvent::Stop | ServiceEvent::Restart | ServiceEvent::Wait,
        ) => Transition::Busy,
        (
            _,
            ServiceEvent::Done
            | ServiceEvent::Failed
            | ServiceEvent::Retry
            | ServiceEvent::FoundUp
            | ServiceEvent::FoundDown,
        ) => Transition::Ignored,
    }
}

impl ServiceState {
    /// Every one.
    pub const ALL: [Self; 8] = [
        Self::Unknown,
        Self::Waiting,
        Self::Starting,
        Self::Running,
        Self::Stopping,
        Self::Stopped,
        Self::Failed,
        Self::Retrying,
    ];

    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Waiting => "waiting",
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Stopping => "stopping",
            Self::Stopped => "stopped",
            Self::Failed => "failed",
            Self::Retrying => "retrying",
        }
    }

    /// What a word that a gateway wrote before it ended means for the next one.
    pub fn remembered(word: &str) -> Self {
        match word {
            // It was on its way, or up: only a tool could say where it is now.
            "running" | "starting" | "stopping" | "unknown" => Self::Unknown,
            "failed" | "retrying" => Self::Failed,
            _ => Self::Stopped,
        }
    }

    /// Whether a tool is running for it.
    pub const fn is_passing(self) -> bool {
        matches!(self, Self::Starting | Self::Stopping)
    }

    /// Whether ending the gateway would leave something behind.
    pub const fn may_run(self) -> bool {
        matches!(self, Self::Running | Self::Starting)
    }
}

impl ServiceEvent {
    /// Every one.
    pub const ALL: [Self; 9] = [
        Self::Start,
        Self::Stop,
        Self::Restart,
        Self::Done,
        Self::Failed,
        Self::Wait,
        Self::Retry,
        Self::FoundUp,
        Self::FoundDown,
    ];
}

#[cfg(test)]
mod tests {
    use super::{LifecycleTool, ServiceEvent, ServiceState, Transition, next};

    /// One row for each state, one column for each event.
    const TABLE: &str = "
                  start    stop     restart  done     broke    hold     retry    up       down
        unknown   start    stop     restart  -        -        waiting  -        running  stopped
        waiting   start    stopped  start    -        -        already  retrying -        -
        starting  busy     busy     busy     running  failed   busy     -        -        -
        running   already  stop     restart  -        -        already  -        -        -
        stopping  busy     busy     busy     stopped  failed   busy     -        -        -
        stopped   start    already  start    -        -        waiting  -        -        -
        failed    start    stop     restart  -        -        waiting  retrying -        -
        retrying  start    stopped  start    -        -        waiting  -        -        -
    ";

    #[test]
    fn every_pair_of_state_and_event() {
        let rows: Vec<Vec<&str>> = TABLE
            .lines()
            .map(|line| line.split_whitespace().collect())
            .filter(|row: &Vec<&str>| !row.is_empty())
            .skip(1)
            .collect();
        assert_eq!(rows.len(), ServiceState::ALL.len());
        for (state, row) in ServiceState::ALL.into_iter().zip(rows) {
            let (word, cells) = row.split_first().unwrap();
            assert_eq!(state.as_str(), *word);
            assert_eq!(cells.len(), ServiceEvent::ALL.len(), "{word}");
            for (event, expect) in ServiceEvent::ALL.into_iter().zip(cells) {
                assert_eq!(shown(next(state, event)), *expect, "{state:?} {event:?}");
            }
        }
    }

    fn shown(next: Transition) -> &'static str {
        match next {
            Transition::MoveTo(state) => state.as_str(),
            Transition::Run(LifecycleTool::Start, ServiceState::Starting) => "start",
            Transition::Run(LifecycleTool::Stop, ServiceState::Stopping) => "stop",
            Transition::Run(LifecycleTool::Restart, ServiceState::Starting) => "restart",
            Transition::Run(tool, state) => panic!("{tool:?} in {state:?}"),
            Transition::Already => "already",
            Transition::Busy => "busy",
            Transition::Ignored => "-",
        }
    }

    #[test]
    fn what_the_last_gateway_wrote() {
        let table = [
            ("running", ServiceState::Unknown),
            ("starting", ServiceState::Unknown),
            ("stopping", ServiceState::Unknown),
            ("unknown", ServiceState::Unknown),
            ("failed", ServiceState::Failed),
            ("retrying", ServiceState::Failed),
            ("stopped", ServiceState::Stopped),
            ("waiting", ServiceState::Stopped),
            ("", ServiceState::Stopped),
        ];
        for (word, state) in table {
            assert_eq!(ServiceState::remembered(word), state, "{word}");
        }
    }
}
