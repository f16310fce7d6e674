//! The names of the meta-tools, through which agents reach all other tools. Clients rely on them.

/// The meta-tools. Every other tool is called through `call_tool`.
pub const NAMES: [&str; 12] = [
    "list_tools",
    "describe_tool",
    "list_core_tools",
    "filter_tools",
    "call_tool",
    "list_resources",
    "describe_resource",
    "get_resource",
    "list_prompts",
    "describe_prompt",
    "get_prompt",
    "get_output",
];

/// Whether a tool is a meta-tool.
pub fn is_meta_tool(tool: &str) -> bool {
    NAMES.contains(&tool)
}
