//! The attacks that muster is tested against, and the tests of each. Those of this suite go through the real binary; where
//! an attack needs what no client can arrange, such as a certain moment, the test of the crate stands for it.

use std::{fs, path::Path};

/// Attacks, and the tests of each: `module::test` of this suite, or `crate/file.rs::test`.
const ATTACKS: &[(&str, &[&str])] = &[
    // Callers and what they may do.
    (
        "an ordinary user adds a server that runs a command, gets the tokens of others, or opens the gateway",
        &[
            "attacks::only_admins_change_a_protected_gateway",
            "attacks::ordinary_users_see_only_core_tools_that_read",
            "operators::only_operators_change_a_gateway",
            "operators::an_agents_server_runs_when_an_operator_approves_it",
        ],
    ),
    (
        "a workflow or a service class calls for its author what the caller may not",
        &[
            "attacks::what_a_service_class_calls_is_called_as_its_caller",
            "operators::only_operators_change_a_gateway",
            "muster-engine/tests/suite/workflows.rs::a_resumed_run_is_bound_to_the_toolset_of_its_caller",
        ],
    ),
    (
        "a server gets another address and keeps its secrets and logins",
        &[
            "muster-engine/tests/suite/operators.rs::secrets_are_not_sent_to_another_address",
            "muster-auth/tests/suite/client_tokens.rs::a_login_ends_when_the_address_of_its_server_changes",
        ],
    ),
    ("a token leaves its toolset", &["attacks::a_toolset_binds_a_token_on_every_path"]),
    (
        "somebody whose right was withdrawn goes on",
        &[
            "attacks::lists_of_users_change_while_the_gateway_runs",
            "attacks::streams_end_with_the_right_to_use_the_gateway",
            "access::a_token_is_accepted_until_it_is_revoked",
        ],
    ),
    (
        "a caller learns of servers that are hidden from it",
        &[
            "attacks::callers_learn_only_of_servers_that_they_can_use",
            "muster-engine/tests/suite/operators.rs::agents_know_only_of_servers_that_they_can_use",
        ],
    ),
    (
        "a rule for one OAuth client lets in another",
        &[
            "login_attacks::a_rule_for_one_client_lets_in_no_other",
            "muster-config/src/policy/tests/callers.rs::an_entry_names_the_clients_of_logins",
        ],
    ),
    (
        "a rule for one server's tool lets in another server's",
        &["hostile_servers::a_rule_for_a_tool_of_one_server_shows_no_tool_of_another"],
    ),
    // Exposure.
    (
        "an agent writes or runs code on a gateway that nobody configured",
        &[
            "exposure::an_unconfigured_gateway_only_reads_and_only_here",
            "exposure::an_agent_of_an_empty_folder_only_reads",
            "exposure::tools_that_write_are_switched_on_by_name",
        ],
    ),
    (
        "another user of the machine calls tools",
        &[
            "access::other_users_of_the_machine_are_refused",
            "access::other_users_cannot_call_the_tools_of_climax",
            "access::the_users_own_clients_are_known_by_the_token_in_their_file",
        ],
    ),
    (
        "another machine reaches a gateway without logins",
        &["access::an_address_for_other_machines_needs_logins_tokens_or_insistence"],
    ),
    (
        "a web page reaches the gateway, by its address or under another name",
        &[
            "serve::health_is_told_and_strangers_are_refused",
            "access::a_gateway_without_logins_answers_to_the_names_it_is_given",
            "protected::it_answers_to_its_own_name_and_to_pages_that_are_allowed",
        ],
    ),
    (
        "a tool that counts as reading runs the project's code",
        &[
            "exposure::an_unconfigured_gateway_only_reads_and_only_here",
            "bundled::every_config_is_complete_and_names_are_unique",
        ],
    ),
    // Arguments.
    (
        "a value becomes an option of the program",
        &[
            "option_injection::an_operand_that_begins_with_a_dash_runs_nothing",
            "option_injection::the_end_of_options_protects_what_follows",
            "option_injection::bundled_tools_take_no_options_from_callers",
            "option_injection::bundled_operands_are_guarded",
            "option_injection::validate_names_unguarded_operands",
        ],
    ),
    (
        "a value becomes a command of a shell",
        &["injection::two_hundred_nasty_values_arrive_as_they_were_said"],
    ),
    (
        "a server reads other arguments than the policy judged",
        &["hostile_servers::arguments_reach_a_server_as_the_policy_judged_them"],
    ),
    (
        "the tool changes between the effect ceiling and the call",
        &[
            "muster-gateway/tests/meta/snapshot.rs::a_tool_that_becomes_destructive_does_not_slip_under_an_effect_ceiling",
        ],
    ),
    // Time, memory, connections.
    (
        "a long name, a deep value or a wide pattern stops the gateway, or comes back as long as it was",
        &["attacks::no_single_request_of_a_user_delays_the_others"],
    ),
    (
        "a schema of a server takes exponential time",
        &["hostile_servers::a_schema_that_doubles_with_every_level_delays_nobody"],
    ),
    (
        "a JSON path or a regular expression takes forever, also after its caller left",
        &[
            "exhaustion::paths_and_patterns_end_in_time",
            "muster-gateway/src/background_job.rs::a_job_learns_that_its_caller_left",
        ],
    ),
    (
        "half-sent heads, half-sent bodies and idle streams take every connection",
        &[
            "exhaustion::half_sent_requests_and_idle_streams_keep_nobody_out",
            "muster-mcp/src/http/connections.rs::connections_whose_body_does_not_arrive_make_room",
        ],
    ),
    (
        "a flood of sessions ends the sessions of others",
        &[
            "exhaustion::a_flood_of_sessions_does_not_end_those_in_use",
            "muster-mcp/tests/suite/legacy.rs::a_flood_of_sessions_ends_its_own",
        ],
    ),
    (
        "one caller takes every call, with a new session for each",
        &[
            "muster-mcp/tests/suite/legacy.rs::calls_of_one_caller_are_limited",
            "muster-mcp/src/http/caller_limits.rs::operators_are_counted_apart_from_agents",
        ],
    ),
    (
        "a server that does not answer takes the time of every call",
        &["backends::a_server_that_stops_answering_is_not_tried_for_a_while"],
    ),
    (
        "a search inside one line of a stored result goes on after its caller left",
        &["muster-gateway/src/outputs/line_pattern.rs::a_long_line_can_be_stopped"],
    ),
    (
        "new connections end those whose response is still being read, or are kept out by clients that read nothing",
        &[
            "muster-mcp/src/http/connections.rs::a_connection_whose_response_is_being_read_is_not_idle",
        ],
    ),
    (
        "a file of a user stops `validate`",
        &[
            "garbage::no_file_makes_validate_fall_over",
            "muster-config/src/yaml/tests.rs::many_keys_take_no_longer_each_than_few",
        ],
    ),
    // Logins.
    (
        "the link of a login at a server gives its sender the account of somebody else",
        &[
            "login_attacks::the_link_of_a_login_gives_nobody_the_account_of_somebody_else",
            "muster-auth/tests/suite/login_links.rs::a_login_link_works_only_for_the_user_who_asked_for_it",
            "muster-auth/tests/suite/login_links.rs::a_browser_without_a_login_is_asked_for_one",
        ],
    ),
    (
        "a login link sends its user to another site afterwards",
        &[
            "muster-auth/src/client/post_login_redirects.rs::pages_at_and_below_an_allowed_url",
            "muster-auth/tests/suite/login_links.rs::a_browser_goes_on_to_an_allowed_page_after_the_login",
        ],
    ),
    (
        "somebody exchanges a token for an audience that is not theirs, or one that nobody trusted signed",
        &[
            "muster-auth/tests/suite/broker.rs::who_may_exchange_what",
            "muster-auth/tests/suite/broker.rs::a_token_of_another_issuer_than_expected_is_not_passed_on",
            "muster-auth/tests/suite/broker.rs::without_a_broker_no_token_is_exchanged",
        ],
    ),
    (
        "invalid tokens flood the identity provider",
        &[
            "login_attacks::invalid_tokens_do_not_flood_the_provider",
            "muster-auth/tests/suite/token_faults.rs::invalid_opaque_tokens_do_not_flood_the_provider",
            "muster-auth/tests/suite/token_faults.rs::opaque_tokens_of_the_provider",
        ],
    ),
    (
        "a client registers the gateway's own callback, or a scheme that a system acts on",
        &[
            "login_attacks::clients_register_neither_the_gateways_callback_nor_schemes_that_systems_act_on",
            "muster-auth/tests/suite/our_faults.rs::the_gateways_own_callback_is_a_redirect_uri_in_tests_only",
            "muster-auth/tests/suite/our_faults.rs::registrations",
        ],
    ),
    (
        "the consent page shows another name than the client's",
        &[
            "login_attacks::clients_register_neither_the_gateways_callback_nor_schemes_that_systems_act_on",
            "muster-auth/tests/suite/our_faults.rs::the_consent_page_shows_hidden_characters",
        ],
    ),
    (
        "a challenge or a callback is read in two ways",
        &[
            "login::a_login_from_start_to_end",
            "login::logins_that_fail",
            "muster-auth/src/oauth/challenge.rs::parameters_inside_quoted_strings_are_not_parameters",
            "muster-auth/src/oauth/callback.rs::parameters_must_not_be_repeated",
            "muster-client/src/login/callback_server.rs::repeated_parameters_are_refused",
            "muster-auth/tests/suite/login_faults.rs::callback_parameters",
        ],
    ),
    (
        "a gateway that fails, or somebody in its place, makes the command line forget its login",
        &[
            "login::any_command_logs_in_where_it_has_to",
            "login::the_bridge_forgets_a_token_only_if_it_is_invalid",
        ],
    ),
    // Disclosure and forgery.
    ("a name writes a false line into the log", &["disclosure::names_forge_no_line_of_the_log"]),
    (
        "texts of servers drive the terminal",
        &["hostile_servers::texts_of_servers_do_not_drive_the_terminal"],
    ),
    (
        "values of arguments are in the log",
        &["disclosure::values_of_arguments_are_logged_only_for_debugging"],
    ),
    (
        "secrets of servers are shown, or left in imported files",
        &[
            "disclosure::secrets_of_servers_are_not_shown",
            "client_side::servers_of_other_clients_are_taken_over_without_their_secrets",
            "canaries::nothing_secret_is_found_anywhere",
        ],
    ),
    (
        "a link in an untrusted folder leads a bundled tool to keys of the user, or a device shows what is typed",
        &["credential_files::credentials_are_reached_neither_by_links_nor_by_searches"],
    ),
    (
        "an agent reads the secrets of servers, or becomes an operator, with files of the gateway",
        &["credential_files::a_gateway_does_not_show_its_own_secrets"],
    ),
    (
        "an agent reads keys and tokens of the user with a bundled tool",
        &[
            "credential_files::no_argument_of_a_bundled_tool_names_credentials",
            "credential_files::credentials_are_reached_neither_by_links_nor_by_searches",
            "credential_files::filters_of_jq_see_no_secrets_and_open_no_files",
            "muster-exec/src/credential_files/tests.rs::paths_to_credentials_are_refused",
        ],
    ),
    (
        "a tool or a server leaves a program running that outlives its call",
        &[
            "processes::what_a_call_leaves_running_ends_with_it_unless_its_cli_keeps_it",
            "processes::what_a_server_left_ends_with_it",
            "muster-exec/tests/suite/trees.rs::what_a_call_leaves_running_ends_with_it",
        ],
    ),
    (
        "a server reads the environment of the gateway",
        &["disclosure::stdio_servers_do_not_get_the_environment_of_the_gateway"],
    ),
    (
        "another user creates the folder of temporary files first, or reads what is in it",
        &[
            "processes::stored_outputs_are_removed_with_the_server_and_stale_ones_by_the_next",
            "muster-exec/src/private_dir.rs::a_directory_is_private_and_stale_ones_are_removed",
            "muster-exec/src/private_dir.rs::directories_of_others_are_neither_used_nor_removed",
            "disclosure::what_a_gateway_stores_is_private",
            "muster-engine/src/events/tests.rs::what_happened_is_found_newest_first",
            "disclosure::the_history_of_the_repl_is_private",
        ],
    ),
    (
        "names of tools look like others, or like nothing",
        &["hostile_servers::names_of_servers_are_made_harmless"],
    ),
    (
        "a server answers for another server's resource",
        &["hostile_servers::a_resource_is_listed_once_and_answered_by_its_server"],
    ),
    (
        "an operator weakens the gateway without knowing",
        &[
            "access::an_address_for_other_machines_needs_logins_tokens_or_insistence",
            "doctor::the_gateway_and_its_port",
            "doctor::what_a_policy_or_a_server_gives_away_is_told",
            "muster-client/src/doctor/access.rs::unsafe_settings_are_found",
            "muster-client/src/doctor/access.rs::files_that_others_can_read_or_write_are_found",
            "muster-client/src/doctor/exposure.rs::servers_that_get_or_send_more_than_they_should_are_found",
            "muster-client/src/doctor/addresses.rs::settings_that_trust_or_reach_too_much_are_found",
            "muster-client/src/doctor/exposure.rs::policies_and_clis_that_open_the_machine_are_found",
            "muster-engine/src/wide_grants.rs::rights_of_operators_for_agents_and_everybody_are_found",
        ],
    ),
    // Updates.
    (
        "a release or a model that somebody else made is installed",
        &[
            "self_update::a_build_without_a_key_downloads_nothing",
            "self_update::a_model_that_somebody_else_made_is_not_installed",
            "muster/src/commands/self_update/release.rs::a_program_is_replaced_by_a_signed_one_only",
            "muster/src/commands/models.rs::only_the_wheel_with_the_pinned_digest_is_downloaded",
        ],
    ),
];

#[test]
fn every_attack_has_its_tests() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for (attack, tests) in ATTACKS {
        assert!(!tests.is_empty(), "{attack}");
        for named in *tests {
            let (place, test) = named.rsplit_once("::").unwrap();
            let file = match place.contains('/') {
                true => crates.join(place),
                false => crates.join(format!("muster/tests/suite/{place}.rs")),
            };
            let text = fs::read_to_string(&file).unwrap_or_default();
            assert!(text.contains(&format!("fn {test}(")), "{attack}: there is no {named}");
        }
    }
}
