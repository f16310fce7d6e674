//! `muster service`: the gateway as a service of the user, under systemd or launchd.

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::{Args, Subcommand};
use muster_client::{env_vars, user_dirs};
use muster_core::markup::push_escaped;
use muster_engine::state_folder::StateFolder;

use crate::{
    error::{CALLS_CUT_OFF, CommandError},
    output::{Printer, shell_quoted},
};

/// A text by which units that this command wrote are recognized.
const MARK: &str = "Written by `muster service install`";

/// Run the gateway as a service of your user
#[derive(Debug, Args)]
pub(crate) struct Service {
    #[command(subcommand)]
    action: ServiceAction,
}

#[derive(Debug, Subcommand)]
enum ServiceAction {
    /// Write a unit that starts the gateway when you log in
    ///
    /// For systemd, or launchd on macOS. The unit has the PATH of this shell, so that the programs of servers are found.
    /// Prints the unit's file and the command that enables it.
    #[command(after_help = "\
Examples:
  muster service install --dry-run
  muster service install
  muster service install --config-path ./gateway")]
    Install(ServiceArgs),
    /// Remove the unit
    #[command(after_help = "\
Examples:
  muster service uninstall --dry-run
  muster service uninstall")]
    Uninstall(ServiceArgs),
}

#[derive(Debug, Args)]
struct ServiceArgs {
    /// The configuration directory [default: ~/.config/muster]
    #[arg(long, value_name = "DIR")]
    config_path: Option<PathBuf>,
    /// The state folder of the gateway, if it should have a special one
    #[arg(long, value_name = "DIR")]
    state_path: Option<PathBuf>,
    /// Print what would be done
    #[arg(long)]
    dry_run: bool,
}

/// The file of a unit, and the commands that tell the service manager about it.
#[derive(Debug)]
struct Unit {
    path: PathBuf,
    text: String,
    enable: String,
    disable: String,
}

pub(crate) fn run(args: &Service) -> Result<ExitCode, CommandError> {
    match &args.action {
        ServiceAction::Install(args) => install(&unit(args)?, args.dry_run),
        ServiceAction::Uninstall(args) => uninstall(&unit(args)?, args.dry_run),
    }?;
    Ok(ExitCode::SUCCESS)
}

fn install(unit: &Unit, dry_run: bool) -> Result<(), CommandError> {
    let (printer, path) = (Printer::stdout(), unit.path.display());
    if dry_run {
        return printer.line(&format!("# {path}\n{}", unit.text.trim_end()));
    }
    check_ours(unit)?;
    if let Some(folder) = unit.path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(&unit.path, &unit.text)
        .map_err(|error| CommandError::new(format!("cannot write {path}: {error}")))?;
    printer.line(&format!("Wrote {path}.\nEnable it with: {}", unit.enable))
}

fn uninstall(unit: &Unit, dry_run: bool) -> Result<(), CommandError> {
    let (printer, path) = (Printer::stdout(), unit.path.display());
    if !unit.path.exists() {
        return printer.line(&format!("{path} does not exist."));
    }
    check_ours(unit)?;
    if dry_run {
        return printer.line(&format!("Would remove {path}."));
    }
    fs::remove_file(&unit.path)?;
    printer.line(&format!("Removed {path}.\nStop the service with: {}", unit.disable))
}

/// Refuses to change a unit that this command did not write.
fn check_ours(unit: &Unit) -> Result<(), CommandError> {
    match fs::read_to_string(&unit.path) {
        Ok(text) if !text.contains(MARK) => {
            let path = unit.path.display();
            Err(CommandError::new(format!("{path} was not written by this command"))
                .hint("move it away first"))
        }
        Ok(_) | Err(_) => Ok(()),
    }
}

fn unit(args: &ServiceArgs) -> Result<Unit, CommandError> {
    let home = user_dirs::home()?;
    let default = user_dirs::config()?;
    let config = args.config_path.clone().unwrap_or_else(|| default.clone());
    let config = std::path::absolute(&config).unwrap_or(config);
    // Other configuration directories need units with different names: use that of the state folder.
    let name = match config == default {
        true => "muster".to_owned(),
        false => {
            let folder = StateFolder::of(&user_dirs::state()?, &config);
            let name = folder.path().file_name().unwrap_or_default().to_string_lossy();
            format!("muster-{name}")
        }
    };
    let mut words = vec![
        std::env::current_exe()?.display().to_string(),
        "serve".to_owned(),
        "--config-path".to_owned(),
        config.display().to_string(),
    ];
    // The service manager does not have this shell's variables, which select the state folder.
    let is_set = |name| env_vars::get(name).is_some();
    if args.state_path.is_some() || is_set("MUSTER_STATE_PATH") || is_set("XDG_STATE_HOME") {
        let folder = user_dirs::state_folder(&config, args.state_path.as_deref())?;
        let state = std::path::absolute(folder.path())?;
        words.extend(["--state-path".to_owned(), state.display().to_string()]);
    }
    let path = env_vars::get("PATH").unwrap_or_default();
    Ok(match cfg!(target_os = "macos") {
        true => launchd(&home, &name, &words, &path),
        false => systemd(&home, &name, &words, &path),
    })
}

fn systemd(home: &Path, name: &str, words: &[String], path: &str) -> Unit {
    let quoted = |word: &String| {
        let escaped = word.replace('\\', "\\\\").replace('"', "\\\"");
        format!("\"{}\"", escaped.replace('%', "%%").replace('$', "$$"))
    };
    let command: Vec<String> = words.iter().map(quoted).collect();
    let path = path.replace('%', "%%").replace('"', "");
    let text = format!(
        "# {MARK}; `muster service uninstall` removes it.
[Unit]
Description=muster gateway

[Service]
ExecStart={}
Environment=\"PATH={path}\"
Restart=on-failure
# Calls were cut off when it was stopped.
SuccessExitStatus={CALLS_CUT_OFF}

[Install]
WantedBy=default.target
",
        command.join(" ")
    );
    Unit {
        path: home.join(format!(".config/systemd/user/{name}.service")),
        text,
        enable: format!("systemctl --user daemon-reload && systemctl --user enable --now {name}"),
        disable: format!("systemctl --user disable --now {name}; systemctl --user daemon-reload"),
    }
}

fn launchd(home: &Path, name: &str, words: &[String], path: &str) -> Unit {
    let mut arguments = String::new();
    for word in words {
        let _written = write!(arguments, "\n    <string>{}</string>", escaped(word));
    }
    let text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>
<!-- {MARK}; `muster service uninstall` removes it. -->
<!DOCTYPE plist PUBLIC \"-//Apple//DTD PLIST 1.0//EN\" \"http://www.apple.com/DTDs/PropertyList-1.0.dtd\">
<plist version=\"1.0\">
<dict>
  <key>Label</key>
  <string>{name}</string>
  <key>ProgramArguments</key>
  <array>{arguments}
  </array>
  <key>EnvironmentVariables</key>
  <dict>
    <key>PATH</key>
    <string>{}</string>
  </dict>
  <key>RunAtLoad</key>
  <true/>
  <key>KeepAlive</key>
  <dict>
    <key>SuccessfulExit</key>
    <false/>
  </dict>
</dict>
</plist>
",
        escaped(path)
    );
    let file = home.join(format!("Library/LaunchAgents/{name}.plist"));
    let shown = shell_quoted(&file.to_string_lossy());
    Unit {
        enable: format!("launchctl bootstrap gui/$(id -u) {shown}"),
        disable: format!("launchctl bootout gui/$(id -u)/{name}"),
        path: file,
        text,
    }
}

/// Escapes a text for XML.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    text.chars().for_each(|c| push_escaped(&mut out, c));
    out
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use expect_test::expect;

    use super::{launchd, systemd};

    fn words() -> Vec<String> {
        ["/opt/my apps/muster", "serve", "--config-path", "/home/u/100% \"c\" & d$"]
            .map(str::to_owned)
            .to_vec()
    }

    #[test]
    fn a_unit_of_systemd() {
        let unit = systemd(Path::new("/home/u"), "muster", &words(), "/bin:/usr/bin");
        assert_eq!(unit.path, Path::new("/home/u/.config/systemd/user/muster.service"));
        expect![[r#"
            # Written by `muster service install`; `muster service uninstall` removes it.
            [Unit]
            Description=muster gateway

            [Service]
            ExecStart="/opt/my apps/muster" "serve" "--config-path" "/home/u/100%% \"c\" & d$$"
            Environment="PATH=/bin:/usr/bin"
            Restart=on-failure
            # Calls were cut off when it was stopped.
            SuccessExitStatus=5

            [Install]
            WantedBy=default.target
        "#]]
        .assert_eq(&unit.text);
    }

    #[test]
    fn a_property_list_of_launchd() {
        let unit = launchd(Path::new("/Users/u"), "muster", &words(), "/bin");
        assert_eq!(unit.path, Path::new("/Users/u/Library/LaunchAgents/muster.plist"));
        assert!(
            unit.text.contains("<string>/home/u/100% &quot;c&quot; &amp; d$</string>"),
            "{}",
            unit.text
        );
        assert_eq!(
            unit.enable,
            "launchctl bootstrap gui/$(id -u) /Users/u/Library/LaunchAgents/muster.plist"
        );
        let unit = launchd(Path::new("/Users/u v"), "muster", &words(), "/bin");
        assert_eq!(
            unit.enable,
            "launchctl bootstrap gui/$(id -u) '/Users/u v/Library/LaunchAgents/muster.plist'"
        );
    }
}
